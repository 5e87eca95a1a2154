// The module in the page and the native command give the same traces and verdicts, byte for byte. The modules of the
// course and of operators are asked, which answer as text; the viewer's is built from the same sources.

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
let algebra;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), "spanlift-parity-"));
  const load = async (name, exported) => {
    const pair = harness.viewer(name);
    // The glue exports nothing; its folder may say of such files what it likes.
    writeFileSync(join(folder, `${name}.mjs`), `${pair.glue}\n${harness.UNPACKING}\nexport { started, ${exported} };\n`);
    const loaded = await import(pathToFileURL(join(folder, `${name}.mjs`)).href);
    await loaded.started({ packed: harness.packed(pair) });
    return loaded;
  };
  viewer = await load("course", "simulate, check");
  algebra = await load("operators", "simulate, check, apply");
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
const programs = readdirSync(PROGRAMS).filter((name) => name.endsWith(".txt") && !/^row(0[7-9]|1[0-5])/.test(name));

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

// Operators of every kind, small: what the page makes of them and their adjoints is what the command makes of them.
const OPERATORS = [
  "W = dense(c32[b=2, n=5]@cuda:0, [b, m=3], random(2))\nA = to(cuda:0) -> W -> to(cpu)",
  "A = fft(y, x).over(c64[y=6, x=7])",
  "A = rfft(x).over(f64[x=9])",
  "A = fft(x).centered.over(c32[x=11])",
  "A = nufft(k, x=[-3, 0.25, 2.5]).over(c64[x=8])",
  "A = interpolate(p, x=[0.5, 3.25, 6]).over(f64[x=8])",
  "A = convolution([x=3], [1, -2, 0.5]).mode(full).over(f32[x=10])",
  "A = gradient(g, y, x).over(f64[y=4, x=3])",
  "A = sampling(p, y=[0, 1, 3], x=[2, 0, 1]).over(f64[y=4, x=3])",
  "A = blocks(x=[3, 2]).over(f64[x=9])",
  "A = pad(x, 12).named(u).over(f32[x=5]) -> roll(u, 2) -> slice(u, 1..11, 3).named(v) -> flip(v)",
  "B = diagonal(f64[x=6], ramp(-1, 0.3))\nC = finite_difference(x, periodic).over(f64[x=6])\nA = hstack(x, [B -> rename(x=u), C -> rename(x=u)])",
  "B = diagonal(c64[x=6], random(5))\nshow (1+2i) * normal(B) - B^3 + 0.25",
  "B = dense(f64[x=6], [m=4], random(6))\nshow normal(B.split(m, 4, [cuda:0, cuda:1])) + 0.1",
];

test("the page applies operators as the command does", () => {
  const ask = (text) => {
    const file = join(folder, "operator.txt");
    writeFileSync(file, text);
    return JSON.parse(execFileSync(COMMAND, ["run", file, "--format", "json"], { encoding: "utf8" })).operator;
  };
  for (const lines of OPERATORS) {
    const text = `operator\n${lines}\n`;
    const { result, input } = ask(text);
    // The sines and cosines of a transform are those of its platform: all but their last digits.
    const near = (found, wanted, of) => {
      const size = Math.hypot(...wanted.flat(), 1e-300);
      const off = Math.hypot(...found.flatMap(([re, im], k) => [re - wanted[k][0], im - wanted[k][1]]));
      assert.equal(found.length, wanted.length, of);
      assert.ok(off <= 1e-14 * size, `${of}: ${off / size}`);
      if (!/fft/.test(of)) assert.deepEqual(found, wanted, of);
    };
    near(JSON.parse(algebra.apply(text, false)), result, lines);
    assert.ok(input.length > 0);
    const shown = /^show (.*)$/m.exec(lines)?.[1] ?? "A";
    const both = ask(`operator\n${lines.replace(/^show .*$/m, "")}\nshow (${shown}) -> (${shown})^H\n`);
    near(JSON.parse(algebra.apply(text, true)), both.result, `${lines}, and back`);
  }
});

test("operators are simulated and judged as the command does", () => {
  for (const name of readdirSync(join(PROGRAMS, "operators"))) {
    const text = readFileSync(join(PROGRAMS, "operators", name), "utf8");
    if (name === "missing-transfer.txt") {
      assert.throws(() => algebra.simulate(text, "h200-pcie5"), /line 5, column \d+: `W` expects f64\[x\]@cuda:0/);
      continue;
    }
    assert.ok(algebra.simulate(text, "h200-pcie5") === native(`operators/${name}`, "h200-pcie5"), name);
    assert.equal(JSON.parse(algebra.check(text, false)).verdict, "safe", name);
    // The course's module has the algebra, too.
    assert.ok(viewer.simulate(text, "h200-pcie5") === algebra.simulate(text, "h200-pcie5"), name);
    assert.equal(viewer.check(text, false), algebra.check(text, false), name);
  }
});

test("what cannot be simulated is an error, not a trap", () => {
  assert.throws(() => viewer.simulate("copy d <- x on s", "tutorial-ci"), /line 1/);
  assert.throws(() => viewer.simulate("stream s", "mars"), /mars/);
  assert.equal(typeof viewer.simulate("stream s", "tutorial-ci"), "string");
});
