"""Runs the first cell of the course in the kernel that JupyterLab would start, so that it is built when a reader comes to it.

Exit status: 0 with the seconds that the cell took, 1 with what went wrong.
"""

import json
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import time

from jupyter_client.manager import start_new_kernel

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS = 600
CELL_SECONDS = 1800
LATE_SECONDS = 20
PROOF = 'println!("{}", mib(4));'


def first_cell():
    notebook = json.loads((HERE / "01_streams_and_events.ipynb").read_text())
    return next("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")


def run(client, source, writes=False):
    """What a cell wrote, and what it said went wrong; with `writes`, what it writes is waited for.

    The kernel passes on what a cell wrote from a thread of its own, so that it can come after the word that the cell is done.
    """
    written, wrong, is_done = [], [], False
    request = client.execute(source, allow_stdin=False)
    end = time.monotonic() + CELL_SECONDS
    while time.monotonic() < end and not (is_done and (written or wrong or not writes)):
        try:
            message = client.get_iopub_msg(timeout=1)
        except queue.Empty:
            if not client.is_alive():
                return "", "the kernel ended"
            continue
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            (written if content["name"] == "stdout" else wrong).append(content["text"])
        elif kind == "error":
            wrong.append(content["evalue"] or content["ename"])
        elif kind == "status" and content["execution_state"] == "idle":
            is_done, end = True, time.monotonic() + LATE_SECONDS
    if not is_done:
        return "", f"no answer within {CELL_SECONDS} s"
    return "".join(written), "".join(wrong)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an ended run leaves no kernel behind
    print("-- the first cell of the course: some minutes the first time, seconds later", flush=True)
    with tempfile.TemporaryFile("w+") as words:
        try:
            manager, client = start_new_kernel(
                kernel_name="rust", startup_timeout=START_SECONDS, cwd=str(HERE), stdout=subprocess.DEVNULL, stderr=words
            )
        except Exception as error:  # whatever keeps a kernel from starting is told, not traced
            words.seek(0)
            told = [line.strip() for line in [*words, str(error)] if line.strip()]
            print("notebooks/start: the Rust kernel does not start:", " ".join(told[:4]), file=sys.stderr)
            return 1
    try:
        began = time.monotonic()
        _, wrong = run(client, first_cell())
        seconds = time.monotonic() - began
        proof, late = run(client, PROOF, writes=True) if not wrong else ("", "")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    if wrong or late or proof.strip() != "4.00 MiB":
        lines = [line for line in (wrong or late or f"it said {proof!r}").splitlines() if line.strip()]
        print("notebooks/start: the first cell failed:", " ".join(lines[:4]), file=sys.stderr)
        return 1
    print(f"-- the first cell answers in {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
