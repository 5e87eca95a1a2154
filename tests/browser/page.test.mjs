// The page as people use it: opened, zoomed, dragged, clicked, walked through by keys, in light and dark, large and small.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import * as harness from "./harness.mjs";

const KERNEL = "#56b4e9";
const TO_DEVICE = "#0072b2";
const RED = "#c8102e";
// a copy that a kernel on another stream does not wait for
const RACE = `machine h200-pcie5
stream copy, compute
pinned x 4MiB                  # <b>not markup</b>
device d 4MiB
copy d <- x on copy
kernel scale on compute reads d writes d for 120us
sync compute
sync copy
`;

const room = harness.room();
let page, several;

before(async () => {
  const race = room.files.write("race.txt", RACE);
  page = await harness.viewed(room.files, "race.html", race);
  const programs = ["strategy-b", "demo-h2d-pinned-overwritten"].map((name) => join(harness.ROOT, `native/programs/${name}.txt`));
  several = await harness.viewed(room.files, "several.html", ...programs, race);
});

/** The numbers that the canvas carries: the time on screen, where the plot is, which slice is selected. */
const state = (canvas) =>
  canvas.evaluate(({ dataset: d }) => ({
    start: Number(d.startNs),
    end: Number(d.endNs),
    x: Number(d.plotX),
    width: Number(d.plotWidth),
    slice: d.slice,
  }));
const timeAt = (s, x) => s.start + ((x - s.x) / s.width) * (s.end - s.start);

/** Waits until the canvas' state is as wanted; gives it. */
const until = (canvas, is, what) => harness.until(state, canvas, is, what);

/** The middle of the widest run of a colour in a canvas, in CSS pixels. */
const middleOf = (canvas, colour) =>
  canvas.evaluate((element, colour) => {
    const wanted = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
    const { data, width, height } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
    let best = { n: 0 };
    for (let y = 0; y < height; y += 1) {
      for (let x = 0, n = 0; x < width; x += 1) {
        const at = 4 * (y * width + x);
        n = wanted.every((v, c) => Math.abs(data[at + c] - v) < 4) ? n + 1 : 0;
        if (n > best.n) best = { n, x: x - n / 2, y };
      }
    }
    const scale = element.clientWidth / width;
    return best.n && { x: best.x * scale, y: (best.y + 4) * scale };
  }, colour);

/** A page whose items are `items`: [name, text of a program] each. */
function pageOf(items) {
  const head = Buffer.from(
    JSON.stringify({ items: items.map(([name, text]) => ({ name, kind: "program", bytes: Buffer.byteLength(text) })) }),
  );
  const length = Buffer.alloc(4);
  length.writeUInt32LE(head.length);
  const block = Buffer.concat([length, head, ...items.map(([, text]) => Buffer.from(text))]);
  return harness.withData(readFileSync(page, "utf8"), block);
}

test("the page shows the lanes in their colours and is small enough to send", async () => {
  assert.ok(readFileSync(page).length < 1_500_000);
  const early = /<style[^>]*>([^]*?)<\/style>/.exec(readFileSync(page, "utf8"))[1];
  assert.ok(early.length < 2500, `${early.length} letters of style are not packed`);
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  assert.ok((await harness.pixels(canvas, KERNEL)) > 2000);
  assert.ok((await harness.pixels(canvas, TO_DEVICE)) > 2000);
  assert.ok((await harness.pixels(canvas, RED)) > 200, "the finding's outline is not there");
  assert.equal(await visit.page.locator(".sl-name").innerText(), "race.txt");
  assert.equal(await visit.page.locator(".sl-line").nth(2).innerText(), "3pinned x 4MiB                  # <b>not markup</b>");
  await visit.close();
});

test("ctrl and the wheel zoom at the pointer, shift and the wheel pan, and so do drags of the ruler, the middle button and space", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const first = await state(canvas);
  const x = Math.round(first.x + first.width * 0.3);
  await harness.wheel(visit.page, canvas, x, 150, -200, ["Control"]);
  const near = await until(canvas, (s) => s.end - s.start < 0.8 * (first.end - first.start), "the wheel did not zoom");
  const pixel = (near.end - near.start) / near.width;
  assert.ok(Math.abs(timeAt(near, x) - timeAt(first, x)) <= pixel + 1, "the point under the pointer moved");
  const box = await canvas.boundingBox();
  const drag = async (y, button = "left") => {
    await visit.page.mouse.move(box.x + x, box.y + y);
    await visit.page.mouse.down({ button });
    await visit.page.mouse.move(box.x + x + 50, box.y + y, { steps: 5 });
    await visit.page.mouse.up({ button });
  };
  let start = near.start;
  for (const [what, act] of [
    ["ruler", () => drag(10)],
    ["middle button", () => drag(150, "middle")],
    ["space", async () => {
      await visit.page.keyboard.down("Space");
      await drag(150);
      await visit.page.keyboard.up("Space");
    }],
  ]) {
    await act();
    const panned = await until(canvas, (s) => Math.abs(start - s.start - 50 * pixel) <= pixel + 1, `the drag (${what}) did not pan by 50 pixels`);
    assert.equal(panned.slice, "", "a drag is no click");
    start = panned.start;
  }
  await harness.wheel(visit.page, canvas, x, 150, 200, ["Shift"]);
  await until(canvas, (s) => s.start > start + 100 * pixel, "shift and the wheel did not pan");
  await visit.close();
});

