// The module says in WebAssembly what the command says natively, byte for byte. No browser is needed for this.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import * as harness from "./harness.mjs";

const COMMAND = join(harness.ROOT, "target/debug/spanlift");
const PROGRAMS = join(harness.ROOT, "native/programs");

let files, viewer;
before(async () => {
  files = harness.scratch();
  const { glue, module } = harness.viewer();
  viewer = await import(pathToFileURL(files.write("viewer.mjs", glue)).href);
  viewer.initSync({ module: gunzipSync(Buffer.from(module, "base64")) });
});
after(() => files?.remove());

/** Items as a page carries them. */
function block(items) {
  const head = Buffer.from(JSON.stringify({ items: items.map(({ text, ...item }) => ({ ...item, bytes: text.length })) }));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(head.length);
  return Buffer.concat([length, head, ...items.map(({ text }) => text)]);
}

for (const name of readdirSync(PROGRAMS).filter((name) => name.endsWith(".txt"))) {
  test(`${name} runs alike`, async () => {
    const path = join(PROGRAMS, name);
    const out = join(files.folder, `${name}.json`);
    await harness.spanlift("run", path, "--trace", out);
    const told = viewer.trace_json(block([{ name, kind: "program", text: readFileSync(path) }]), 0);
    assert.ok(Buffer.from(told).equals(readFileSync(out)), "the traces differ");
  });
}

test("verdicts are the command's, in both modes", async () => {
  for (const name of readdirSync(PROGRAMS).filter((name) => name.endsWith(".txt"))) {
    const path = join(PROGRAMS, name);
    for (const mode of ["contract", "typical"]) {
      const { stdout } = spawnSync(COMMAND, ["check", path, "--mode", mode, "--format", "json"], { encoding: "utf8" });
      assert.equal(viewer.check(readFileSync(path, "utf8"), mode === "typical").trim(), stdout.trim(), `${name}, ${mode}`);
    }
  }
});

test("bad input is refused and leaves the module alive", () => {
  const program = (text) => () => viewer.trace_json(block([{ name: "p", kind: "program", text: Buffer.from(text) }]), 0);
  assert.throws(program("copy x <- y on s"), /is not declared/);
  assert.throws(program("{"), /.+/);
  assert.throws(() => viewer.trace_json(Buffer.from("nonsense"), 0), /cut off|list of items/);
  assert.throws(() => viewer.trace_json(block([{ name: "t", kind: "trace", text: Buffer.from("{\"traceEvents\": [{") }]), 0), /byte/);
  assert.throws(() => viewer.trace_json(block([]), 0), /no such item/);
  assert.ok(program("stream s\npinned x 4\ndevice d 4\ncopy d <- x on s\nsync s\n")().includes("traceEvents"));
});
