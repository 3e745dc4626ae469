"""The command line `armswing`. It starts fast because each command imports its dependencies only when it runs."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script; ends the process with the command's exit code."""
    import sys

    from nodes.cli.application import run

    raise SystemExit(run(sys.argv[1:]))
