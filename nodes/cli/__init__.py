"""The command line, `armswing`. Light: each command imports what it needs when it runs."""

from __future__ import annotations


def main() -> None:
    """Entry point of the console script."""
    import sys

    from nodes.cli.application import run

    raise SystemExit(run(sys.argv[1:]))
