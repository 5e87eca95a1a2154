"""Executes the course's notebooks and says which cells failed.

The Rust kernel answers "ok" for a cell that panicked, whose assertion failed or that an `Err` left through `?`: the only
sign is text on standard error. So a cell passes when its reply is ok, none of its outputs is an error and standard error
stayed empty. Two cell tags change that: `raises-exception` (the cell must fail) and `allow-stderr` (text there is fine).

Exercises: notebooks/solutions/NAME.rs holds, behind a line `// cell ID: WORDS` each, what a reader would put in the place of
a cell. It is run just before that cell and must answer with those words, which the cell as it stands must not say.

A notebook that holds outputs is a published copy: what its outputs say must be what they say now. `--publish` writes them,
reduced to the picture and its words, so that a notebook reads well where nothing runs.

A cell with the tag `here` tells of the machine that it runs on: its words are not compared with the published copy's.

A notebook that passed is not run again while nothing changed that its result depends on: itself, its solutions, the sources of
spanlift, the data, this runner, the compiler and the kernel. What passed is noted in target/notebooks, beside the executed
copies and their pages, so a fresh clone runs everything; `--all` does, too.

Before any notebook runs, the runner proves on planted failures that it can see them. Exit status: 0 all passed, 1 a cell
failed, 2 the call is wrong.
"""

import argparse
import asyncio
import base64
import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "target" / "notebooks"
RUNNING = OUT / "running"  # a file for each kernel's process group, so that tests/run ends what a killed runner cannot
KERNEL = "spanlift-tests"
PASSED = OUT / "passed"  # a file for each notebook that passed, with the hash of all that its result depends on
AT_A_TIME = 2  # kernels compile: more of them only wait for each other
SELF_TEST = "self-test"
QUIET_SECONDS = 0.05
CELL_SECONDS = 300
FIRST_SECONDS = 1200  # the first cell of a cold cache builds every crate, on a machine that may have other work
START_SECONDS = 600
KEPT_BUILDS = 1  # build folders of other compilers or lock files that are kept
LARGEST_BUILD = 1 << 30  # bytes: a build folder larger than that, by the libraries of trees that are gone, begins anew

# What notebooks are built from and read, beside themselves.
SOURCES = [
    "Cargo.toml", "Cargo.lock", "core/Cargo.toml", "core/src", "core/data", "wasm/Cargo.toml", "wasm/src", "wasm/dist",
    "native/Cargo.toml", "native/src", "native/data", "native/kernels", "native/programs", "notebooks/kit", "notebooks/cells.toml", "notebooks/data",
    "tests/notebooks/run.py", "tests/requirements.txt",
]

SOLUTION = re.compile(r"^// cell (\w+): (.+)\n", re.MULTILINE)
PICTURE = re.compile(r'src="data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)"')
COLOUR_CODES = re.compile(r"\x1b\[[0-9;]*m")

# source, tags, what the verdict must contain ("" where the cell must pass)
PLANTED = [
    ("let kept = 20;", [], ""),
    ('panic!("planted panic");', [], "planted panic"),
    ('"no number".parse::<i32>()?;', [], "invalid digit"),
    ("let wrong: i32 = true;", [], "mismatched types"),
    ("assert_eq!(kept, 21);", [], "left: 20"),
    ('eprintln!("planted note");', [], "planted note"),
    ('eprintln!("planted note");', ["allow-stderr"], ""),
    ('panic!("planted panic");', ["allow-stderr", "raises-exception"], ""),
    ('"no number".parse::<i32>()?;', ["raises-exception"], ""),
    ("kept + 1", ["raises-exception"], "was expected to fail"),
    ("assert_eq!(kept, 20);", [], ""),
    ("std::process::abort();", [], "Subprocess terminated"),
]


