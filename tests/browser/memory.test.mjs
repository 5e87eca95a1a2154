// The memory map as people use it: zoomed along the bytes, clicked, walked through by keys, moved in both ways.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import * as harness from "./harness.mjs";

const OWN = "#0072b2";
const SHARED = "#e69f00";
const tensor = (name, storage, shape, strides, offset = 0, dtype = "f32") => ({ name, storage, dtype, shape, strides, offset });
const LAYOUT = {
  storages: [
    { id: "w", device: "cpu", bytes: 2400 },
    { id: "<b>v</b>", device: "cpu", bytes: 2400 },
    { id: "there", device: "cuda:0", bytes: 400 },
  ],
  tensors: [
    tensor("matrix", "w", [20, 20], [20, 1]),
    tensor("column", "w", [20], [20], 7),
    tensor("reversed row", "w", [20], [-1], 79),
    tensor("apart", "w", [10], [1], 590),
    tensor("<script>alert(1)</script>", "<b>v</b>", [9, 300], [0, 2]),
    tensor("empty", "<b>v</b>", [0], [1]),
    tensor("stays", "there", [100], [1]),
  ],
};

const room = harness.room();
let page, mixed, both;

before(async () => {
  const layout = room.files.write("layout.json", JSON.stringify(LAYOUT));
  page = await harness.viewed(room.files, "layout.html", layout, "--to", "cuda:0");
  const other = room.files.write("other.json", JSON.stringify(LAYOUT).replaceAll("matrix", "another"));
  both = await harness.viewed(room.files, "both.html", layout, other);
  mixed = await harness.viewed(room.files, "mixed.html", join(harness.ROOT, "native/programs/strategy-b.txt"), layout);
});

const state = (canvas) =>
  canvas.evaluate(({ dataset: d }) => ({
    x: Number(d.plotX),
    lo: Number(d.startByte),
    hi: Number(d.endByte),
    tensor: d.tensor,
    storage: d.storage,
    scroll: Number(d.scroll),
  }));

/** Waits until the canvas' state is as wanted; gives it. */
const until = (canvas, is, what) => harness.until(state, canvas, is, what);

/** The upper end of the `n`th stretch of rows, from the top, that hold at least 40 pixels of a colour; in CSS pixels. */
const stretch = (canvas, colour, n) =>
  canvas.evaluate(
    (element, [colour, n]) => {
      const wanted = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
      const { data, width, height } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
      const is = (x, y) => wanted.every((v, c) => Math.abs(data[4 * (y * width + x) + c] - v) < 4);
      const scale = element.clientWidth / width;
      let seen = -1;
      for (let y = 0, last = false; y < height; y += 1) {
        let count = 0;
        for (let x = 0; x < width; x += 1) count += is(x, y) ? 1 : 0;
        const now = count >= 40;
        if (now && !last) seen += 1;
        if (now && seen === n) return (y + 3) * scale;
        last = now;
      }
      return null;
    },
    [colour, n],
  );

test("the map shows bytes of one view and of several, in a page that is small enough to send", async () => {
  assert.ok(readFileSync(page).length < 1_500_000);
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  assert.ok((await harness.pixels(canvas, OWN)) > 2000);
  assert.ok((await harness.pixels(canvas, SHARED)) > 300);
  assert.equal(await visit.page.locator(".sl-what").innerText(), "MEMORY");
  assert.equal(await visit.page.locator(".sl-range").innerText(), "w: bytes [0, 2,400)");
  assert.match(await visit.page.locator(".sl-notes").innerText(), /views stay views: 3 allocations of/);
  const rows = await visit.page.locator("tbody tr").allInnerTexts();
  assert.equal(rows.length, LAYOUT.tensors.length);
  assert.match(rows[4], /^<script>alert\(1\)<\/script>, f32\[9, 300\] strides \[0, 2\], each element 9 times, /);
  assert.equal(await visit.page.locator(".sl-left").isVisible(), false);
  await visit.close();
});

test("ctrl and the wheel zoom at the pointer, a drag pans along the bytes", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const first = await state(canvas);
  assert.deepEqual([first.lo, first.hi], [0, 2400]);
  const x = Math.round(first.x + 60);
  const y = await stretch(canvas, OWN, 0);
  await harness.wheel(visit.page, canvas, x, y, -300, ["Control"]);
  const near = await until(canvas, (s) => s.hi - s.lo < 0.8 * 2400, "the wheel did not zoom");
  const box = await canvas.boundingBox();
  await visit.page.mouse.move(box.x + x, box.y + y);
  await visit.page.mouse.down();
  await visit.page.mouse.move(box.x + x - 60, box.y + y, { steps: 5 });
  await visit.page.mouse.up();
  const panned = await until(canvas, (s) => s.lo > near.lo, "the drag did not pan");
  assert.equal(panned.tensor, "", "a drag is no click");
  await visit.page.keyboard.press("0");
  await until(canvas, (s) => s.lo === 0 && s.hi === 2400, "0 did not show all bytes");
  await visit.close();
});

