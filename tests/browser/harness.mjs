// Opens local pages in the system's Chromium, or its Firefox, and looks at them as a person would: waits, points, reads pixels.
//
// Every page is watched: an http(s) or socket request is refused and noted, and so is each error of the page. `close`
// fails the test when there was one that the test did not name.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { gunzipSync, gzipSync } from "node:zlib";

const CHROMIUM = process.env.SPANLIFT_CHROMIUM ?? "/usr/bin/chromium";
export const FIREFOX = process.env.SPANLIFT_FIREFOX ?? "/usr/bin/firefox-esr";
/** The engine of tests that name none: most pass in Firefox too, but for touch, media, downloads and the words of the engine itself. */
const ENGINE = process.env.SPANLIFT_ENGINE ?? "chromium";
const FLAGS = [
  "--no-sandbox", // root has no other way
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
];
const PATIENCE_MS = 20_000;
// Every frame this much late, as on a machine that is busy: a test that looks before the page has drawn fails then.
const SLOW_FRAMES_MS = Number(process.env.SPANLIFT_SLOW_FRAMES ?? 0);

export const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

function playwright() {
  const modules = process.env.SPANLIFT_NODE_MODULES;
  assert.ok(modules, "SPANLIFT_NODE_MODULES is not set: start the browser tests with tests/run --only browser");
  return createRequire(join(modules, "from-here.js"))("playwright-core");
}