def private_jupyter(kernel):
    """Points Jupyter at folders under target/, with one kernel in them: the user's own are neither read nor written."""
    home = OUT / "jupyter"
    shutil.rmtree(home, ignore_errors=True)
    spec = home / "data" / "kernels" / KERNEL
    spec.mkdir(parents=True)
    spec.joinpath("kernel.json").write_text(
        json.dumps(
            {
                "argv": [str(kernel), "--control_file", "{connection_file}"],
                "display_name": "Rust (tests)",
                "language": "rust",
                "interrupt_mode": "message",
            }
        )
    )
    for name in ["config", "runtime", "evcxr"]:
        home.joinpath(name).mkdir()
    os.environ.update(
        JUPYTER_PATH=str(home / "data"),
        JUPYTER_DATA_DIR=str(home / "data"),
        JUPYTER_CONFIG_DIR=str(home / "config"),
        JUPYTER_RUNTIME_DIR=str(home / "runtime"),
        JUPYTER_NO_CONFIG="1",
        EVCXR_CONFIG_DIR=str(home / "evcxr"),
        RUST_BACKTRACE="0",
    )
    for name in ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"]:
        os.environ.pop(name, None)
    # Cells find the standard library by a path relative to where they were linked, and are then moved one folder up:
    # that goes wrong where the build folder and the toolchain share a parent, such as the user's home.
    libraries = [rustc("--print", "target-libdir").strip(), os.environ.get("LD_LIBRARY_PATH")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))


def rustc(*args):
    return subprocess.run(["rustc", *args], check=True, capture_output=True, text=True, cwd=ROOT).stdout