test("the wheel scrolls the lanes, and no further than they go", async () => {
  const visit = await room.browser.open(page, { width: 1200, height: 420 });
  const canvas = await harness.ready(visit.page);
  const first = await state(canvas);
  const scrolled = () => canvas.evaluate(({ dataset }) => Number(dataset.scroll));
  await harness.wheel(visit.page, canvas, first.x + 100, 100, 30);
  await harness.eventually(async () => (await scrolled()) === 30, "the wheel did not scroll");
  const told = () => visit.page.locator(".sl-plot").first().evaluate((plot) => getComputedStyle(plot, "::after").content);
  assert.match(await told(), /more below/, "nobody sees that lanes go on");
  const wide = await visit.page.locator(".sl-plot").first().evaluate((plot) => Number.parseFloat(getComputedStyle(plot, "::after").width));
  assert.ok(wide < first.x, `${wide} pixels of ${first.x} beside the slices`);
  assert.deepEqual(await state(canvas), first);
  await harness.wheel(visit.page, canvas, first.x + 100, 100, 5000);
  const most = await harness.eventually(async () => (await scrolled()) > 30 && scrolled(), "not to the end");
  await harness.eventually(async () => (await told()) === "none", "there is no more below");
  await visit.page.keyboard.press("PageUp");
  await harness.eventually(async () => (await scrolled()) < most, "Page Up does nothing");
  await visit.page.keyboard.press("PageDown");
  await harness.eventually(async () => (await scrolled()) === most, "Page Down does nothing");
  await visit.close();
});

test("a drag over lanes chooses an area of them, and a click beside all slices lets it go", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const { x, width } = await state(canvas);
  const box = await canvas.boundingBox();
  const lanes = () => canvas.evaluate(({ dataset }) => dataset.lanes);
  // The first lane is the host's.
  await visit.page.mouse.move(box.x + x + 2, box.y + 60);
  await visit.page.mouse.down();
  await visit.page.mouse.move(box.x + x + width - 5, box.y + 64, { steps: 4 });
  await visit.page.mouse.up();
  await harness.eventually(async () => (await lanes()) === "0 0", "not the lane that the drag went over");
  const words = visit.page.locator("[data-totals]");
  await harness.eventually(async () => /, on 1 lane/.test(await words.innerText()), "the totals do not say on which lane");
  assert.match(await words.innerText(), /call\s+\d\s/);
  assert.doesNotMatch(await words.innerText(), /kernel|copy to device/);
  await harness.eventually(() => visit.page.evaluate(() => /range=\d+%2C\d+%2C0%2C0/.test(location.hash)), "the address does not hold the area");
  const address = await visit.page.evaluate(() => location.href);
  await harness.click(canvas, box.width - 30, 36);
  await harness.eventually(async () => !(await words.isVisible()), "the area stayed");
  await visit.page.goto("about:blank");
  await visit.page.goto(address);
  const again = await harness.ready(visit.page);
  await harness.eventually(async () => (await again.evaluate(({ dataset }) => dataset.lanes)) === "0 0", "the address brings another area");
  await visit.close();
});

test("a click selects, and everything that belongs to it is marked", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const kernel = await middleOf(canvas, KERNEL);
  await harness.click(canvas, kernel.x, kernel.y);
  await until(canvas, (s) => s.slice !== "", "the click selected nothing");
  const details = await harness.selection(visit.page);
  assert.match(details, /^scale\n+kernel on compute/);
  assert.match(details, /120 µs/);
  assert.match(await visit.page.locator("[data-selection]").innerText(), /120\u00a0µs/, "a line may end between a figure and its unit");
  assert.match(details, /kernel scale on compute reads d writes d for 120us/);
  assert.match(await visit.page.locator(".sl-line.is-selected").innerText(), /^6kernel scale/);
  assert.match(await visit.page.locator("[aria-live]").innerText(), /^scale, kernel, 120 µs at /);
  // and the other way round: a line selects its slice
  await visit.page.locator(".sl-line").nth(4).click();
  await harness.eventually(async () => /copy to device/.test(await harness.selection(visit.page)), "the line selected nothing");
  await visit.close();
});

test("a finding jumps to its place in timeline and program", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const box = await canvas.boundingBox();
  await visit.page.mouse.move(box.x + box.width - 40, box.y + 100);
  await visit.page.keyboard.down("Control");
  for (let i = 0; i < 12; i += 1) await visit.page.mouse.wheel(0, -300);
  await visit.page.keyboard.up("Control");
  const far = await until(canvas, (s) => s.end - s.start < 10_000, "not zoomed");
  await visit.page.locator("[data-finding]").first().click();
  const there = await until(canvas, (s) => s.slice !== "" && s.end - s.start > 100_000, "the finding did not jump");
  assert.ok(there.start < far.start);
  assert.equal(await visit.page.locator("[data-finding='0']").getAttribute("aria-current"), "true");
  assert.match(await visit.page.locator(".sl-line.is-selected").innerText(), /^5copy d <- x/);
  assert.match(await visit.page.locator(".sl-line.is-second").innerText(), /^6kernel scale/);
  assert.ok((await harness.pixels(canvas, RED)) > 200);
  await visit.close();
});

test("in a narrow window the picture of a chosen finding, and of its orders, comes into sight", async () => {
  const visit = await room.browser.open(page, { width: 640, height: 700 });
  await harness.ready(visit.page);
  const plot = visit.page.locator(".sl-plot").first();
  const isSeen = async () => {
    const box = await plot.boundingBox();
    return box.y >= 0 && box.y + box.height <= 700;
  };
  for (const choice of ["[data-finding='0']", "button[data-order='0']", "button[data-order='times']"]) {
    await visit.page.locator(choice).scrollIntoViewIfNeeded();
    await visit.page.locator(".sl-body").evaluate((body) => (body.scrollTop = body.scrollHeight));
    await visit.page.locator(choice).click();
    await harness.eventually(isSeen, `the picture is out of sight after ${choice}`);
  }
  await visit.close();
});