test("a click says what a view is and with whom it shares bytes", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const x = (await state(canvas)).x - 30;
  await harness.click(canvas, x, await stretch(canvas, OWN, 1));
  await until(canvas, (s) => s.tensor === "0", "the click selected nothing");
  const details = await harness.selection(visit.page);
  assert.match(details, /^matrix\n+view of w on cpu/);
  assert.match(details, /shares with\n+column, reversed row/);
  assert.match(details, /span\n+elements 0 to 399, both inclusive/);
  assert.match(details, /bytes\n+\[0, 1,600\)/);
  assert.match(details, /after\n+w@cuda:0, offset 0 elements/);
  assert.match(await visit.page.locator("[aria-live]").innerText(), /^matrix, f32\[20, 20\]/);
  assert.match(await visit.page.locator("tr[aria-selected=true]").innerText(), /^matrix, /);
  await harness.click(canvas, x, await stretch(canvas, OWN, 0));
  await until(canvas, (s) => s.tensor === "" && s.storage === "0", "the storage was not selected");
  assert.match(await harness.selection(visit.page), /^w\n+storage on cpu/);
  await visit.close();
});

test("everything can be done by keys", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const press = async (key, is) => {
    await visit.page.keyboard.press(key);
    return until(canvas, is, `${key} did nothing`);
  };
  await press("ArrowDown", (s) => s.tensor === "0");
  await press("ArrowDown", (s) => s.tensor === "1");
  await press("ArrowRight", (s) => s.tensor === "2");
  assert.match(await harness.selection(visit.page), /Dimension 0 runs backwards/);
  await press("ArrowLeft", (s) => s.tensor === "1");
  await press("ArrowUp", (s) => s.tensor === "0");
  const near = await press("w", (s) => s.hi - s.lo < 2400);
  const right = await press("d", (s) => s.lo > near.lo);
  await press("a", (s) => s.lo < right.lo);
  await press("s", (s) => s.hi - s.lo > near.hi - near.lo);
  await press("0", (s) => s.hi - s.lo === 2400);
  await press("f", (s) => s.hi - s.lo < 2400);
  await press("Escape", (s) => s.tensor === "");
  const kept = visit.page.locator("[data-kind=aware]");
  await visit.page.keyboard.press("y");
  await harness.eventually(async () => (await kept.getAttribute("aria-pressed")) === "false", "y did nothing");
  assert.match(await visit.page.locator(".sl-notes").innerText(), /one view at a time: 5 allocations/);
  await kept.click();
  await harness.eventually(async () => (await kept.getAttribute("aria-pressed")) === "true", "the button did nothing");
  await visit.page.keyboard.press("?");
  await harness.eventually(() => visit.page.locator(".sl-keys-memory").isVisible(), "? did nothing");
  assert.equal(await visit.page.locator(".sl-keys-time").isVisible(), false);
  await visit.close();
});

test("the address brings the same bytes and view again, and alt left what was there before", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const rest = () => new Promise((wake) => setTimeout(wake, 500));
  await rest();
  for (const key of ["ArrowDown", "ArrowDown", "f", "y"]) await visit.page.keyboard.press(key);
  const seen = await until(canvas, (s) => s.tensor === "1" && s.hi - s.lo < 2400, "nothing is chosen");
  await harness.eventually(() => visit.page.evaluate(() => /view=1&bytes=0\.\d+\.\d+\.0&kind=naive/.test(location.hash)), "the address does not say it");
  const address = await visit.page.evaluate(() => location.href);
  const again = await room.browser.open(page);
  await again.page.goto("about:blank");
  await again.page.goto(address);
  const other = await harness.ready(again.page);
  await until(other, (s) => s.tensor === "1" && s.lo === seen.lo && s.hi === seen.hi, "another view, or other bytes");
  assert.equal(await again.page.locator("[data-kind=naive]").getAttribute("aria-pressed"), "true");
  await again.close();
  await visit.page.keyboard.press("Alt+ArrowLeft");
  await until(canvas, (s) => s.tensor === "" && s.lo === 0 && s.hi === 2400, "alt left brought something else");
  assert.equal(await visit.page.locator("[data-kind=aware]").getAttribute("aria-pressed"), "true");
  await visit.close();
});

test("a program and a layout live in one page, and a bad layout says why", async () => {
  const visit = await room.browser.open(mixed, { width: 1280, height: 800, colorScheme: "dark" });
  const canvas = await harness.ready(visit.page);
  const what = visit.page.locator(".sl-what");
  for (const [item, word, program] of [[1, "MEMORY", false], [0, "TIMELINE", true], [1, "MEMORY", false]]) {
    await visit.page.locator(`[data-item='${item}']`).click();
    await harness.eventually(async () => (await what.innerText()) === word, `item ${item} was not opened`);
    assert.equal(await visit.page.locator(".sl-left").isVisible(), program);
    assert.equal(await visit.page.locator(".sl-orders").isVisible(), program);
    assert.ok((await harness.painted(canvas)) > 2000);
  }
  await visit.close();

  const html = readFileSync(page, "utf8");
  const block = harness.dataOf(html);
  const bad = Buffer.from(block.toString("latin1").replace('"f32"', '"f33"'), "latin1");
  const broken = await room.browser.open(room.files.write("bad.html", harness.withData(html, bad)));
  const error = broken.page.locator(".sl-error");
  await harness.eventually(async () => (await error.count()) && (await error.isVisible()), "no word of the error");
  assert.match(await error.innerText(), /unknown dtype "f33"/);
  await broken.close();
});

test("of a map of nothing no range is told, whatever was shown before", async () => {
  const visit = await room.browser.open(mixed);
  await harness.ready(visit.page);
  const [range, empty] = [visit.page.locator(".sl-range").first(), Buffer.from('{"storages": [], "tensors": []}')];
  const buttons = visit.page.locator("button[data-item]");
  await visit.page.locator(".sl-files").setInputFiles([{ name: "empty.json", mimeType: "application/json", buffer: empty }]);
  await harness.eventually(async () => (await buttons.count()) === 3, "the layout is not there");
  for (const [before, said] of [[0, /^0 ns to/], [1, /^w: bytes/]]) {
    await buttons.nth(before).click();
    await harness.eventually(async () => said.test(await harness.words(range)), `not ${said}`);
    await buttons.nth(2).click();
    await harness.eventually(async () => (await harness.words(visit.page.locator(".sl-notes").first())) === "0 views of 0 storages", "another one is shown");
    assert.equal(await harness.words(range), "");
  }
  await visit.close();
});

