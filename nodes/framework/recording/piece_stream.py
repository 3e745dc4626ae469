"""Writes the pieces of a recording, pickled, to standard output.

The command is `python -m nodes.framework.recording.piece_stream FILE BYTES`.

A program runs this module as a process and reads the pieces from the pipe. The file is first scanned for holes (missing
messages), which is much faster than making the pieces, so that the first piece already has the holes of the whole file.
If the file cannot be read, the last item of the stream is one line of text with the reason.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys

from nodes.framework.recording.growing import pieces
from nodes.framework.recording.reader import RecordingError, RecordingFile


def main(path: str, length: int) -> None:
    """Write the pieces of a recording, of about `length` bytes each."""
    gc.disable()  # arrays and short-lived rows have no reference cycles
    out = sys.stdout.buffer
    try:
        for piece in pieces(path, length, RecordingFile(path).scan()):
            pickle.dump(piece, out, protocol=5)
            out.flush()
    except RecordingError as error:
        pickle.dump(str(error), out)
        out.flush()


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except BrokenPipeError:  # the reader of the pieces has ended
        os._exit(0)