test("what was chosen among the findings keeps the focus, also while others change around it", async () => {
  const visit = await room.browser.open(page);
  await harness.ready(visit.page);
  const hasFocus = (locator) => locator.evaluate((element) => element === document.activeElement);
  const choose = async (choice, name, wanted) => {
    const button = visit.page.locator(choice);
    await button.focus();
    await visit.page.keyboard.press("Enter");
    await harness.eventually(async () => (await button.getAttribute(name)) === wanted, `${choice} was not chosen`);
    assert.ok(await hasFocus(button), `${choice} has lost the focus`);
  };
  await choose("[data-finding='0']", "aria-current", "true");
  for (const order of ["0", "1", "times"]) await choose(`button[data-order='${order}']`, "aria-pressed", "true");
  await visit.page.keyboard.press("o");
  await harness.eventually(async () => (await visit.page.locator(".sl-seen").count()) === 1, "no order is shown");
  assert.ok(await hasFocus(visit.page.locator("button[data-order='times']")), "a key has taken the focus away");
  await visit.close();
});

test("lines that go on to the right are shaded at their edge, until they have been scrolled to their end", async () => {
  const long = `machine h200-pcie5\nstream s\n\n\npinned x 4MiB   # ${"far ".repeat(60)}\ndevice d 4MiB\ncopy d <- x on s\nsync s\n`;
  const edge = async (text) => {
    const visit = await room.browser.open(room.files.write("lines.html", pageOf([["lines", text]])), { width: 1280 });
    await harness.ready(visit.page);
    const lines = visit.page.locator(".sl-program");
    const { x, y, width } = await lines.boundingBox();
    // Beside the fourth line, which is empty.
    const look = () => visit.page.screenshot({ clip: { x: x + width - 12, y: y + 62, width: 12, height: 16 } });
    const before = await look();
    await lines.evaluate((element) => (element.scrollLeft = element.scrollWidth));
    await visit.page.evaluate(() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next))));
    const after = await look();
    await visit.close();
    return [before, after].map((image) => image.toString("base64"));
  };
  const [[before, after], [short]] = [await edge(long), await edge(long.replace(/#.*/, ""))];
  assert.notEqual(before, after, "nothing tells that the line goes on");
  assert.equal(after, short, "at its end nothing is shaded");
});

test("a long name in a finding is broken, not cut, and the ring of an order has room", async () => {
  const text = `stream copy, compute\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on copy\nkernel ${"elementwise_".repeat(12)} on compute reads d writes d for 120us\nsync compute\n`;
  const visit = await room.browser.open(room.files.write("broken.html", pageOf([["long", text]])));
  await harness.ready(visit.page);
  await visit.page.locator("[data-finding='0']").click();
  await harness.eventually(async () => (await visit.page.locator("button[data-order]").count()) === 3, "no orders");
  const wide = await visit.page.locator(".sl-findings").evaluate((list) => [list, ...list.querySelectorAll("*")].filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth).map((one) => one.tagName));
  assert.deepEqual(wide, []);
  await visit.page.locator("button[data-order='times']").focus();
  await visit.page.keyboard.press("Tab");
  const ring = await visit.page.evaluate(() => getComputedStyle(document.activeElement).outlineOffset);
  assert.equal(ring, "-2px");
  await visit.close();
});

test("a finding is shown in both orders, and in times again", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const times = await state(canvas);
  const order = () => canvas.evaluate(({ dataset }) => dataset.order);
  const shows = (wanted) => harness.eventually(async () => (await order()) === wanted, `order ${wanted} did not come`);
  assert.equal(await visit.page.locator("[data-order]").and(visit.page.locator("button")).count(), 0, "nothing is chosen yet");
  await visit.page.locator("[data-finding='0']").click();
  const switches = visit.page.locator("button[data-order]");
  await harness.eventually(async () => (await switches.count()) === 3, "no switch between the orders");
  assert.deepEqual(await switches.allInnerTexts(), ["times", "copy to d, then scale", "scale, then copy to d"]);
  const seen = visit.page.locator(".sl-seen");
  const looks = [await harness.look(canvas)];
  for (const [k, words] of [["0", /^scale: finds what command \d+ wrote$/], ["1", /^scale: finds bytes that nothing has written$/]]) {
    await visit.page.locator(`button[data-order='${k}']`).click();
    await shows(k);
    assert.match(await seen.innerText(), words);
    assert.equal(await visit.page.locator(`button[data-order='${k}']`).getAttribute("aria-pressed"), "true");
    assert.ok((await harness.pixels(canvas, RED)) > 200, "the two accesses are not outlined");
    assert.match(await visit.page.locator(".sl-origin").innerText(), /an order of steps/);
    assert.doesNotMatch(await visit.page.locator(".sl-notes").innerText(), /clock/, "an order has no clock");
    assert.match(await visit.page.locator(".sl-range").innerText(), /^step \d+ to step \d+$/);
    looks.push(await harness.look(canvas));
  }
  assert.equal(new Set(looks).size, 3, "the pictures do not differ");
  // and is stepped through as the times are, also by hand
  const calls = visit.page.locator(".sl-steps span");
  await visit.page.locator("[data-step=first]").click();
  await harness.eventually(async () => /^1 of \d+ host steps$/.test(await calls.innerText()), "no first call of the order");
  await visit.page.locator("[data-step=']']").click();
  await harness.eventually(async () => /^2 of \d+ host steps$/.test(await calls.innerText()), "no next call of the order");
  assert.equal(await order(), "1");
  assert.equal(await visit.page.locator("[data-finding='0']").getAttribute("aria-current"), "true", "its finding is no longer the chosen one");
  // the copy comes first in the one order, the kernel in the other
  const first = async (k) => {
    await visit.page.locator(`button[data-order='${k}']`).click();
    await shows(k);
    return (await middleOf(canvas, TO_DEVICE)).x < (await middleOf(canvas, KERNEL)).x;
  };
  assert.deepEqual([await first("0"), await first("1")], [true, false]);
  if (process.env.SPANLIFT_PICTURES) await visit.page.screenshot({ path: join(process.env.SPANLIFT_PICTURES, "orders.png") });
  await visit.page.keyboard.press("Escape");
  await shows("");
  const back = await state(canvas);
  assert.deepEqual([back.start, back.end], [times.start, times.end]);
  for (const wanted of ["0", "1", ""]) {
    await visit.page.keyboard.press("o");
    await shows(wanted);
  }
  await visit.close();
});

