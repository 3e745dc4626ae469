"""The command line `armswing`. Each command imports its dependencies only when it runs, which makes the start fast."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script; ends the process with the command's exit code."""
    import sys

    from nodes.cli.application import run

    raise SystemExit(run(sys.argv[1:]))