def build_folders(cache, kernel):
    """The folder of the kernels' build folders: one per compiler, kernel and lock file; the oldest others are removed."""
    lock, cells = (ROOT / "Cargo.lock").read_text(), (ROOT / "notebooks/cells.toml").read_text()
    key = hashlib.sha256("\n".join([rustc("-vV"), str(kernel), lock, cells]).encode()).hexdigest()[:12]
    parent = cache / "notebook-builds"
    mine = parent / key
    (mine / ".cargo").mkdir(parents=True, exist_ok=True)
    (mine / ".cargo/config.toml").write_text(cells)  # cargo looks for it above a kernel's folder
    os.utime(mine)
    others = sorted(parent.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in others[1 + KEPT_BUILDS :]:
        shutil.rmtree(folder, ignore_errors=True)
    return mine


async def run_all(paths, builds, publish):
    """Runs the notebooks, a few at a time, each in a build folder that nobody else uses meanwhile; gives which passed.

    What a first cell builds is the same for all: the first notebook builds it alone where its sources changed, and the other
    folders begin as copies.
    """
    turns = [builds / str(n) for n in range(1, AT_A_TIME + 1)]
    for other in builds.iterdir():
        if other.is_dir() and other not in turns and other.name not in [SELF_TEST, ".cargo"]:
            shutil.rmtree(other, ignore_errors=True)
    built, sources, passed = builds / "built", sources_hash(), []
    if paths and not (has_library(turns[0]) and built.is_file() and built.read_text() == sources):
        built.unlink(missing_ok=True)
        for old in turns if size(turns[0]) > LARGEST_BUILD else turns[1:]:
            shutil.rmtree(old, ignore_errors=True)
        passed.append(await run(paths[0], turns[0], publish))
        paths = paths[1:]
        if has_library(turns[0]):
            built.write_text(sources)
    for cold in turns[1:] if len(paths) > 1 and has_library(turns[0]) else []:
        if not has_library(cold):
            made = cold.with_suffix(".partial")
            shutil.rmtree(cold, ignore_errors=True)
            shutil.copytree(turns[0], made, symlinks=True)
            made.rename(cold)
    free = asyncio.Queue()
    for turn in turns:
        free.put_nowait(turn)

    async def in_turn(path):
        turn = await free.get()
        try:
            return await run(path, turn, publish)
        finally:
            free.put_nowait(turn)

    return passed + await asyncio.gather(*map(in_turn, paths))


def size(folder):
    """The bytes of all files in a folder."""
    return sum(file.lstat().st_size for file in folder.rglob("*"))


def inputs(path, kernel):
    """The hash of all that the result of a notebook depends on."""
    told = hashlib.sha256("\n".join([rustc("-vV"), str(kernel), sys.version, sources_hash()]).encode())
    for file in [path, path.parent / "solutions" / f"{path.stem}.rs"]:
        told.update(file.read_bytes() if file.is_file() else b"-")
    return told.hexdigest()


def sources_hash():
    """The hash of the names and contents of all sources."""
    told = hashlib.sha256()
    for source in map(ROOT.joinpath, SOURCES):
        inside = sorted(source.rglob("*")) if source.is_dir() else [source]
        for file in inside:
            name = file.relative_to(ROOT)
            if file.is_file() and "target" not in name.parts:
                told.update(f"{name}\n{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return told.hexdigest()


def is_unchanged(path, now):
    """Whether a notebook passed when all was as it is now, and what it left is there."""
    note = PASSED / path.stem
    left = [OUT / path.name, OUT / f"{path.stem}.html"]
    return note.is_file() and note.read_text() == now and all(file.is_file() for file in left)


def clear(kept):
    """Takes away what earlier runs left, but of the notebooks that are not run again."""
    for file in OUT.iterdir() if OUT.is_dir() else []:
        if file.is_dir() and file != PASSED:
            shutil.rmtree(file, ignore_errors=True)
        elif file.is_file() and file.stem not in kept:
            file.unlink()
    PASSED.mkdir(parents=True, exist_ok=True)
    for note in PASSED.iterdir():
        if note.name not in kept:
            note.unlink()


def has_library(folder):
    """Whether a build folder has what every first cell builds."""
    return any(folder.glob("target/*/debug/libkit.so"))


def verdict(cell, reply_status):
    """Why `cell` did not end as it should, in one line, or ""."""
    tags = cell.metadata.get("tags", [])
    errors, notes = [], []
    for output in cell.outputs:
        if output.output_type == "error":
            errors.append(output.evalue or "\n".join(output.traceback) or output.ename)
        elif output.output_type == "stream" and output.name == "stderr":
            notes.append(output.text)
    if reply_status != "ok" and not errors:
        errors.append(f"the kernel answered {reply_status!r}")
    if "raises-exception" in tags:
        return "" if errors or notes else "was expected to fail and did not"
    told = errors if "allow-stderr" in tags else errors + notes
    lines = [COLOUR_CODES.sub("", line).strip() for text in told for line in text.splitlines()]
    lines = [line for line in itertools.takewhile(lambda line: line != "stack backtrace:", lines) if line]
    return " ".join(lines[:4]) or ("failed without a word" if told else "")


def solutions(path):
    """What stands for the exercises of a notebook: by the cell's id, the words that its answer must hold and its source."""
    file = path.parent / "solutions" / f"{path.stem}.rs"
    if not file.is_file():
        return {}
    _, *parts = SOLUTION.split(file.read_text())
    return {name: (words.strip(), source.strip("\n")) for name, words, source in zip(*[iter(parts)] * 3)}


def said(cell):
    """What the outputs of a cell say in words, one string each."""
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return ["".join(text).rstrip() for text in texts]


def published(cell):
    """The outputs of a cell as a notebook keeps them: words, and the picture where there is one."""
    from nbformat import NotebookNode

    kept = []
    for output in cell.outputs:
        output = NotebookNode(output)
        if "data" in output:
            data = {"text/plain": output.data.get("text/plain", "")}
            if picture := PICTURE.search(output.data.get("text/html", "")):
                data["image/svg+xml"] = base64.b64decode(picture[1]).decode()
            output.data = NotebookNode(data)
        if output.output_type == "execute_result":
            output.execution_count = None
        kept.append(output)
    return kept


class Stopped(Exception):
    """The kernel gives no more answers: nothing after this cell could mean anything."""


class Kernel:
    """A running kernel and the cells it was given.

    The kernel passes standard error on from a thread of its own, so text can arrive after the cell's reply and even after
    "idle". Every message is therefore filed under the cell that caused it, however late, and `fence` waits for the last.
    """

    def __init__(self, manager, client):
        self.manager, self.client = manager, client
        self.cells, self.idle, self.stderr, self.last_heard = {}, {}, "", 0.0
        self.patience = FIRST_SECONDS

    async def listen(self):
        from nbformat.v4 import output_from_msg

        while True:
            message = await self.client.get_iopub_msg(timeout=None)
            self.last_heard = time.monotonic()
            asked_by, content = message["parent_header"].get("msg_id"), message["content"]
            if message["msg_type"] == "status" and content["execution_state"] == "idle" and asked_by in self.idle:
                self.idle[asked_by].set()
            if message["msg_type"] == "stream" and content["name"] == "stderr":
                self.stderr += content["text"]
            cell = self.cells.get(asked_by)
            if cell is not None and message["msg_type"] in ["stream", "error", "execute_result", "display_data"]:
                output = output_from_msg(message)
                last = cell.outputs[-1] if cell.outputs else {}
                if output.output_type == "stream" and last.get("name") == output.name:
                    last.text += output.text
                else:
                    cell.outputs.append(output)

    async def execute(self, cell):
        """Runs `cell`, files its outputs, gives the status of the reply."""
        request = self.client.execute(cell.source, allow_stdin=False, stop_on_error=False)
        self.cells[request], self.idle[request] = cell, asyncio.Event()
        reply = await self.reply(request)
        cell.execution_count = reply.get("execution_count")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.idle[request].wait(), 10)
        while time.monotonic() - self.last_heard < QUIET_SECONDS:
            await asyncio.sleep(QUIET_SECONDS / 2)
        return reply["status"]

    async def reply(self, request):
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            with contextlib.suppress(queue.Empty):
                message = await self.client.get_shell_msg(timeout=1)
                if message["parent_header"].get("msg_id") == request:
                    self.patience = CELL_SECONDS
                    return message["content"]
            if not await self.manager.is_alive():
                raise Stopped("the kernel died")
        raise Stopped(f"no answer within {self.patience} s")

    async def fence(self):
        """Waits until all that cells wrote to standard error has arrived: it comes in order, so a last word ends it."""
        word = "last word of the notebook"
        request = self.client.execute(f'eprintln!("{word}");', allow_stdin=False, stop_on_error=False)
        await self.reply(request)
        end = time.monotonic() + 60
        while word not in self.stderr:
            if time.monotonic() > end:
                raise Stopped("standard error did not come to its end")
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def running_kernel(folder, build_folder):
    """A kernel that works in `folder`, ended at the end with everything that it started."""
    from jupyter_client import AsyncKernelManager

    build_folder.mkdir(exist_ok=True)
    manager = AsyncKernelManager(kernel_name=KERNEL)
    client = listener = group = None
    try:
        await manager.start_kernel(cwd=str(folder), env=os.environ | {"EVCXR_TMPDIR": str(build_folder)})
        group = manager.provisioner.pgid
        RUNNING.joinpath(str(group)).touch()
        client = manager.client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=START_SECONDS)
        except RuntimeError as error:
            raise Stopped(str(error)) from error
        kernel = Kernel(manager, client)
        listener = asyncio.create_task(kernel.listen())
        yield kernel
    finally:
        if listener:
            listener.cancel()
        if client:
            client.stop_channels()
        if group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
            RUNNING.joinpath(str(group)).unlink(missing_ok=True)
        if manager.has_kernel:
            await manager.shutdown_kernel(now=True)