test("the table is that of the layout which is shown, even where another has as many views", async () => {
  const visit = await room.browser.open(both);
  await harness.ready(visit.page);
  const first = visit.page.locator("tbody tr").first();
  for (const [item, name] of [[1, /^another, /], [0, /^matrix, /]]) {
    await visit.page.locator(`[data-item='${item}']`).click();
    await harness.eventually(async () => name.test(await first.innerText()), `the table has no ${name}`);
  }
  await visit.close();
});

test("slices are put below each other where both items have any, and not beside a memory map", async () => {
  const visit = await room.browser.open(mixed, { width: 1280, height: 900 });
  const canvas = await harness.ready(visit.page);
  const [align, choice] = [visit.page.locator(".sl-beside-head button", { hasText: /^align$/ }), visit.page.locator(".sl-beside-head select")];
  const fits = visit.page.locator(".sl-beside-head button", { hasText: "fit" });
  await visit.page.keyboard.press("c");
  await harness.eventually(() => choice.isVisible(), "nothing is compared");
  for (const [item, other, isOffered] of [[0, 1, false], [0, 0, true], [1, 0, false], [1, 1, false], [0, 0, true]]) {
    await visit.page.locator(`[data-item='${item}']`).click();
    await choice.selectOption({ index: other });
    const words = `items ${item} and ${other}: ${isOffered ? "not offered" : "offered"}`;
    await harness.eventually(async () => (await align.isVisible()) === isOffered && (await harness.painted(canvas)) > 500, words);
    // Of two of the same length, or where one is no timeline, there is nothing to fit.
    assert.deepEqual(await fits.evaluateAll((all) => all.filter((one) => one.clientWidth).length), 0, words);
  }
  await visit.close();
});

