"""The command line `armswing`. Each command imports its dependencies only when it runs, which makes the start fast."""

from __future__ import annotations

import os
import sys

PRINTS = frozenset(("-h", "--help", "--args", "--copy", "--keys", "--list"))  # options with which nothing is launched


def main() -> None:
    """Entry point of the console script; ends the process with the command's exit code."""
    # Inherited by the nodes. Idle threads of numpy's BLAS spin on cores that a run needs, and results of large matrices
    # would depend on the number of cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["launch"] and len(arguments) > 1 and PRINTS.isdisjoint(arguments):
            from nodes.framework.launching.fork_server import start_fork_server  # other commands need no fork server

            start_fork_server()  # first, as the processes of nodes are copies of this process
        from nodes.cli.application import run  # after the fork server, which needs none of it
    except KeyboardInterrupt:  # while modules are imported, before `run` can answer it
        raise SystemExit(130) from None
    sys.exit(run(arguments))
