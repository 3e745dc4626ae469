"""A process that ends without freeing its objects has done all that an interpreter does at its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
INTERPRETER, OURS = "import sys; end = sys.exit", "from nodes.launching.ending import end_process as end"
PROGRAM = """
import atexit, ctypes, gc, threading, time
from concurrent.futures import ThreadPoolExecutor

gc.set_threshold(1_000_000)  # what is in a cycle is freed at the end

class Loop:
    def __init__(self):
        self.itself = self
        self.file = open("in a cycle", "w")
        self.file.write("whole")

    def __del__(self):
        print("freed")

Loop()
kept = open("kept", "w")
kept.write("whole")
binary = open("binary", "wb")
binary.write(b"whole")
detached = open("detached", "w")
below = detached.detach()
pool = ThreadPoolExecutor()  # its thread waits for work
pool.submit(print, "in the pool").result()
threading.Thread(target=lambda: (time.sleep(0.2), print("in a thread"))).start()
threading.Thread(target=time.sleep, args=(1000.0,), daemon=True).start()
atexit.register(print, "exit function")
ctypes.CDLL(None).printf(b"compiled code")
print("no newline", end="")
end(3)
"""


def ended(program: str, folder: Path, **more: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=environment, text=True, timeout=60.0, **more)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("end", [INTERPRETER, OURS], ids=["interpreter", "ours"])
def test_threads_exit_functions_and_files_end_as_those_of_an_interpreter(end: str, tmp_path: Path) -> None:
    done = ended(end + PROGRAM, tmp_path, capture_output=True)
    assert done.returncode == 3, done.stderr
    assert done.stderr == ""
    printed = "in the pool\nno newlinein a thread\nexit function\nfreed\n"
    assert done.stdout.replace("compiled code", "") == printed
    assert "compiled code" in done.stdout
    for file in ("kept", "binary"):
        assert (tmp_path / file).read_text() == "whole"
    if end == OURS:  # an interpreter may free the buffer of a file before the file
        assert (tmp_path / "in a cycle").read_text() == "whole"


def test_an_interrupt_ends_the_wait_for_threads(tmp_path: Path) -> None:
    program = """
import threading, time
kept = open("kept", "w")
kept.write("whole")
def outlive():
    while threading.main_thread().is_alive():  # until it waits for this thread
        time.sleep(0.01)
    print("waiting", flush=True)
    time.sleep(1000.0)

threading.Thread(target=outlive).start()
end(3)
"""
    command = [sys.executable, "-c", OURS + program]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60.0)
    assert (process.returncode, error) == (3, "")
    assert (tmp_path / "kept").read_text() == "whole"


@pytest.mark.parametrize("end", [INTERPRETER, OURS], ids=["interpreter", "ours"])
def test_output_that_cannot_be_written_is_a_failure(end: str, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = ended(f"{end}\nprint('lost')\nend(0)", tmp_path, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 120
    assert "No space left on device" in done.stderr
