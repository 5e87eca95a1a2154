"""Tries `notebooks/start` as somebody would on a machine that lacks things, and on this one.

Asked for by `tests/run`, which has installed what it can install already; JupyterLab comes with the first call here.
"""

import itertools
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MINUTES = 30
CACHE = pathlib.Path(os.environ.get("SPANLIFT_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "spanlift")

LIBRARY = "target/*/debug/libkit.so"


def warm_folder():
    """What the notebooks of this folder were run in: it holds all that the course's own kernel would build first."""
    kit = str(ROOT / "notebooks/kit")
    folders = [folder for folder in CACHE.glob("notebook-builds/*/1") if any(folder.glob(LIBRARY))]
    ours = [folder for folder in folders if kit in (folder / "Cargo.toml").read_text()]
    return max(ours, key=lambda folder: folder.parent.stat().st_mtime, default=None)


def start(*args, path=None, cache=None):
    environment = os.environ | {"SPANLIFT_CACHE": str(cache)} if cache else dict(os.environ)
    if path is not None:
        environment["PATH"] = path
    done = subprocess.run(
        ["/bin/bash", str(ROOT / "notebooks/start"), *args],
        env=environment, capture_output=True, text=True, timeout=60 * MINUTES, cwd="/", stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


def rustc(folder, version, libraries):
    """A compiler that only says who it is."""
    for name in ["rustc", "cargo"]:
        program = pathlib.Path(folder) / name
        program.write_text(
            f'#!/bin/bash\ncase $1 in\n--version) echo "{name} {version} (0 2025-01-01)" ;;\n--print) echo "{libraries}" ;;\nesac\n'
        )
        program.chmod(0o755)


class Client:
    """A kernel that says what it is told to, and nothing more."""

    def __init__(self, *said):
        self.said = list(said)

    def execute(self, source, allow_stdin):
        return "asked"

    def is_alive(self):
        return True

    def get_iopub_msg(self, timeout):
        if not self.said:
            raise queue.Empty
        asked_by, kind, content = self.said.pop(0)
        return {"parent_header": {"msg_id": asked_by}, "msg_type": kind, "content": content}


class FirstCell(unittest.TestCase):
    def test_what_a_cell_writes_counts_though_it_comes_after_the_cell_is_done(self):
        sys.path.insert(0, str(ROOT / "notebooks"))
        import first_cell

        first_cell.LATE_SECONDS = 0.1
        wrote = ("asked", "stream", {"name": "stdout", "text": "4.00 MiB\n"})
        other = ("other", "stream", {"name": "stdout", "text": "1.00 MiB\n"})
        wrong = ("asked", "error", {"ename": "", "evalue": "no such function"})
        done = ("asked", "status", {"execution_state": "idle"})
        for said, written, told in [
            ([wrote, done], "4.00 MiB\n", ""),
            ([done, wrote], "4.00 MiB\n", ""),
            ([other, done, other, wrote], "4.00 MiB\n", ""),
            ([wrong, done, wrote], "", "no such function"),
            ([done, other], "", ""),
        ]:
            with self.subTest(said):
                self.assertEqual(first_cell.run(Client(*said), "", writes=True), (written, told))
        # What writes nothing is not waited for.
        client = Client(done, wrote)
        self.assertEqual((first_cell.run(client, ""), client.said), (("", ""), [wrote]))


class Start(unittest.TestCase):
    def test_each_thing_that_is_missing_has_a_line(self):
        status, out, err = start("--check", path="/nonexistent")
        self.assertEqual((status, out), (2, ""))
        lines = err.splitlines()
        self.assertTrue(all(line.startswith("notebooks/start: missing: ") for line in lines), err)
        for what in ["Rust ", "a C compiler", "flock", "sha256sum"]:
            self.assertEqual(sum(line.startswith(f"notebooks/start: missing: {what}") for line in lines), 1, err)

    def test_an_old_compiler_is_refused_and_a_newer_one_is_not(self):
        for version, libraries, refused in [
            ("1.9.0", ROOT, ["Rust 1.", "Rust's standard library"]),
            ("1.94.9-nightly", ROOT, ["Rust 1.", "Rust's standard library"]),
            ("2.0.0", ROOT, ["Rust's standard library"]),
        ]:
            with self.subTest(version), tempfile.TemporaryDirectory() as folder:
                rustc(folder, version, libraries)
                status, _, err = start("--check", path=f"{folder}:/usr/bin:/bin", cache=folder)
                self.assertEqual(status, 2)
                told = [line.removeprefix("notebooks/start: missing: ") for line in err.splitlines()]
                self.assertEqual(len(told), len(refused), err)
                self.assertTrue(all(line.startswith(what) for line, what in zip(told, refused)), err)

    def test_wrong_calls_are_refused(self):
        self.assertEqual(start("--nope")[0], 2)
        status, _, err = start("--check", "99_none.ipynb")
        self.assertEqual((status, err), (2, "notebooks/start: no notebook notebooks/99_none.ipynb\n"))

    def opens(self, *args, **more):
        status, out, err = start("--check", *args, **more)
        self.assertEqual((status, err), (0, ""), out)
        lines = out.splitlines()
        self.assertEqual(lines[-1], "-- ready: notebooks/start opens the course")
        self.assertRegex(lines[-2], r"^-- the first cell answers in \d+\.\d s$")
        return out

    def test_the_course_opens_here_and_a_new_build_folder_is_a_copy_that_builds_nothing(self):
        warm = warm_folder()
        if warm:
            os.environ["SPANLIFT_WARM"] = str(warm)
        self.opens()
        with tempfile.TemporaryDirectory(dir=ROOT / "target") as cache:
            for installed in itertools.chain(CACHE.glob("evcxr-*"), CACHE.glob("jupyterlab-*")):
                pathlib.Path(cache, installed.name).symlink_to(installed)
            self.assertNotIn("installing", self.opens(cache=cache))
            if warm:
                [copied] = pathlib.Path(cache).glob(f"course-builds/*/1/{LIBRARY}")
                [first] = warm.glob(LIBRARY)
                self.assertEqual(copied.stat().st_mtime_ns, first.stat().st_mtime_ns, "spanlift was built again")
                # One of an older tree is left for a copy of what has been built since.
                os.utime(copied, (0, 0))
                self.opens(cache=cache)
                self.assertEqual(copied.stat().st_mtime_ns, first.stat().st_mtime_ns, "spanlift was built again")


if __name__ == "__main__":
    unittest.main(verbosity=2)