async def execute(notebook, folder, build_folder, solved=None):
    """Runs all cells, and before an exercise its solution; gives what failed as (cell, why) and the seconds of all."""
    from nbformat import v4

    solved = solved or {}
    statuses, wrong, stopped, seconds = {}, [], [], []
    began, at = time.monotonic(), "start"
    try:
        async with running_kernel(folder, build_folder) as kernel:
            seconds.append((at, time.monotonic() - began))
            for at, cell in enumerate(notebook.cells):
                if cell.cell_type != "code":
                    continue
                cell.outputs, cell.execution_count = [], None
                if words_and_source := solved.get(cell.get("id")):
                    words, source = words_and_source
                    answer = v4.new_code_cell(source)
                    why = verdict(answer, await kernel.execute(answer))
                    answered = "\n".join(said(answer))
                    if why or words not in answered:
                        wrong.append((f"cell {at} solved", why or f"expected {words!r}, found {answered[:200]!r}"))
                if cell.source.strip():
                    began = time.monotonic()
                    statuses[at] = await kernel.execute(cell)
                    seconds.append((at, time.monotonic() - began))
                    if words_and_source and words_and_source[0] in "\n".join(said(cell)):
                        wrong.append((f"cell {at}", f"says {words_and_source[0]!r} before it is solved"))
            at = "end"
            await kernel.fence()
    except Stopped as error:
        stopped.append((at, str(error)))
    judged = [(at, verdict(notebook.cells[at], status)) for at, status in statuses.items()]
    lost = set(solved) - {cell.get("id") for cell in notebook.cells}
    wrong += [(f"cell {name}", "has a solution and is not there") for name in sorted(lost)]
    return [(at, why) for at, why in judged if why] + wrong + stopped, seconds


