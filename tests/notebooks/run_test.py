"""The runner's own rules that need no kernel: what counts as unchanged, and which words are compared."""

import os
import pathlib
import tempfile
import types
import unittest

import run


class Unchanged(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.notebook = self.folder / "01_one.ipynb"
        self.notebook.write_text("{}")
        (self.folder / "solutions").mkdir()
        (self.folder / "sources").mkdir()
        self.source = self.folder / "sources" / "lib.rs"
        self.source.write_text("fn main() {}")
        self.before = {name: getattr(run, name) for name in ["ROOT", "OUT", "PASSED", "SOURCES", "rustc"]}
        self.addCleanup(lambda: [setattr(run, name, value) for name, value in self.before.items()])
        run.ROOT, run.OUT = self.folder, self.folder / "out"
        run.PASSED, run.SOURCES = run.OUT / "passed", ["sources"]
        run.rustc = lambda *_: self.compiler
        self.compiler = "rustc 1"

    def now(self):
        return run.inputs(self.notebook, pathlib.Path("/kernel"))

    def test_what_passed_is_unchanged_until_something_that_it_depends_on_changes(self):
        run.PASSED.mkdir(parents=True)
        self.assertFalse(run.is_unchanged(self.notebook, self.now()), "it never passed")
        run.PASSED.joinpath("01_one").write_text(self.now())
        self.assertFalse(run.is_unchanged(self.notebook, self.now()), "its page is not there")
        run.OUT.joinpath("01_one.ipynb").write_text("{}")
        run.OUT.joinpath("01_one.html").write_text("")
        self.assertTrue(run.is_unchanged(self.notebook, self.now()))

        def changed(what):
            self.assertFalse(run.is_unchanged(self.notebook, self.now()), what)

        for file in [self.notebook, self.source, self.folder / "sources/new.rs", self.folder / "solutions/01_one.rs"]:
            old = file.read_text() if file.exists() else None
            file.write_text("changed")
            changed(file)
            file.unlink() if old is None else file.write_text(old)
            self.assertTrue(run.is_unchanged(self.notebook, self.now()), file)
        self.source.rename(self.source.with_name("moved.rs"))
        changed("a file that is called otherwise")
        self.source.with_name("moved.rs").rename(self.source)
        self.compiler = "rustc 2"
        changed("another compiler")

    def test_what_is_run_again_leaves_nothing_of_before(self):
        run.PASSED.mkdir(parents=True)
        for name in ["01_one", "02_two"]:
            run.PASSED.joinpath(name).touch()
            run.OUT.joinpath(f"{name}.html").touch()
        run.OUT.joinpath("jupyter").mkdir()
        run.clear({"01_one"})
        self.assertEqual(sorted(os.listdir(run.OUT)), ["01_one.html", "passed"])
        self.assertEqual(os.listdir(run.PASSED), ["01_one"])

    def test_words_of_the_machine_are_not_compared(self):
        cells = [types.SimpleNamespace(metadata={}), types.SimpleNamespace(metadata={"tags": ["here"]})]
        self.assertEqual(run.outdated([["a"], ["cuda:0"]], [["a"], ["no device"]], cells), [])
        found = run.outdated([["a"], ["b"]], [["c"], ["b"]], cells)
        self.assertEqual([at for at, _ in found], [0])
        self.assertEqual(run.outdated([[], []], [["c"], ["b"]], cells), [], "nothing was published")


if __name__ == "__main__":
    unittest.main(verbosity=2)