test("everything can be done by keys", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  const whole = await state(canvas);
  const keys = visit.page.keyboard;
  const press = async (key, is, what = key) => {
    await keys.press(key);
    return until(canvas, is, `${what} did nothing`);
  };
  const near = await press("w", (s) => s.end - s.start < whole.end - whole.start);
  const [caption, range] = [visit.page.locator("caption"), visit.page.locator(".sl-range")];
  await harness.eventually(async () => (await caption.innerText()).endsWith(await range.innerText()), "the table is about another time");
  const right = await press("d", (s) => s.start > near.start);
  await press("a", (s) => s.start < right.start);
  await press("s", (s) => s.end - s.start > (near.end - near.start) * 1.1);
  await press("0", (s) => s.start === whole.start && s.end === whole.end);
  const one = await press("ArrowRight", (s) => s.slice !== "");
  const two = await press("ArrowRight", (s) => s.slice !== one.slice);
  await press("ArrowLeft", (s) => s.slice === one.slice);
  await press("ArrowRight", (s) => s.slice === two.slice);
  await press("Enter", (s) => s.slice !== two.slice, "Enter (from the call to its work)");
  await press("Enter", (s) => s.slice === two.slice, "Enter (and back)");
  const below = await press("ArrowDown", (s) => s.slice !== two.slice);
  await press("f", (s) => s.end - s.start < whole.end - whole.start);
  await press("n", (s) => s.slice !== below.slice || s.end - s.start > 0);
  await press("Escape", (s) => s.slice === "");
  const pressed = (mode) => visit.page.locator(`[data-mode=${mode}]`).getAttribute("aria-pressed");
  await keys.press("y");
  await harness.eventually(async () => (await pressed("typical")) === "true", "y did nothing");
  const list = visit.page.locator(".sl-keys");
  await keys.press("?");
  await harness.eventually(() => list.isVisible(), "? did nothing");
  await keys.press("Escape");
  await harness.eventually(async () => !(await list.isVisible()), "Escape left the list of keys open");
  // focus moves on by Tab alone and is seen where it is
  const seen = new Set();
  for (let i = 0; i < 30; i += 1) {
    await keys.press("Tab");
    const where = await visit.page.evaluate(() => {
      const element = document.activeElement;
      if (element === document.body) return ["nowhere", ""];
      return [element.className || element.dataset.mode || element.dataset.do || element.tagName, getComputedStyle(element).outlineStyle];
    });
    if (where[0] !== "nowhere") assert.equal(where[1], "solid", `focus on ${where[0]} is not seen`);
    seen.add(where[0]);
  }
  for (const part of ["contract", "typical", "keys", "theme", "sl-program", "sl-plot"]) {
    assert.ok([...seen].some((name) => name.includes(part)), `Tab never reached ${part}: ${[...seen]}`);
  }
  await visit.close();
});

test("several items are chosen in the page, and one that cannot be shown says why", async () => {
  const visit = await room.browser.open(several, { width: 1024, height: 768 });
  const canvas = await harness.ready(visit.page);
  const name = visit.page.locator(".sl-name");
  assert.match(await name.innerText(), /strategy B/);
  await visit.page.locator("[data-item='1']").click();
  await harness.eventually(async () => /overwritten/.test(await name.innerText()), "the item was not opened");
  assert.match(await visit.page.locator(".sl-bad").innerText(), /1,048,576 of 1,048,576 elements wrong/);
  assert.ok((await harness.painted(canvas)) > 2000);
  await visit.close();

  const broken = await room.browser.open(room.files.write("broken.html", pageOf([["good", RACE], ["bad", "copy x <- y on s"]])));
  await harness.ready(broken.page);
  await broken.page.locator("[data-item='1']").click();
  const error = broken.page.locator(".sl-error");
  await harness.eventually(async () => (await error.count()) && (await error.isVisible()), "no word of the error");
  assert.match(await error.innerText(), /bad: line 1 .*is not declared/s);
  await broken.page.locator("[data-item='0']").click();
  await harness.eventually(async () => !(await error.isVisible()), "the error stayed");
  assert.ok((await harness.painted(await harness.ready(broken.page))) > 2000);
  await broken.close();
});

test("data that is no data and a script that is none are refused in words", async () => {
  for (const part of ["data-spanlift", "data-script"]) {
    const html = readFileSync(page, "utf8").replace(new RegExp(`${part}="[^"]*"`), `${part}="AAAA"`);
    const visit = await room.browser.open(room.files.write("cut.html", html));
    const said = visit.page.locator("[data-error]");
    await harness.eventually(() => said.count(), `no word of the error in ${part}`);
    assert.match(await said.innerText(), /cannot start: ./);
    await visit.close();
  }
});

test("light, dark, and the other one at a key", async () => {
  const ground = { light: "#fbfbf9", dark: "#14171a" };
  for (const [colorScheme, other] of [["light", "dark"], ["dark", "light"]]) {
    const visit = await room.browser.open(page, { colorScheme });
    const canvas = await harness.ready(visit.page);
    assert.ok((await harness.pixels(canvas, ground[colorScheme], 1)) > 10_000, colorScheme);
    await visit.page.keyboard.press("t");
    await harness.eventually(async () => (await harness.pixels(canvas, ground[other], 1)) > 10_000, `${other} did not come`);
    await visit.page.emulateMedia({ colorScheme });
    assert.equal(await visit.page.locator("main.spanlift").getAttribute("data-theme"), other);
    // Menus, fields and scroll bars, which the browser draws, go with it.
    assert.equal(await visit.page.locator(".sl-lines").evaluate((lines) => getComputedStyle(lines).colorScheme), other);
    await visit.close();
  }
});