async def self_test(builds):
    """What the runner gets wrong about the planted cells."""
    from nbformat import v4

    cells = [v4.new_code_cell(source, metadata={"tags": tags}) for source, tags, _ in PLANTED]
    failures, _ = await execute(v4.new_notebook(cells=cells), OUT, builds / SELF_TEST)
    found = dict(failures)
    wrong = [f"{at}: {found[at]}" for at in ("start", "end") if at in found]
    for index, (source, tags, expected) in enumerate(PLANTED):
        why = found.get(index, "")
        if (expected not in why) if expected else why:
            wrong.append(f"{source!r} {tags}: expected {expected or 'a pass'!r}, found {why or 'a pass'!r}")
    return wrong


def outdated(before, now, cells):
    """Which cells say something else than in the published copy, as (cell, why); but of the machine they may."""
    if not any(before):
        return []
    of_all = [cell for cell in enumerate(zip(before, now)) if "here" not in cells[cell[0]].metadata.get("tags", [])]
    pairs = [(at, old, new) for at, (old, new) in of_all if old != new]
    return [(at, f"says {' '.join(new)[:120]!r}, its published copy {' '.join(old)[:120]!r}") for at, old, new in pairs]


async def run(path, build_folder, publish):
    """Executes one notebook, writes its copy and page, prints its verdict; gives whether it passed, and the seconds."""
    import nbformat
    from nbconvert import HTMLExporter

    try:
        notebook = nbformat.read(path, as_version=4)
    except (nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        print(f"{path.name}: FAILED, no notebook: {str(error)[:120]}", flush=True)
        return path, False, []
    words = lambda: [said(cell) if cell.cell_type == "code" else [] for cell in notebook.cells]
    before, solved = words(), solutions(path)
    failures, seconds = await execute(notebook, path.parent, build_folder, solved)
    if publish and not failures:
        copy = nbformat.read(path, as_version=4)
        for kept, cell in zip(copy.cells, notebook.cells):
            if cell.cell_type == "code":
                kept.outputs, kept.execution_count = published(cell), None
        nbformat.write(copy, path)
    elif not publish:
        failures += outdated(before, words(), notebook.cells)
    notebook.metadata["language_info"] = {"name": "rust", "file_extension": ".rs", "pygments_lexer": "rust"}
    nbformat.write(notebook, OUT / path.name)
    page, _ = HTMLExporter(template_name="lab").from_notebook_node(notebook)
    OUT.joinpath(path.stem + ".html").write_text(page)
    slow = sorted(seconds, key=lambda item: -item[1])[:4]
    total = sum(each for _, each in seconds)
    told = ", ".join(f"{at if isinstance(at, str) else f'cell {at}'} {each:.1f} s" for at, each in slow)
    exercises = f", {len(solved)} exercises solved" if solved else ""
    print(f"{path.name}: {'FAILED' if failures else 'passed'} in {total:.1f} s ({told}){exercises}", flush=True)
    for at, why in failures:
        print(f"    {at if isinstance(at, str) else f'cell {at}'}: {why}", flush=True)
    return path, not failures, seconds


def measured(results, build_folders_were_warm):
    """The seconds of starts, first and later cells, with the machine, as a file of tests/measured holds them."""
    def of(seconds):
        start, first, *later = [each for _, each in seconds]
        return {"start_s": round(start, 2), "first_cell_s": round(first, 2), "later_cells_s": [round(each, 2) for each in later]}

    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    notebooks = {path.stem: of(seconds) for path, _, seconds in sorted(results) if len(seconds) > 2}
    return {
        "what": "seconds until a notebook's kernel was ready, of its first cell and of each later one, one notebook at a time",
        "machine": f"{model}, {os.cpu_count()} cores",
        "load_average": round(os.getloadavg()[0], 2),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": "tests/notebooks/run.py --all --measure tests/measured/notebooks.json",
        "build_folders_were_warm": build_folders_were_warm,
        "bounds": {"first_cell_s": 15, "later_cells_s": 3},
        "notebooks": notebooks,
    }


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=pathlib.Path, help="default: all of notebooks/")
    parser.add_argument("--kernel", type=pathlib.Path, required=True, help="the program evcxr_jupyter")
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="where the kernels' build folders lie")
    parser.add_argument("--no-self-test", action="store_true", help="leave out the planted failures")
    parser.add_argument("--all", action="store_true", help="also notebooks of which nothing changed since they passed")
    parser.add_argument("--measure", type=pathlib.Path, metavar="FILE", help="one at a time; writes their seconds")
    parser.add_argument("--publish", action="store_true", help="write the outputs into the notebooks")
    args = parser.parse_args()
    paths = [path.resolve() for path in args.notebooks] or sorted((ROOT / "notebooks").glob("*.ipynb"))
    for path in [args.kernel, *paths]:
        if not path.is_file():
            parser.error(f"no file {path}")

    # an ended run must leave no kernel behind
    task = asyncio.current_task()
    for number in [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)

    now = {path: inputs(path, args.kernel.resolve()) for path in paths}
    everything = args.all or args.publish or args.measure
    unchanged = [] if everything else [path for path in paths if is_unchanged(path, now[path])]
    clear({path.stem for path in unchanged})
    RUNNING.mkdir(parents=True)
    for path in unchanged:
        print(f"{path.name}: not run: nothing changed since it passed (--all runs it)", flush=True)
    paths = [path for path in paths if path not in unchanged]
    if not paths:
        return 0
    private_jupyter(args.kernel.resolve())
    builds = build_folders(args.cache.resolve(), args.kernel.resolve())
    if not args.no_self_test:
        if wrong := await self_test(builds):
            print("the runner does not see planted failures:", *wrong, sep="\n    ")
            return 1
        print(f"self-test: the runner judges {len(PLANTED)} planted cells rightly", flush=True)
    if args.measure:
        was_warm = has_library(builds / "1")
        results = [await run(path, builds / "1", args.publish) for path in paths]
        args.measure.write_text(json.dumps(measured(results, was_warm), indent=1) + "\n")
    else:
        results = await run_all(paths, builds, args.publish)
    for path, did_pass, _ in results:
        if did_pass and not args.publish:
            PASSED.joinpath(path.stem).write_text(now[path])
    n_passed = sum(did_pass for _, did_pass, _ in results)
    told = f", {len(unchanged)} not run" if unchanged else ""
    print(f"{n_passed} notebooks passed, {len(results) - n_passed} failed{told}")
    return 0 if n_passed == len(results) else 1


def locked_main():
    """`main`, alone on the build folders: two kernels in one folder corrupt each other."""
    cache = pathlib.Path(sys.argv[sys.argv.index("--cache") + 1]) if "--cache" in sys.argv[:-1] else None
    if cache:
        cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "notebooks.lock", "w") if cache else contextlib.nullcontext() as lock:
        if lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return asyncio.run(main())
        except asyncio.CancelledError:
            return 130


if __name__ == "__main__":
    sys.exit(locked_main())