/** A folder of its own that `remove` takes away. */
export function scratch() {
  const folder = mkdtempSync(join(tmpdir(), "spanlift-browser-"));
  return {
    folder,
    write(name, text) {
      const path = join(folder, name);
      writeFileSync(path, text);
      return path;
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Runs the `spanlift` command as built by `cargo build`; gives its standard output, throws when it fails. */
export async function spanlift(...args) {
  const binary = join(ROOT, "target/debug/spanlift");
  const { stdout } = await promisify(execFile)(binary, args, { cwd: ROOT, maxBuffer: 1 << 28 });
  return stdout;
}

/** A browser with a new, empty profile. Firefox is driven by WebDriver BiDi, which needs no build of its own. */
export async function browser(engine = ENGINE) {
  const home = scratch();
  const env = { ...process.env, HOME: home.folder, XDG_CONFIG_HOME: home.folder, XDG_CACHE_HOME: home.folder };
  const driven = engine === "firefox"
    ? await playwright().firefox.launch({ executablePath: FIREFOX, channel: "moz-firefox", env })
    : await playwright().chromium.launch({ executablePath: CHROMIUM, args: FLAGS, env });
  return {
    open: (path, options) => open(driven, path, options),
    context: (options) => driven.newContext(options),
    async close() {
      await driven.close();
      home.remove();
    },
  };
}

/** A folder and a browser for the tests of one file, from before its first one until after its last. */
export function room() {
  const room = {};
  before(async () => {
    room.files = scratch();
    room.browser = await browser();
  });
  after(async () => {
    await room.browser?.close();
    room.files?.remove();
  });
  return room;
}

function slowFrames(ms) {
  const frame = globalThis.requestAnimationFrame.bind(globalThis);
  globalThis.requestAnimationFrame = (act) => setTimeout(() => frame(act), ms);
}

async function open(driven, path, { width = 1200, height = 800, colorScheme = "light", hasTouch = false, script } = {}) {
  const context = await driven.newContext({ viewport: { width, height }, colorScheme, hasTouch });
  if (SLOW_FRAMES_MS > 0) await context.addInitScript(slowFrames, SLOW_FRAMES_MS);
  if (script) await context.addInitScript(script);
  const page = await context.newPage();
  const requests = [];
  const errors = [];
  // A page that this machine serves may ask its own place, and has the viewer that the tests are about.
  const own = /^http:\/\/127\.0\.0\.1:\d+\/[^/]+\//.exec(path)?.[0];
  await context.route(/^(https?|wss?):/, async (route) => {
    const url = route.request().url();
    if (own && url === path) {
      const answer = await route.fetch();
      const text = await answer.text();
      return route.fulfill({ response: answer, body: holdsCommittedViewer(text) ? withFreshViewer(text) : text });
    }
    if (own && url.startsWith(own)) return route.continue();
    requests.push(url);
    return route.abort();
  });
  page.on("websocket", (socket) => requests.push(socket.url()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // what the refusal above makes the browser say is no error of the page
    if (message.type() === "error" && !/^(https?|wss?):/.test(message.location().url)) errors.push(message.text());
  });
  await page.goto(own ? path : pathToFileURL(path).href);
  return {
    page,
    requests,
    errors,
    /** Ends the visit; `knownRequests` are patterns of addresses that may have been asked for. */
    async close({ knownRequests = [] } = {}) {
      await context.close();
      assert.deepEqual(errors, [], "the page reported errors");
      const unknown = requests.filter((url) => !knownRequests.some((known) => known.test(url)));
      assert.deepEqual(unknown, [], "the page asked the network");
    },
  };
}

/** Waits until `look` gives something true; gives that. */
export async function eventually(look, what, patience = PATIENCE_MS) {
  const end = Date.now() + patience;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited ${patience} ms in vain: ${what}`);
    await new Promise((wake) => setTimeout(wake, 50));
  }
}

/** Waits until an element of `frame` says `data-ready`; gives its locator. Throws at once when one says `data-error`. */
export async function ready(frame, patience = PATIENCE_MS) {
  const failed = frame.locator("[data-error]").first();
  const done = frame.locator("[data-ready]").first();
  await eventually(
    async () => {
      if (await failed.count()) throw new Error(`the page says: ${await failed.getAttribute("data-error")}`);
      return done.count();
    },
    "no element became data-ready",
    patience,
  );
  await done.scrollIntoViewIfNeeded();
  return done;
}

/** The frame inside the element that `locator` names (an iframe), scrolled into view. */
export async function frameIn(locator) {
  await locator.scrollIntoViewIfNeeded();
  return eventually(async () => (await locator.elementHandle())?.contentFrame(), "the frame has no document");
}

/** How many pixels of a canvas are within `tolerance` per channel of `colour` ("#rrggbb"). */
export function pixels(canvas, colour, tolerance = 6) {
  const wanted = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
  return canvas.evaluate(
    (element, [wanted, tolerance]) => {
      const { data } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
      let found = 0;
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3] > 0 && wanted.every((value, c) => Math.abs(data[i + c] - value) <= tolerance)) found += 1;
      }
      return found;
    },
    [wanted, tolerance],
  );
}

/** How many pixels of a canvas differ from its most frequent colour: 0 for an empty one. */
export function painted(canvas) {
  return canvas.evaluate((element) => {
    const { data } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
    const words = new Uint32Array(data.buffer);
    const counts = new Map();
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
    return words.length - Math.max(0, ...counts.values());
  });
}

/** A hash of what a canvas shows, to see whether it changed. */
export function look(canvas) {
  return canvas.evaluate((element) => {
    const { data } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
    return new Uint32Array(data.buffer).reduce((hash, word) => (Math.imul(hash, 31) + word) | 0, 7);
  });
}

/** Clicks at (x, y) in CSS pixels from the corner of `element`. */
export const click = (element, x, y) => element.click({ position: { x, y } });

/** Turns the wheel by `dy` with the pointer at (x, y) in CSS pixels from the corner of `element`. */
export async function wheel(page, element, x, y, dy, keys = []) {
  await element.hover({ position: { x, y } });
  for (const key of keys) await page.keyboard.down(key);
  await page.mouse.wheel(0, dy);
  for (const key of keys) await page.keyboard.up(key);
}

/** The text of an element as it is read: a blank that keeps a figure at its unit is one like others. */
export const words = async (locator) => (await locator.innerText()).replaceAll("\u00a0", " ");

/** The text of the element that shows the selection. */
export const selection = (frame, selector = "[data-selection]") => words(frame.locator(selector).first());

const COMMITTED = join(ROOT, "wasm/dist");
/** What the page's script unpacks its module with and starts it. */
export const UNPACKING = ["digits", "lzma", "parts"].map((name) => readFileSync(join(ROOT, `wasm/src/page/${name}.js`), "utf8")).join("");
export const { digits, fives, unlzma } = new Function(`${UNPACKING}; return { digits, fives, unlzma };`)();

const PRINTED = Array.from({ length: 95 }, (_, k) => String.fromCharCode(32 + k));
const ZERO = PRINTED.find((digit) => digits(digit.repeat(16)).every((byte) => byte === 0));
// Of sixteen digits, which are thirteen bytes, the last is all of the last bits.
const worth = (digit) => digits(ZERO.repeat(15) + digit)[12];
/** The digits that the page finds, by their worth. */
const DIGITS = PRINTED.reduce((found, digit) => (worth(digit) ? Object.assign(found, { [worth(digit)]: digit }) : found), [ZERO]);
/** Bytes as a page holds them, by a way of their own: as a row of bits. */
export const written = (bytes) => {
  const bits = Array.from(bytes, (byte) => byte.toString(2).padStart(8, "0")).join("");
  const two = (thirteen) => {
    const number = Number.parseInt(thirteen.padEnd(13, "0"), 2);
    return DIGITS[Math.floor(number / 91)] + DIGITS[number % 91];
  };
  return (bits.match(/.{1,13}/g) ?? []).map(two).join("");
};
/** What elements write for each number of twenty bits, in a way of their own: all that three bytes can be, in one order. */
const TWENTY = (() => {
  const digits = PRINTED.filter((digit) => digit !== "<");
  const three = digits.flatMap((a) => digits.flatMap((b) => digits.map((c) => a + b + c)));
  const letters = Array.from({ length: 1160 }, (_, k) => String.fromCodePoint(160 + k));
  return three.concat(letters.flatMap((letter) => [...digits.map((digit) => digit + letter), ...digits.map((digit) => letter + digit)]));
})();
/** Bytes as the element of a page holds them. */
export const writtenInSixes = (bytes) => {
  const hex = Buffer.from(bytes).toString("hex");
  const filled = hex + "0".repeat((10 - (hex.length % 10)) % 10);
  return (filled.match(/.{5}/g) ?? []).map((five) => TWENTY[Number.parseInt(five, 16)]).join("");
};
/** Data, or a script, as a page holds it: as many bytes as its digits stand for, by a comment of gzip's. */
export const packedData = (data) => {
  const packed = gzipSync(data);
  if (digits(written(packed)).length === packed.length) return written(packed);
  packed[3] |= 16;
  return written(Buffer.concat([packed.subarray(0, 10), Buffer.alloc(1), packed.subarray(10)]));
};
/** The data of a page's first place. */
export const dataOf = (html) => gunzipSync(digits(/data-spanlift="([^"]*)"/.exec(html)[1]));
/** The page with other data there. */
export const withData = (html, data) => html.replace(/data-spanlift="[^"]*"/, () => `data-spanlift="${packedData(data)}"`);
const pairs = new Map();
/** A built pair as pages hold it, read once. */
const dist = (folder, pair) => {
  const path = join(folder, pair);
  if (!pairs.has(path)) {
    const [glue, page] = [path, join(folder, pair === "course" ? "lessons" : "page")].map((name) => readFileSync(`${name}.js`, "utf8"));
    const packed = readFileSync(`${path}.wasm.lzma`);
    // As frames hold it, and as elements do.
    const [module, inSixes] = [written(packed), writtenInSixes(packed)];
    pairs.set(path, { name: pair, glue, script: glue + page, module, inSixes });
  }
  return pairs.get(path);
};

/** The module of a pair as the page's script finds it, packed. */
export const packed = ({ module }) => digits(module);

/** What was packed, unpacked by the page's own script; piece by piece where a size of those is given. */
export const unpacked = (pair, piece) => {
  const until = unlzma(packed(pair));
  const { length } = until();
  if (!piece) return until();
  const again = unlzma(packed(pair));
  for (let n = 0; n < length; n += piece) again(n);
  return again();
};

/** The two parts of a pair's module, unpacked. */
export const parts = (pair) => {
  const all = unpacked(pair);
  const length = 4 + new DataView(all.buffer).getUint32(0, true);
  return [all.subarray(4, length), all.subarray(length)];
};

/** The pair that the tests are about, `viewer` or `course`: the one just built, or the committed one where none was. */
export function viewer(pair = "viewer") {
  const fresh = process.env.SPANLIFT_VIEWER_DIST;
  return dist(fresh && existsSync(join(fresh, `${pair}.wasm.lzma`)) ? fresh : COMMITTED, pair);
}

/** Two streams, and a kernel that no event orders behind the copy. */
export const RACE = `machine h200-pcie5
stream copy, compute
pinned x 4MiB
device d 4MiB
copy d <- x on copy
kernel scale on compute reads d writes d for 120us
sync compute
sync copy
`;
/** A copy of pageable memory that takes most of the time. */
export const SLOW = `machine h200-pcie5
stream s
pageable x 64MiB
device d 64MiB
copy d <- x on s
kernel scale on s reads d writes d for 120us
sync s
`;

/** Whether `html` carries the viewer of `wasm/dist`. */
export const holdsCommittedViewer = (html) => committedPair(html) !== undefined;

/** The pair whose committed module a page holds: that with the algebra where the page has operators. */
const committedPair = (html) =>
  ["viewer", "operators"].find((pair) => [dist(COMMITTED, pair).module, dist(COMMITTED, pair).inSixes].some((held) => html.includes(held)));

/** The page of `spanlift view` over these arguments, with the viewer as built now; gives its path. */
export async function viewed(files, name, ...args) {
  const made = join(files.folder, `committed-${name}`);
  await spanlift("view", ...args, "-o", made);
  return files.write(name, withFreshViewer(readFileSync(made, "utf8")));
}

/** Waits until what `state` gives of the canvas is as wanted; gives it. */
export const until = (state, canvas, is, what) =>
  eventually(async () => {
    const now = await state(canvas);
    return is(now) && now;
  }, what);

/** `html` with the committed pair in it replaced by the one just built; quotes may be escaped as frames, nbconvert and JSON do. */
export function withFreshViewer(html, fresh = viewer(committedPair(html)), committed = dist(COMMITTED, fresh.name ?? "viewer")) {
  const holds = (is, what) => assert.ok(is, `the page does not hold the committed ${what}`);
  let scripts = 0;
  const page = html.replace(/(data-script=(?:\\?"|&(?:amp;)?quot;))([^"&\\]+)/g, (_, before, packed) => {
    holds(gunzipSync(digits(packed)).toString() === committed.script, `${fresh.name}.js`);
    scripts += 1;
    return before + packedData(fresh.script);
  });
  holds(scripts, `${fresh.name}.js`);
  holds(page.includes(committed.module) || page.includes(committed.inSixes), `${fresh.name}.wasm.lzma`);
  return page.replaceAll(committed.module, () => fresh.module).replaceAll(committed.inSixes, () => fresh.inSixes);
}