test("a window that changes its size is filled again, and two hundred things at random do no harm", async () => {
  const visit = await room.browser.open(page, { width: 1280, height: 800 });
  const canvas = await harness.ready(visit.page);
  for (const [width, height] of [[1024, 700], [1600, 1000], [800, 700], [420, 800], [320, 700], [1280, 800]]) {
    await visit.page.setViewportSize({ width, height });
    await harness.eventually(
      () => canvas.evaluate((c) => Math.abs(c.width - c.clientWidth * devicePixelRatio) <= 1 && Math.abs(c.height - c.clientHeight * devicePixelRatio) <= 1),
      `the canvas did not follow to ${width} x ${height}`,
    );
    const over = await visit.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${over} pixels stick out at ${width}`);
    assert.ok((await harness.pixels(canvas, OWN)) > 300, `nothing to see at ${width} x ${height}`);
  }
  const box = await canvas.boundingBox();
  let seed = 3;
  const below = (n) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return (seed >>> 8) % n;
  };
  const keys = ["w", "s", "a", "d", "f", "0", "n", "y", "t", "?", "Escape", "Enter", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "PageDown", "PageUp"];
  for (let i = 0; i < 200; i += 1) {
    const [x, y] = [box.x + below(box.width), box.y + below(box.height)];
    switch (below(5)) {
      case 0: await visit.page.mouse.click(x, y); break;
      case 1: await visit.page.mouse.move(x, y); break;
      case 2: await visit.page.mouse.wheel(below(400) - 200, below(800) - 400); break;
      case 3: await visit.page.mouse.dblclick(x, y); break;
      default: await visit.page.keyboard.press(keys[below(keys.length)]);
    }
  }
  await visit.page.keyboard.press("Escape");
  assert.ok((await harness.painted(canvas)) > 500);
  await visit.close();
});

/** A pickle of plain values: dictionaries, lists, texts, whole numbers. */
function pickle(value) {
  const parts = [Buffer.from([0x80, 2])];
  const put = (value) => {
    if (typeof value === "string") {
      const text = Buffer.from(value);
      const head = Buffer.alloc(5);
      head[0] = 0x58; // BINUNICODE
      head.writeUInt32LE(text.length, 1);
      parts.push(head, text);
    } else if (typeof value === "number") {
      const head = Buffer.alloc(11);
      head.set([0x8a, 9]); // LONG1 of nine bytes
      head.writeBigInt64LE(BigInt(value), 2);
      parts.push(head);
    } else {
      const isList = Array.isArray(value);
      parts.push(Buffer.from(isList ? "](" : "}("));
      if (isList) value.forEach(put);
      else for (const [key, item] of Object.entries(value)) [key, item].forEach(put);
      parts.push(Buffer.from(isList ? "e" : "u"));
    }
  };
  put(value);
  return Buffer.concat([...parts, Buffer.from(".")]);
}

/** Two blocks come, the first goes, a third takes part of its place; a microsecond apart. All so many times as large, from stacks so deep. */
function snapshot(at, times = 1, deep = 2) {
  const base = 0x7f0000000000;
  const [whole, half, quarter] = [4096 * times, 2048 * times, 1024 * times];
  const frames = (name, line) => [{ filename: "model/train.py", line, name }, ...Array(deep - 1).fill({ filename: "model/train.py", line: 99, name: "main" })];
  const event = (action, addr, size, k, stack) => ({ action, addr, size, stream: 0, time_us: at + k, frames: stack });
  const block = (size, state, stack) => ({ size, requested_size: size, state, frames: stack });
  return pickle({
    segments: [{
      device: 0, address: base, total_size: whole, allocated_size: 3 * quarter, active_size: 3 * quarter, requested_size: 3 * quarter, stream: 0, segment_type: "small",
      blocks: [block(quarter, "active_allocated", frames("third", 3)), block(quarter, "inactive", []), block(half, "active_allocated", frames("second", 2))],
    }],
    device_traces: [[
      event("segment_alloc", base, whole, 0, frames("first", 1)),
      event("alloc", base, half, 1, frames("first", 1)),
      event("alloc", base + half, half, 2, frames("second", 2)),
      event("free_requested", base, half, 3, []),
      event("free_completed", base, half, 4, []),
      event("alloc", base, quarter, 5, frames("third", 3)),
    ]],
    allocator_settings: {},
  });
}

test("steps through a snapshot leave on screen what a page opened at that moment shows", async () => {
  const visit = await room.browser.open(await harness.viewed(room.files, "steps.html", room.files.write("steps.pickle", snapshot(1_790_000_000_000_000))));
  const canvas = await harness.ready(visit.page);
  const moment = (is) => harness.eventually(async () => (await canvas.getAttribute("data-moment")) === String(is), `moment ${is}`);
  await moment(6);
  const [notes, rows] = [visit.page.locator(".sl-notes"), visit.page.locator(".sl-mirror tbody tr")];
  const [file, first] = [await harness.words(notes), await rows.allInnerTexts()];
  assert.match(file, /1 segment of 3 blocks: 4 KiB reserved, 3 KiB allocated/);
  assert.deepEqual([first.length, first[0].slice(0, 20)], [2, "0x7f0000000000 third"]);
  // At the end nobody asks for anything, and nothing stands where their names would.
  const below = await visit.page.locator("[data-state]").evaluate((c) => c.getBoundingClientRect().bottom - [...c.querySelectorAll("p")].at(-1).getBoundingClientRect().bottom);
  assert.ok(below < 16, `${below} pixels below the last line`);
  const inside = await canvas.boundingBox();
  const bar = await canvas.evaluate(({ dataset }) => Number(dataset.plotX));
  await visit.page.locator(".sl-plot").focus();
  const whole = async () => {
    await visit.page.mouse.move(1, 1);
    await harness.eventually(() => visit.page.locator(".sl-tip").isHidden(), "the pointer is still there");
    await canvas.evaluate((c) => (globalThis.parts = c.getContext("2d").getImageData(0, 0, c.width, c.height).data));
    // Another size and back: the canvas is empty then, and all of it is painted.
    const size = visit.page.viewportSize();
    for (const height of [size.height - 60, size.height]) {
      await visit.page.setViewportSize({ ...size, height });
      await harness.eventually(() => canvas.evaluate((c, height) => c.clientHeight === c.height && innerHeight === height, height), "the canvas did not follow");
    }
    // Where half a pixel is covered, lines in a part are rounded in another way.
    const apart = await canvas.evaluate((c) => {
      const whole = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
      return whole.reduce((n, value, k) => n + (Math.abs(value - globalThis.parts[k]) > 2), 0);
    });
    assert.equal(apart, 0, "what was painted in parts is another picture");
  };
  for (const [key, at] of [["[", 5], ["[", 4], ["[", 2], ["]", 4], ["[", 2], ["[", 1], ["]", 2]]) {
    // On its way the pointer lights blocks up.
    await visit.page.mouse.move(inside.x + bar + 20 + 30 * at, inside.y + 43);
    await harness.eventually(() => visit.page.locator(".sl-tip").isVisible(), "nothing is at the pointer");
    await visit.page.keyboard.press(key);
    await moment(at);
    await whole();
  }
  // The table is about the moment once the hand rests; what there is to read of the file stays.
  await harness.eventually(async () => /^0x7f0000000000 first/.test((await rows.allInnerTexts())[0]), "the table is about another moment");
  assert.equal(await harness.words(notes), file);
  await visit.close();
});

test("what could be better about a snapshot is listed as the command lists it, and its events are gone through", async () => {
  const [base, size] = [0x7f0000000000, 2 << 20];
  const frames = (name, line) => [{ filename: "model/train.py", line, name }];
  const events = (at) => [
    ["segment_alloc", at, size, "first", 1],
    ["segment_free", at, size, "first", 1],
    ["segment_alloc", at, size, "second", 2],
    ["alloc", at + 512, 512, "third", 3],
    ["segment_free", at + size, size, "second", 2],
    ["segment_alloc", at + size, size, "first", 1],
    ["oom", 0, 64 * size, "third", 3],
  ].map(([action, addr, bytes, name, line], k) => ({ action, addr, size: bytes, stream: 0, time_us: 1_790_000_000_000_000 + k, frames: frames(name, line) }));
  const segment = (device, address, ...blocks) => ({
    device, address, total_size: size, allocated_size: 0, active_size: 0, requested_size: 0, stream: 0, segment_type: "large",
    blocks: blocks.map(([bytes, state]) => ({ size: bytes, requested_size: bytes, state, frames: [] })),
  });
  const held = (device, at) => [segment(device, at, [512, "inactive"], [512, "active_allocated"], [size - 1024, "inactive"]), segment(device, at + size, [size, "inactive"])];
  const far = base + 64 * size;
  const path = room.files.write("found.pickle", pickle({ segments: [...held(0, base), ...held(1, far)], device_traces: [events(base), events(far)], allocator_settings: {} }));
  const { findings } = JSON.parse(await harness.spanlift("analyze", path, "--format", "json"));
  assert.ok(findings.some((f) => f.events[0][0] === 0) && findings.some((f) => f.events.at(-1)[0] === 1), "both devices have findings");
  const visit = await room.browser.open(await harness.viewed(room.files, "found.html", path));
  const canvas = await harness.ready(visit.page);
  const panel = visit.page.locator(".sl-advice");
  const all = panel.locator("li");
  await harness.eventually(async () => (await all.count()) === findings.length, "findings are not listed by themselves");
  const words = async (locator) => (await locator.textContent()).replace(/\s+/g, " ");
  assert.equal(await words(panel.locator(".sl-badge")), String(findings.length));
  for (const [k, { title, change, places }] of findings.entries()) {
    const told = await words(all.nth(k));
    for (const each of [title, change, ...(places.length > 1 ? places.map((p) => p.maker) : [])]) assert.ok(told.includes(each), `${told}: ${each}`);
  }
  // Opened, it shows the moment before its event, on the device of that.
  const card = visit.page.locator("[data-state]");
  const shows = async ([device, at]) => {
    await harness.eventually(async () => (await canvas.getAttribute("data-moment")) === String(at), `moment ${at} is not shown`);
    await harness.eventually(async () => new RegExp(`cuda:${device}: `).test(await words(card)), `cuda:${device} is not told`);
  };
  for (const [k, finding] of findings.entries()) {
    await all.nth(k).locator("summary").click();
    for (const [n, event] of finding.events.entries()) {
      await shows(event);
      await harness.eventually(async () => (await words(all.nth(k).locator("[role=status]"))) === `${n + 1} of ${finding.events.length}`, "it is not counted");
      await all.nth(k).getByRole("button", { name: "next event" }).click();
    }
    await shows(finding.events[0]);
  }
  // By a key too.
  await visit.page.locator(".sl-plot").focus();
  await visit.page.keyboard.press("n");
  await shows(findings[0].events[0]);
  // A layout has none, and of a snapshot where nothing stands out that is said.
  await visit.page.locator(".sl-files").setInputFiles([{ name: "layout.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(LAYOUT)) }]);
  await harness.eventually(async () => !(await panel.isVisible()), "a layout has findings");
  await visit.page.locator(".sl-files").setInputFiles([{ name: "well.pickle", mimeType: "", buffer: snapshot(1_790_000_000_000_000) }]);
  await harness.eventually(async () => /^Findings\s*Nothing about this memory stands out\.$/i.test((await panel.innerText()).trim()), "it is not said that nothing stands out");
  await visit.close();
});

test("a snapshot is seen at every moment, and its cursor is that of the timeline", async () => {
  const at = 1_790_000_000_000_000;
  const file = room.files.write("s.pickle", snapshot(at));
  // A recording of the same microseconds: a kernel from the second event to the fifth.
  const kernel = (ts, dur, c) => [
    { ph: "X", cat: "cuda_runtime", name: "cudaLaunchKernel", pid: 1, tid: 1, ts, dur: 0.5, args: { correlation: c } },
    { ph: "X", cat: "kernel", name: "scale", pid: 0, tid: 7, ts: ts + 0.5, dur, args: { device: 0, stream: 7, correlation: c } },
  ];
  const trace = room.files.write("t.json", JSON.stringify({ schemaVersion: 1, baseTimeNanoseconds: at * 1000, traceEvents: [...kernel(0, 1, 1), ...kernel(2, 3, 2)] }));
  const visit = await room.browser.open(await harness.viewed(room.files, "past.html", file, trace));
  const canvas = await harness.ready(visit.page);
  const moment = (is) => harness.eventually(async () => is(await canvas.getAttribute("data-moment")), `moment ${is}`);
  await moment((m) => m === "6");
  const [card, strip] = [visit.page.locator("[data-state]"), visit.page.locator(".sl-strip")];
  const says = (pattern) => harness.eventually(async () => pattern.test(await harness.words(card)), `the card says no ${pattern}`);
  await says(/3 KiB allocated of 4 KiB reserved; 1 KiB free within segments, the largest piece 1 KiB: fragmentation 0\.0 %/);
  assert.ok(await strip.isVisible());
  /** How far along the strip the line of the moment stands, from 0 to 1. */
  const line = async () => {
    const [inner, outer] = [await visit.page.locator(".sl-window").boundingBox(), await strip.boundingBox()];
    return (inner.x - outer.x) / (outer.width - inner.width);
  };
  const stands = (part) => harness.eventually(async () => Math.abs((await line()) - part) < 0.01, `the line is not at ${part}`);
  await stands(1);
  // A click on the bar of a segment: the block there, or the segment where none is; Enter lists its blocks, and once more not.
  const bar = await canvas.evaluate(({ dataset }) => Number(dataset.plotX));
  const inside = await canvas.boundingBox();
  const press = (part) => visit.page.mouse.click(inside.x + bar + part * (inside.width - bar - 16), inside.y + 43);
  const chosen = (pattern) => harness.eventually(async () => pattern.test(await harness.selection(visit.page)), `nobody selected ${pattern}`);
  await press(0.75);
  await chosen(/^0x7f0000000800 second \(train\.py:2\)\s+block of 0x7f0000000000 small, stream 0 on cuda:0\s+size\s+2 KiB\s+bytes\s+\[2,048, 4,096\)$/);
  await says(/2 KiB at 0x7f0000000800: allocated by event 2, still there at the end[^]*second/);
  await press(0.37);
  await chosen(/^0x7f0000000000 small, stream 0\s+segment on cuda:0/);
  const alone = await harness.look(canvas);
  await visit.page.locator(".sl-plot").focus();
  await visit.page.keyboard.press("Enter");
  await harness.eventually(async () => (await harness.look(canvas)) !== alone, "no list of blocks");
  await visit.page.keyboard.press("Enter");
  await visit.page.mouse.move(1, 1);
  await harness.eventually(async () => /2 blocks in sight/.test(await visit.page.locator(".sl-mirror caption").innerText()), "the table has no blocks");
  await visit.page.keyboard.press("[");
  await moment((m) => m === "5");
  await says(/next: alloc, 1 KiB at 0x7f0000000000, stream 0[^]*third \(model\/train\.py:3\)[^]*main/);
  await visit.page.keyboard.press("[");
  // What only asks for a block to be freed moves no memory.
  await moment((m) => m === "4");
  await stands(4 / 6);
  await says(/4 KiB allocated of 4 KiB reserved; 0 B free/);
  await visit.page.keyboard.press("ArrowDown");
  await says(/2 KiB at 0x7f0000000000: allocated by event 1, freed by event 4[^]*first/);
  // A click on the strip: the beginning, where nothing is held.
  const box = await strip.boundingBox();
  await visit.page.mouse.click(box.x + 1, box.y + 20);
  await moment((m) => m === "0");
  await stands(0);
  await says(/0 B allocated of 0 B reserved/);
  await visit.page.keyboard.press("]");
  await moment((m) => m === "1");
  // The timeline has the same point in time: event 2 is two microseconds in.
  await visit.page.keyboard.press("]");
  await moment((m) => m === "2");
  // The address keeps the moment.
  const address = await harness.eventually(() => visit.page.evaluate(() => /moment=2$/.test(location.hash) && location.href), "the address has no moment");
  await visit.page.goto("about:blank");
  await visit.page.goto(address);
  await harness.ready(visit.page);
  await moment((m) => m === "2");
  await visit.page.locator("button[data-item]").nth(1).click();
  await harness.eventually(async () => (await canvas.getAttribute("data-at")) === "2000", "the timeline has another time");
  const timeline = await canvas.evaluate(({ dataset: d }) => ({ start: Number(d.startNs), end: Number(d.endNs), x: Number(d.plotX), width: Number(d.plotWidth) }));
  const plot = await canvas.boundingBox();
  await visit.page.mouse.click(plot.x + timeline.x + ((4_000 - timeline.start) / (timeline.end - timeline.start)) * timeline.width, plot.y + 8);
  await visit.page.locator("button[data-item]").nth(0).click();
  // The last event before the fourth microsecond has happened; a pixel is some nanoseconds.
  await moment((m) => m === "4" || m === "5");
  await visit.close();
});

test("axe finds nothing in a snapshot with a block chosen, however low the window, and beside another", async () => {
  const files = [1, 4].map((times) => room.files.write(`axe${times}.pickle`, snapshot(1_790_000_000_000_000, times, 40)));
  const visit = await room.browser.open(await harness.viewed(room.files, "axe.html", ...files), { width: 1280, height: 400 });
  const canvas = await harness.ready(visit.page);
  await visit.page.evaluate(readFileSync(join(process.env.SPANLIFT_NODE_MODULES, "axe-core/axe.min.js"), "utf8"));
  const look = async (what) => {
    const { violations } = await visit.page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    assert.deepEqual(violations.map((found) => `${found.id}: ${found.nodes.map((node) => node.target)}`), [], what);
  };
  await visit.page.locator(".sl-plot").focus();
  await visit.page.keyboard.press("ArrowDown");
  await until(canvas, (s) => s.tensor !== "", "nothing is chosen");
  const stack = visit.page.locator("[data-state] .sl-stack").last();
  await harness.eventually(() => stack.evaluate((list) => list.scrollHeight > list.clientHeight), "its stack is all in sight");
  await look("chosen");
  // By keys alone all of it can be read.
  await stack.focus();
  await visit.page.keyboard.press("PageDown");
  await harness.eventually(() => stack.evaluate((list) => list.scrollTop > 50), "the stack does not scroll");
  await visit.page.keyboard.press("c");
  await harness.eventually(() => visit.page.locator("[data-compared]").first().isVisible(), "nothing is compared");
  await look("compared");
  await visit.close();
});

test("the address has the device whose moments are counted, also at their end, and leads back from it", async () => {
  const at = 1_790_000_000_000_000;
  const device = (k) => ({
    device: k, address: 0x7f0000000000 + k * 2 ** 30, total_size: 4096, allocated_size: 2048, active_size: 2048, requested_size: 2048, stream: 0, segment_type: "small",
    blocks: [{ size: 2048, requested_size: 2048, state: "active_allocated", frames: [] }, { size: 2048, requested_size: 2048, state: "inactive", frames: [] }],
  });
  const alloc = (k, size, time) => ({ action: "alloc", addr: 0x7f0000000000 + k * 2 ** 30, size, stream: 0, time_us: at + time, frames: [] });
  const free = (k, time) => ({ ...alloc(k, 2048, time), action: "free_completed" });
  const traces = [[alloc(0, 2048, 2)], [alloc(1, 2048, 1), free(1, 3), alloc(1, 2048, 4)]];
  const file = room.files.write("two.pickle", pickle({ segments: [device(0), device(1)], device_traces: traces, allocator_settings: {} }));
  const visit = await room.browser.open(await harness.viewed(room.files, "two-devices.html", file));
  const canvas = await harness.ready(visit.page);
  const says = (wanted) => harness.eventually(async () => wanted.test(await harness.words(visit.page.locator(".sl-at"))), `not ${wanted}`);
  const holds = (wanted) => harness.eventually(() => visit.page.evaluate((wanted) => location.hash === wanted, wanted), `the address is not ${wanted}`);
  await says(/after 3 events on cuda:1/);
  await holds("");
  await visit.page.locator(".sl-plot").focus();
  await visit.page.keyboard.press("ArrowDown");
  await until(canvas, (s) => s.tensor !== "", "nothing is chosen");
  await says(/after 1 event on cuda:0/);
  await visit.page.keyboard.press("Escape");
  await holds("#moment=1%2C0");
  const address = await visit.page.evaluate(() => location.href);
  await visit.page.goto("about:blank");
  await visit.page.goto(address);
  await harness.ready(visit.page);
  await says(/after 1 event on cuda:0/);
  await visit.page.evaluate(() => (location.hash = ""));
  await says(/after 3 events on cuda:1/);
  await visit.close();
  // The curve of the past takes its room from the map, of which there is more to scroll then.
  const segments = Array.from({ length: 20 }, (_, k) => ({ ...device(k), device: 0 }));
  const long = room.files.write("long.pickle", pickle({ segments, device_traces: [[alloc(0, 2048, 2)]], allocator_settings: {} }));
  const other = await room.browser.open(await harness.viewed(room.files, "long.html", long));
  const map = await harness.ready(other.page);
  await other.page.locator(".sl-at").waitFor();
  const top = async () => (await state(map)).scroll;
  await harness.wheel(other.page, map, 600, 200, 5000);
  await harness.eventually(async () => (await top()) > 0 && other.page.evaluate(() => /top=/.test(location.hash)), "not scrolled");
  const [lowest, place] = [await top(), await other.page.evaluate(() => location.href)];
  await other.page.goto("about:blank");
  await other.page.goto(place);
  await harness.ready(other.page);
  await harness.eventually(async () => (await top()) === lowest, `the address does not bring ${lowest} back`);
  await other.close();
});

test("below a timeline a snapshot has its strip, and says which moment it shows", async () => {
  const at = 1_790_000_000_000_000;
  const file = room.files.write("below.pickle", snapshot(at + 10));
  const kernel = (ts, dur, c) => [
    { ph: "X", cat: "cuda_runtime", name: "cudaLaunchKernel", pid: 1, tid: 1, ts, dur: 0.5, args: { correlation: c } },
    { ph: "X", cat: "kernel", name: "scale", pid: 0, tid: 7, ts: ts + 0.5, dur, args: { device: 0, stream: 7, correlation: c } },
  ];
  const trace = room.files.write("above.json", JSON.stringify({ schemaVersion: 1, baseTimeNanoseconds: at * 1000, traceEvents: [...kernel(0, 1, 1), ...kernel(40, 3, 2)] }));
  const visit = await room.browser.open(await harness.viewed(room.files, "below.html", trace, file));
  const canvas = await harness.ready(visit.page);
  await visit.page.keyboard.press("c");
  const [below, strip] = [".sl-beside canvas.sl-canvas[data-ready]", ".sl-beside .sl-strip"].map((part) => visit.page.locator(part));
  await harness.eventually(() => strip.isVisible(), "the snapshot has no strip");
  const head = visit.page.locator(".sl-beside-head small");
  const says = (words) => harness.eventually(async () => (await harness.words(head)) === words, words);
  await says("the end, after 6 events");
  const box = await strip.boundingBox();
  await visit.page.mouse.click(box.x + box.width / 2, box.y + 20);
  await says("event 3 of 6");
  // A point in time before all that was recorded is the beginning, and one behind it the end.
  const { start, end, x, width } = await canvas.evaluate(({ dataset: d }) => ({ start: Number(d.startNs), end: Number(d.endNs), x: Number(d.plotX), width: Number(d.plotWidth) }));
  const plot = await canvas.boundingBox();
  for (const [ns, words] of [[1_000, "event 0 of 6"], [40_000, "the end, after 6 events"]]) {
    await visit.page.mouse.click(plot.x + x + ((ns - start) / (end - start)) * width, plot.y + 8);
    await says(words);
  }
  assert.equal(await below.count(), 1);
  await visit.close();
});

test("two snapshots are drawn to one scale, each with its past, and what sets them apart is said", async () => {
  const at = 1_790_000_000_000_000;
  const files = [room.files.write("less.pickle", snapshot(at)), room.files.write("more.pickle", snapshot(at + 60_000_000, 4)), room.files.write("layout.json", JSON.stringify(LAYOUT))];
  const visit = await room.browser.open(await harness.viewed(room.files, "two.html", ...files));
  const canvas = await harness.ready(visit.page);
  const below = visit.page.locator(".sl-beside canvas.sl-canvas[data-ready]");
  const [strip, under] = [visit.page.locator(".sl-strip").first(), visit.page.locator(".sl-beside .sl-strip")];
  const moment = (of, is) => harness.eventually(async () => (await of.getAttribute("data-moment")) === String(is), `moment ${is}`);
  const look = async (of) => harness.look(of.locator("canvas"));
  await moment(canvas, 6);
  const usual = await look(strip);
  const card = visit.page.locator("[data-compared]").first();
  const says = (pattern) => harness.eventually(async () => pattern.test(await harness.words(card)), `the card says no ${pattern}`);
  const plot = visit.page.locator(".sl-plot").first();
  await plot.focus();
  await visit.page.keyboard.press("c");
  await harness.eventually(() => below.isVisible(), "nothing is compared");
  await moment(below, 6);
  await harness.eventually(() => under.isVisible(), "the snapshot below has no past");
  assert.deepEqual(await under.evaluate((s) => s.clientWidth), await strip.evaluate((s) => s.clientWidth));
  await harness.eventually(async () => (await look(strip)) !== usual, "the strip is as high as it was");
  // Bars of a quarter of the bytes begin at the same place.
  const plots = async () => [await canvas.getAttribute("data-plot-x"), await below.getAttribute("data-plot-x")];
  await harness.eventually(async () => (await plots()).every((x, _, all) => x === all[0]), `names have other room: ${await plots()}`);
  await says(/peak allocated\s*4 KiB above, 16 KiB below: 12 KiB more below\s*peak reserved\s*4 KiB above, 16 KiB below: 12 KiB more below/);
  await says(/moments\s*above the end, after 6 events; below the end, after 6 events\s*allocated\s*3 KiB above, 12 KiB below: 9 KiB more below/);
  await says(/alike\s*0 blocks, 0 B[^]*only above: 2 blocks, 3 KiB\s*second \(train\.py:2\): 1 block, 2 KiB\s*third \(train\.py:3\): 1 block, 1 KiB\s*only below: 2 blocks, 12 KiB/);
  // Half as wide as the map at least, however small: less than that only beside something larger.
  const width = (of) => of.evaluate((c) => {
    const { data } = c.getContext("2d").getImageData(0, 43, c.width, 1);
    const [first] = [data.slice(-4)];
    let last = c.width - 1;
    while (last > 0 && [0, 1, 2].every((k) => data[4 * last + k] === first[k])) last -= 1;
    return last;
  });
  await harness.eventually(async () => (await width(canvas)) < 0.7 * (await width(below)), "a quarter of the bytes is as wide as all");
  // The strip below chooses the moment below alone: the other recording was a minute earlier.
  const box = await under.boundingBox();
  await visit.page.mouse.click(box.x + 1, box.y + 20);
  await moment(below, 0);
  await says(/below event 0 of 6\s*allocated\s*3 KiB above, 0 B below: 3 KiB more above/);
  await moment(canvas, 6);
  await under.focus();
  await visit.page.keyboard.press("End");
  await moment(below, 6);
  await visit.page.keyboard.press("ArrowLeft");
  await moment(below, 5);
  await says(/below event 5 of 6[^]*only below: 1 block, 8 KiB/);
  // The address has it.
  const address = await harness.eventually(() => visit.page.evaluate(() => /beside=1%2C5$/.test(location.hash) && location.href), "the address has no moment below");
  await visit.page.goto("about:blank");
  await visit.page.goto(address);
  await harness.ready(visit.page);
  await moment(below, 5);
  await says(/below event 5 of 6[^]*only below: 1 block, 8 KiB/);
  // With anything else there is nothing to say, and each has its own scale again.
  await visit.page.locator(".sl-beside-head select").selectOption("layout.json");
  await harness.eventually(async () => !(await card.isVisible()) && !(await under.isVisible()), "a layout is compared as a snapshot");
  await harness.eventually(async () => (await look(strip)) === usual, "the strip keeps the scale of what is gone");
  await visit.page.locator(".sl-beside-head select").selectOption("more.pickle");
  await harness.eventually(async () => (await card.isVisible()) && (await look(strip)) !== usual, "the snapshots have no common scale");
  await visit.page.locator(".sl-beside-head button", { hasText: "close" }).click();
  await harness.eventually(async () => !(await card.isVisible()) && (await look(strip)) === usual, "the strip keeps the scale of what is closed");
  await visit.close();
});

test("two snapshots of one time move together, and each stays where the address has it", async () => {
  const at = 1_790_000_000_000_000;
  const files = [room.files.write("one.pickle", snapshot(at)), room.files.write("same.pickle", snapshot(at, 2))];
  const visit = await room.browser.open(await harness.viewed(room.files, "together.html", ...files));
  const canvas = await harness.ready(visit.page);
  const below = visit.page.locator(".sl-beside canvas.sl-canvas[data-ready]");
  const moment = (of, is) => harness.eventually(async () => (await of.getAttribute("data-moment")) === String(is), `moment ${is}`);
  await moment(canvas, 6);
  await visit.page.locator(".sl-plot").first().focus();
  await visit.page.keyboard.press("c");
  await moment(below, 6);
  for (const key of ["[", "["]) await visit.page.keyboard.press(key);
  await moment(canvas, 4);
  await moment(below, 4);
  await visit.page.locator(".sl-beside .sl-strip").focus();
  await visit.page.keyboard.press("End");
  await moment(below, 6);
  const address = await harness.eventually(() => visit.page.evaluate(() => /moment=4&beside=1$/.test(location.hash) && location.href), "the address has other moments");
  await visit.page.goto("about:blank");
  await visit.page.goto(address);
  await harness.ready(visit.page);
  await moment(canvas, 4);
  await moment(below, 6);
  // Both have come to rest, and are told apart as they are.
  await harness.eventually(async () => /above event 4 of 6; below the end, after 6 events/.test(await harness.words(visit.page.locator("[data-compared]").first())), "another moment is compared");
  await moment(below, 6);
  await visit.close();
});
