"""`python -P -m nodes.cli`: the command line where no console script is installed."""

from nodes.cli import main

main()
