"""Import of an edited file in a process of its own, before the process of its node imports the file.

The import may never end, or may end the process. The content of the file is read from standard input.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from robots.files import python_module

IMPORT_S = 20.0  # longest time of an import
AGAIN_S = 2.0  # time of an import that continues although the file was saved again
POLL_S = 0.05  # time between two polls whether the file was saved again
ENDED = 86  # exit code of a process whose import has ended, with or without an exception


class Superseded(Exception):  # noqa: N818  it is what happened
    """Raised if a file was saved again during its import. The only argument is a one-line message."""


def importable(file: Path, superseded: Callable[[], bool]) -> bytes:
    """Content of an edited file whose import ends, within IMPORT_S and without ending its process.

    An exception of the import does not count, because the node's own process reports it. For any other file, raises
    ValueError, RuntimeError or TimeoutError with one line; raises Superseded if the file was saved again.
    """
    if not file.is_file():
        raise ValueError(f"{file} is no regular file; save a Python file in its place")
    content = file.read_bytes()
    with tempfile.TemporaryFile() as given:
        given.write(content)
        given.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(file)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        for poll in range(round(IMPORT_S / POLL_S)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                if (code := process.wait(POLL_S)) == ENDED:
                    return content
                raise RuntimeError(f"the import of {file.name} ends its process, with exit code {code}")
            if poll * POLL_S > AGAIN_S and superseded():
                raise Superseded(f"{file.name} was saved again; only the last edit is loaded")
        raise TimeoutError(f"the import of {file.name} did not end within {IMPORT_S:g} s")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that the import started
            process.wait()


def main(file: Path) -> None:
    """Import a file with the content at standard input, and end this process with the exit code ENDED."""
    signal.alarm(round(IMPORT_S) + 1)  # ends the process if its parent has ended
    os.nice(10)  # after those of the launch
    content = sys.stdin.buffer.read()
    with contextlib.suppress(BaseException):
        python_module(file, content)
    os._exit(ENDED)  # threads of the import do not count


if __name__ == "__main__":
    main(Path(sys.argv[1]))
