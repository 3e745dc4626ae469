"""`python -P -m nodes.cli`: the command line for installations without the console script."""

from nodes.cli import main

main()