test("a window that changes its size is filled again, and nothing is cut off", async () => {
  const visit = await room.browser.open(page, { width: 1280, height: 800 });
  const canvas = await harness.ready(visit.page);
  for (const [width, height] of [[1024, 700], [1600, 1000], [800, 700], [420, 800], [1280, 800]]) {
    await visit.page.setViewportSize({ width, height });
    await harness.eventually(
      () => canvas.evaluate((c) => Math.abs(c.width - c.clientWidth * devicePixelRatio) <= 1 && Math.abs(c.height - c.clientHeight * devicePixelRatio) <= 1),
      `the canvas did not follow to ${width} x ${height}`,
    );
    const over = await visit.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${over} pixels stick out at ${width}`);
    assert.ok((await harness.pixels(canvas, KERNEL)) > 500, `nothing to see at ${width} x ${height}`);
  }
  await visit.close();
});

// A picture that is stretched, by half a pixel even, is blurred all over.
test("pixels of the pictures are those of the screen, in any window", async () => {
  for (const width of [1440, 1437, 1001, 798, 375]) {
    const visit = await room.browser.open(page, { width, height: 803 });
    await harness.ready(visit.page);
    const sizes = await visit.page.evaluate(() => [...document.querySelectorAll("canvas")].filter((canvas) => canvas.checkVisibility()).map((canvas) => {
      const { width, height } = canvas.getBoundingClientRect();
      return [canvas.className, canvas.width - width * devicePixelRatio, canvas.height - height * devicePixelRatio];
    }));
    assert.equal(sizes.length, 3);
    for (const [name, ...off] of sizes) for (const pixels of off) assert.ok(Math.abs(pixels) < 0.05, `${name} of ${width}: ${pixels} pixels off`);
    await visit.close();
  }
});

test("the headings of the three parts stand beside each other", async () => {
  for (const width of [1024, 1600]) {
    const visit = await room.browser.open(page, { width, height: 768 });
    await harness.ready(visit.page);
    const middles = await visit.page.evaluate(() => ["left", "middle", "right"].map((part) => [...document.querySelectorAll(`.sl-${part} h2`)].find((h2) => h2.checkVisibility()).getBoundingClientRect()).map((box) => (box.top + box.bottom) / 2));
    assert.ok(Math.max(...middles) - Math.min(...middles) <= 1, `at ${middles}`);
    await visit.close();
  }
});

test("names in any script and as long as a page are shown, and one that is cut is told where it stands", async () => {
  const names = ["内存复制核函数", "نسخ الذاكرة", "🚀🔥", "void kernel<float>"].map((name) => name.repeat(200 / name.length));
  const events = names.flatMap((name, tid) => [
    { ph: "M", name: "thread_name", pid: 1, tid, args: { name } },
    { ph: "X", cat: "cpu_op", name: name.repeat(20), pid: 1, tid, ts: 0, dur: 100 },
  ]);
  const file = room.files.write("names.json", JSON.stringify({ traceEvents: events }));
  const visit = await room.browser.open(await harness.viewed(room.files, "names.html", file), { width: 1024, height: 700 });
  const canvas = await harness.ready(visit.page);
  const [tip, { x }, box] = [visit.page.locator(".sl-tip").first(), await state(canvas), await canvas.boundingBox()];
  await visit.page.mouse.move(box.x + x / 2, box.y + 70);
  await harness.eventually(async () => names.includes((await tip.locator("b").allInnerTexts()).join("")), "the name of a lane is not told");
  await visit.page.mouse.move(box.x + x + 100, box.y + 70);
  await harness.eventually(async () => /annotation/.test(await tip.innerText()), "nothing is told of a slice");
  const told = await tip.boundingBox();
  assert.ok(told.height < 260 && told.y + told.height <= box.y + box.height, `the tip is ${told.height} pixels high`);
  await visit.close();
});

test("no tool is out of reach in a narrow window, however many there are", async () => {
  const text = "stream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s\n";
  const visit = await room.browser.open(room.files.write("two.html", pageOf([["one", text], ["two", text]])), { width: 320, height: 640 });
  await harness.ready(visit.page);
  const tools = visit.page.locator(".sl-tools button");
  assert.ok(await visit.page.locator("[data-do=beside]").isVisible());
  const out = await tools.evaluateAll((all) => all.filter((button) => button.getBoundingClientRect().right > innerWidth).map((button) => button.textContent));
  assert.deepEqual(out, []);
  // What stands below each other does not overlap.
  const ends = await visit.page.evaluate(() => [".sl-legend canvas", ".sl-program-part"].map((part) => document.querySelector(part).getBoundingClientRect()));
  assert.ok(ends[0].bottom <= ends[1].top, `the legend ends at ${ends[0].bottom}, the program begins at ${ends[1].top}`);
  await visit.close();
});

test("names of items as long as a path are whole, that of the shown one in sight; and a name goes before where it is from", async () => {
  const text = "stream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s\n";
  const name = (k) => `ip-10-1-2-3.ec2.internal_4711_rank${k}.1700000000000000000.pt.trace.json`;
  const path = room.files.write("ranks.html", pageOf([0, 1, 2, 3, 4, 5].map((k) => [name(k), text])));
  for (const width of [320, 390, 1024]) {
    const visit = await room.browser.open(path, { width, height: 800 });
    await harness.ready(visit.page);
    const nav = visit.page.locator(".sl-items");
    const out = await nav.evaluate((nav) => [...nav.children].filter((button) => button.getBoundingClientRect().right > innerWidth || button.scrollWidth > button.clientWidth).map((button) => button.textContent));
    assert.deepEqual(out, [], `at ${width}`);
    await nav.locator("button").nth(5).evaluate((button) => button.click());
    const isIn = () => nav.evaluate((nav) => {
      const [outer, inner] = [nav, nav.querySelector("[aria-current=true]")].map((part) => part.getBoundingClientRect());
      return nav.lastElementChild.ariaCurrent === "true" && outer.top <= inner.top && inner.top + 20 <= outer.bottom;
    });
    await harness.eventually(isIn, `what is shown is not among the names at ${width}`);
    await visit.close();
  }
  const visit = await room.browser.open(page, { width: 720, height: 450 });
  await harness.ready(visit.page);
  await visit.page.locator(".sl-name").evaluate((name) => (name.textContent = "a name.txt"));
  assert.ok(await visit.page.locator(".sl-name").evaluate((name) => name.scrollWidth <= name.clientWidth), "the name is cut");
  await visit.close();
});

test("what is wrong with a search is read beside nothing else, in a wide window and in a narrow one", async () => {
  for (const width of [1280, 320]) {
    const visit = await room.browser.open(page, { width, height: 700 });
    const plot = await (await harness.ready(visit.page)).boundingBox();
    await visit.page.locator(".sl-search").fill("kind:quick >1MB");
    const hits = visit.page.locator(".sl-hits");
    await harness.eventually(async () => /one of h2d/.test(await hits.innerText()), "not told");
    const [field, told, range] = await Promise.all([".sl-search", ".sl-hits", ".sl-range"].map((selector) => visit.page.locator(selector).boundingBox()));
    assert.ok(field.width >= 120, `the field has ${field.width} pixels of ${width}`);
    const apart = (a, b) => a.x + a.width <= b.x + 1 || b.x + b.width <= a.x + 1 || a.y + a.height <= b.y + 1 || b.y + b.height <= a.y + 1;
    assert.ok(apart(told, range) && apart(field, told) && apart(field, range), JSON.stringify([field, told, range]));
    assert.ok(told.x + told.width <= width, "it leaves the page");
    assert.ok(await hits.evaluate((element) => element.scrollWidth <= element.clientWidth), "its end is cut off");
    assert.deepEqual(await visit.page.locator(".sl-canvas").first().boundingBox(), plot, "nothing moves while one types");
    await visit.close();
  }
});

test("where colours are the reader's own, what is chosen still looks it", async () => {
  const visit = await room.browser.open(several);
  await harness.ready(visit.page);
  await visit.page.emulateMedia({ forcedColors: "active" });
  await visit.page.locator("[data-item]").nth(1).click();
  await visit.page.locator("[data-finding]").first().click();
  const inks = await visit.page.locator("[data-finding][aria-current=true]").evaluate((one) => [one, ...one.children].map((part) => getComputedStyle(part).color));
  assert.deepEqual(inks, Array(3).fill(inks[0]), "all words of a chosen finding read on its ground");
  const ground = (selector) => visit.page.locator(selector).first().evaluate((element) => getComputedStyle(element).backgroundColor);
  assert.notEqual(await ground("[data-mode=contract]"), await ground("[data-mode=typical]"));
  assert.notEqual(await ground("[data-item][aria-current=true]"), await ground("[data-item]:not([aria-current=true])"));
  await visit.close();
});

test("a page of 1440 x 900 that is shown at twice the size scrolls, and nothing in it overlaps", async () => {
  const visit = await room.browser.open(several, { width: 720, height: 450 });
  await harness.ready(visit.page);
  const [legend, selected] = await visit.page.evaluate(() => [".sl-legend canvas", ".sl-right"].map((part) => document.querySelector(part).getBoundingClientRect()));
  assert.ok(legend.bottom <= selected.top, `the legend ends at ${legend.bottom}, what is selected begins at ${selected.top}`);
  assert.ok((await visit.page.locator(".sl-plot").first().boundingBox()).height >= 120);
  await visit.close();
});

test("in windows of middle width nothing lies over another part, and the timeline can be read", async () => {
  for (const [width, height] of [[700, 600], [683, 467], [800, 500], [960, 700]]) {
    for (const key of ["", "c"]) {
      const visit = await room.browser.open(several, { width, height });
      await harness.ready(visit.page);
      if (key) {
        await visit.page.keyboard.press(key);
        await visit.page.locator(".sl-beside .sl-canvas[data-ready]").waitFor();
      }
      const parts = [".sl-plot", ".sl-room", ".sl-legend", ".sl-right"];
      await harness.eventually(async () => {
        const boxes = await visit.page.evaluate((parts) => parts.map((part) => document.querySelector(part).getBoundingClientRect()).filter((box) => box.height), parts);
        return boxes[0].height >= 180 && boxes.every((box, k) => !k || boxes[k - 1].bottom <= box.top + 0.5);
      }, `parts lie over each other at ${width} x ${height} ${key}`);
      await visit.close();
    }
  }
});

test("the finding that N goes to is in sight in the list", async () => {
  const text = ["stream a, b", "device d 4MiB"];
  for (let k = 0; k < 7; k += 1) text.push(`kernel one${k} on a writes d for 5us`, `kernel two${k} on b writes d for 5us`);
  const visit = await room.browser.open(await harness.viewed(room.files, "races.html", room.files.write("races.txt", text.join("\n"))));
  await harness.ready(visit.page);
  const list = visit.page.locator(".sl-findings");
  const isSeen = async () => {
    const [outer, inner] = await Promise.all([list.boundingBox(), visit.page.locator("[data-finding][aria-current=true]").boundingBox()]);
    return inner && outer.y - 1 <= inner.y && inner.y + inner.height <= outer.y + outer.height + 1;
  };
  await visit.page.locator(".sl-plot").focus();
  for (const key of ["N", "N", "n", "n", "n"]) {
    await visit.page.keyboard.press(key === "N" ? "Shift+N" : key);
    await harness.eventually(isSeen, `after ${key} the finding is out of sight`);
  }
  await visit.close();
});

test("two hundred things done at random leave the page alive", async () => {
  const visit = await room.browser.open(several);
  const canvas = await harness.ready(visit.page);
  const box = await canvas.boundingBox();
  let seed = 20;
  const below = (n) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return (seed >>> 8) % n;
  };
  const keys = ["w", "s", "a", "d", "f", "0", "n", "m", "M", "y", "t", "?", "Escape", "Enter", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "PageDown", "PageUp", "r", "]", "[", "c", "i", "e", "/"];
  for (let i = 0; i < 200; i += 1) {
    const [x, y] = [box.x + below(box.width), box.y + below(box.height)];
    switch (below(6)) {
      case 0: await visit.page.mouse.click(x, y); break;
      case 1: await visit.page.mouse.move(x, y); break;
      case 2: await visit.page.mouse.wheel(below(400) - 200, below(800) - 400); break;
      case 3: await visit.page.mouse.down(); await visit.page.mouse.move(x, y); await visit.page.mouse.up(); break;
      case 4: await visit.page.locator(`[data-item='${below(3)}']`).click({ force: true }); break;
      default: await visit.page.keyboard.press(keys[below(keys.length)]);
    }
  }
  await visit.page.keyboard.press("0");
  assert.ok((await harness.painted(canvas)) > 500);
  await visit.close();
});

test("many viewers live in one long page, which keeps its wheel until one is clicked", async () => {
  await harness.spanlift("tour", "-o", room.files.folder);
  const html = harness.withFreshViewer(readFileSync(join(room.files.folder, "tour.html"), "utf8"));
  assert.ok(html.length < 1_500_000, `${html.length} bytes`);
  const visit = await room.browser.open(room.files.write("fresh-tour.html", html), { width: 1280, height: 900 });
  const canvases = visit.page.locator("canvas.sl-canvas");
  const n = await visit.page.locator("[data-spanlift]").count();
  assert.ok(n > 1);
  await harness.eventually(async () => (await visit.page.locator("canvas.sl-canvas[data-ready]").count()) === n, "not all are ready");
  for (let i = 0; i < n; i += 1) assert.ok((await harness.painted(canvases.nth(i))) > 500, `viewer ${i} shows nothing`);
  const canvas = canvases.first();
  await canvas.scrollIntoViewIfNeeded();
  const [before, top] = [await state(canvas), await visit.page.evaluate(() => scrollY)];
  await harness.wheel(visit.page, canvas, before.x + 100, 120, 300);
  await harness.eventually(async () => (await visit.page.evaluate(() => scrollY)) > top, "the page did not scroll");
  assert.deepEqual(await state(canvas), before);
  await canvas.scrollIntoViewIfNeeded();
  await harness.click(canvas, before.x + 100, 120);
  await harness.wheel(visit.page, canvas, before.x + 100, 120, -300, ["Control"]);
  await until(canvas, (s) => s.end - s.start < before.end - before.start, "the clicked viewer did not zoom");
  // Where nothing is left to scroll in the viewer, the wheel is the page's.
  const down = await visit.page.evaluate(() => scrollY);
  for (let i = 0; i < 8; i += 1) await harness.wheel(visit.page, canvas, before.x + 100, 120, 300);
  await harness.eventually(async () => (await visit.page.evaluate(() => scrollY)) > down, "the clicked viewer holds the wheel");
  await visit.close();
});

test("nine items are chosen from a list, which follows what is shown", async () => {
  const items = Array.from({ length: 9 }, (_, k) => [`race ${k}`, k === 7 ? RACE.replace("120us", "240us") : RACE]);
  const visit = await room.browser.open(room.files.write("nine.html", pageOf(items)));
  const canvas = await harness.ready(visit.page);
  const whole = await state(canvas);
  const list = visit.page.getByLabel("what is shown").and(visit.page.locator("select"));
  assert.equal(await visit.page.locator("[data-item]").count(), 0);
  assert.deepEqual(await list.locator("option").allTextContents(), items.map(([name]) => name));
  const shows = (k) => harness.eventually(async () => (await visit.page.locator(".sl-name").innerText()) === `race ${k}` && (await list.inputValue()) === `race ${k}`, `item ${k} is not shown`);
  await shows(0);
  await list.selectOption("race 7");
  await shows(7);
  await until(canvas, (s) => s.end - s.start > (whole.end - whole.start) * 1.5, "that of another item is drawn");
  await visit.page.evaluate(() => (location.hash = "#item=8"));
  await shows(8);
  await until(canvas, (s) => s.end === whole.end, "that of item 7 is still drawn");
  // One fewer are buttons.
  const eight = await room.browser.open(room.files.write("eight.html", pageOf(items.slice(1))));
  await harness.ready(eight.page);
  assert.deepEqual([await eight.page.locator("[data-item]").count(), await eight.page.locator(".sl-items select").count()], [8, 0]);
  for (const each of [visit, eight]) await each.close();
});

test("space that is held when the window loses the focus makes no drag pan after that", async () => {
  const visit = await room.browser.open(page);
  const canvas = await harness.ready(visit.page);
  await visit.page.locator(".sl-plot").focus();
  await visit.page.keyboard.press("w");
  const near = await until(canvas, (s) => s.start > 0, "not nearer");
  const box = await canvas.boundingBox();
  const drag = async () => {
    await visit.page.mouse.move(box.x + near.x + near.width / 2, box.y + 80);
    await visit.page.mouse.down();
    await visit.page.mouse.move(box.x + near.x + near.width / 2 - 60, box.y + 90, { steps: 4 });
    await visit.page.mouse.up();
  };
  await visit.page.keyboard.down(" ");
  await drag();
  const panned = await until(canvas, (s) => s.start > near.start, "space does not pan");
  // The key is let go where nobody here hears of it.
  await visit.page.evaluate(() => dispatchEvent(new Event("blur")));
  await drag();
  await harness.eventually(() => visit.page.locator("[data-totals]").isVisible(), "the drag chose no area");
  assert.deepEqual([(await state(canvas)).start, (await state(canvas)).end], [panned.start, panned.end]);
  await visit.page.keyboard.up(" ");
  await visit.close();
});

test("the table for screen readers is around what is selected, and says of how many slices a row is", async () => {
  // 400 kernels that are drawn apart, and then 30,000 that are not.
  const kernel = (k) => ({ ph: "X", cat: "kernel", name: `kernel ${k}`, pid: 0, tid: 7, ts: k < 400 ? 300 * k : 120_000 + 2 * k, dur: k < 400 ? 290 : 1, args: { device: 0, stream: 7, correlation: k } });
  const trace = { traceEvents: Array.from({ length: 30_400 }, (_, k) => kernel(k)) };
  const visit = await room.browser.open(await harness.viewed(room.files, "many.html", room.files.write("many.json", JSON.stringify(trace))), { width: 1600 });
  const canvas = await harness.ready(visit.page);
  const [caption, rows] = [visit.page.locator(".sl-mirror caption"), visit.page.locator(".sl-mirror tbody td")];
  const told = () => rows.allTextContents();
  const chosen = () => visit.page.locator(".sl-mirror [aria-selected=true]").allTextContents();
  await harness.eventually(async () => (await rows.count()) === 60, "not as many rows as there may be");
  assert.match((await told())[0], /^kernel 0, kernel, 290 µs at 0/);
  assert.match(await caption.textContent(), /^stream 7, .*, without [\d,]+ others$/);
  assert.deepEqual(await chosen(), []);
  const at = async (slice, pattern) => {
    await visit.page.evaluate((slice) => (location.hash = `#slice=${slice}`), slice);
    await until(canvas, (s) => s.slice === String(slice), `slice ${slice} is not selected`);
    await harness.eventually(async () => pattern.test((await chosen()).join("\n")), `the row of slice ${slice} is not ${pattern}, but ${await chosen()}`);
    const lines = await told();
    assert.equal(lines.length, 60);
    return [lines, lines.findIndex((line) => pattern.test(line))];
  };
  const [near, middle] = await at(200, /^kernel 200, kernel, 290 µs/);
  assert.equal(middle, 30);
  assert.deepEqual(near.map((line) => /^kernel \d+/.exec(line)[0]), near.map((_, k) => `kernel ${170 + k}`));
  // One of those that are drawn as one is told, whichever of them has lent its colour.
  for (const slice of [20_000, 20_001, 20_002]) {
    const [lines, place] = await at(slice, new RegExp(`^\\d+ slices drawn as one, among them kernel ${slice}, kernel, 1 µs`));
    assert.equal(place, 30);
    assert.ok(lines.every((line) => /^\d\d slices drawn as one, among them kernel \d+,/.test(line)), lines.join("\n"));
  }
  // Near enough each stands for itself.
  await visit.page.locator(".sl-plot").focus();
  await visit.page.keyboard.press("f");
  await harness.eventually(async () => (await told()).every((line) => /^kernel \d+, kernel, 1 µs/.test(line)), "they are still told together");
  await visit.close();
});

