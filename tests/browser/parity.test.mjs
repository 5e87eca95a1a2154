// The module in the page and the native command give the same traces and verdicts, byte for byte. The course's module is
// asked, which answers as text; the viewer's is built from the same sources.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import * as harness from "./harness.mjs";

const COMMAND = join(harness.ROOT, "target/debug/spanlift");
const PROGRAMS = join(harness.ROOT, "native/programs");
const MACHINES = ["tutorial-ci", "h200-pcie5", "a100-pcie4", "rtx4090-pcie4", "gh200-c2c"];

let folder;
let viewer;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), "spanlift-parity-"));
  const course = harness.viewer("course");
  // The glue exports nothing; its folder may say of such files what it likes.
  writeFileSync(join(folder, "course.mjs"), `${course.glue}\nexport { initSync, simulate, check };\n`);
  viewer = await import(pathToFileURL(join(folder, "course.mjs")).href);
  viewer.initSync({ module: harness.unpacked(course) });
});
after(() => rmSync(folder, { recursive: true, force: true }));

/** The trace that the command writes. */
function native(program, machine) {
  const trace = join(folder, "native.json");
  execFileSync(COMMAND, ["run", join(PROGRAMS, program), "--machine", machine, "--trace", trace, "--format", "json"], {
    stdio: "pipe",
  });
  return readFileSync(trace, "utf8");
}

// rows of a thousand tensors take the command's debug build a while: two of them stand for the others
const programs = readdirSync(PROGRAMS).filter((name) => !/^row(0[7-9]|1[0-5])/.test(name));

test("the page simulates what the command simulates", () => {
  assert.ok(programs.length >= 15);
  for (const program of programs) {
    const text = readFileSync(join(PROGRAMS, program), "utf8");
    const machines = program.startsWith("row") || program.startsWith("control") ? MACHINES.slice(0, 1) : MACHINES;
    for (const machine of machines) {
      assert.ok(viewer.simulate(text, machine) === native(program, machine), `${program} on ${machine}`);
    }
  }
});

test("the page's verdicts are the command's", () => {
  for (const program of programs) {
    const text = readFileSync(join(PROGRAMS, program), "utf8");
    for (const mode of ["contract", "typical"]) {
      const call = ["check", join(PROGRAMS, program), "--mode", mode, "--format", "json"];
      const { stdout } = spawnSync(COMMAND, call, { encoding: "utf8" });
      assert.equal(viewer.check(text, mode === "typical").trim(), stdout.trim(), `${program}, ${mode}`);
    }
  }
});

test("what cannot be simulated is an error, not a trap", () => {
  assert.throws(() => viewer.simulate("copy d <- x on s", "tutorial-ci"), /line 1/);
  assert.throws(() => viewer.simulate("stream s", "mars"), /mars/);
  assert.equal(typeof viewer.simulate("stream s", "tutorial-ci"), "string");
});
