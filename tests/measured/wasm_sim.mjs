// Events of the simulator in one second in WebAssembly, run by node on a module that was built as the page's is, with the
// feature `measure`:
//
//     node tests/measured/wasm_sim.mjs MODULE.wasm
//
// The module is the compiler's, before wasm-bindgen: its imports are never called here. Prints the least time of several
// runs of a prepared program for each length, as JSON.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { cpus, loadavg } from "node:os";

const bytes = readFileSync(process.argv[2]);
const module = new WebAssembly.Module(bytes);
const imports = {};
for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    (imports[from] ??= {})[name] = () => { throw new Error(`${from}.${name} was called`); };
}
const { exports } = new WebAssembly.Instance(module, imports);
// wasm-bindgen puts a hash behind the names, which its own pass takes away.
const call = name => exports[Object.keys(exports).find(key => key === name || key.startsWith(`${name}_`))];
const [measure_prepare, measure_run] = ["measure_prepare", "measure_run"].map(call);

const rows = [];
for (const [commands, streams] of [[10000, 16], [100000, 1], [100000, 16], [100000, 64]]) {
    const events = measure_prepare(commands, streams);
    let least = Infinity;
    for (let k = 0; k < 12; k++) {
        const begin = process.hrtime.bigint();
        if (!(measure_run() > 0)) throw new Error("the program did not run");
        least = Math.min(least, Number(process.hrtime.bigint() - begin) / 1e9);
    }
    rows.push({ commands, streams, events, seconds: least, events_per_s: Math.round(events / least) });
}
console.log(JSON.stringify({
    rows, module_bytes: bytes.length, module_gzip_bytes: gzipSync(bytes, { level: 9 }).length,
    node: process.version, cpu: cpus()[0].model, cores: cpus().length, load: loadavg()[0],
}, null, 1));