test("a dark page is printed on white, and of it only what is for paper", async () => {
  const visit = await room.browser.open(several, { colorScheme: "dark" });
  await harness.ready(visit.page);
  await visit.page.keyboard.press("c");
  await visit.page.locator(".sl-beside .sl-canvas[data-ready]").waitFor();
  await visit.page.locator(".sl-plot").first().focus();
  await visit.page.keyboard.press("ArrowRight");
  await visit.page.keyboard.press("r");
  await harness.eventually(() => visit.page.locator("[data-totals]").first().isVisible(), "no range");
  const look = () => visit.page.evaluate(() => {
    const gray = (color) => {
      const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
      // What is mixed has parts of one, and is seen through.
      return a < 0.5 ? null : ((r + g + b) / 3) * (color.startsWith("rgb") ? 1 : 255);
    };
    const seen = [document.documentElement, ...document.body.querySelectorAll("*"), document.body].filter((element) => element.checkVisibility());
    const style = (element) => getComputedStyle(element);
    return {
      dark: seen.filter((element) => (gray(style(element).backgroundColor) ?? 255) < 80).map((element) => element.className || element.tagName),
      pale: seen.filter((element) => element.matches(".sl-print *") && element.childElementCount === 0 && gray(style(element).color) > 110).map((element) => `${element.className || element.tagName} ${style(element).color}`),
      parts: [".sl-view", ".sl-beside", "button", "meter", "canvas", "input", "select"].filter((part) => seen.some((element) => element.matches(part))),
    };
  });
  const screen = await look();
  assert.ok(screen.dark.length > 5 && screen.parts.length > 4, JSON.stringify(screen));
  await visit.page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await visit.page.emulateMedia({ media: "print" });
  assert.deepEqual(await look(), { dark: [], pale: [], parts: [] });
  assert.match(await harness.words(visit.page.locator(".sl-print")), /Range[^]*Selected[^]*Program/);
  await visit.page.emulateMedia({ media: "screen" });
  await visit.page.evaluate(() => dispatchEvent(new Event("afterprint")));
  await harness.eventually(async () => (await look()).parts.join() === screen.parts.join(), "what was hidden stays so");
  await visit.close();
});

test("a program that is edited has a third of a page of 1024 pixels, and the timeline keeps as much", async () => {
  const visit = await room.browser.open(page, { width: 1024, height: 768 });
  await harness.ready(visit.page);
  const width = (part) => visit.page.locator(part).first().evaluate((element) => element.getBoundingClientRect().width);
  const usual = await width(".sl-left");
  await visit.page.keyboard.press("e");
  await visit.page.locator(".sl-source").waitFor();
  assert.ok((await width(".sl-source")) > 1024 / 3 && (await width(".sl-plot")) > 1024 / 3, `${await width(".sl-source")} and ${await width(".sl-plot")} pixels`);
  await visit.page.locator(".sl-source").press("Escape");
  await harness.eventually(async () => (await width(".sl-left")) === usual, "it stays wide");
  await visit.close();
});
