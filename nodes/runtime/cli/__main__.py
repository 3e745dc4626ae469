"""`python -P -m nodes.runtime.cli`: the command line where no console script is installed."""

from nodes.runtime.cli import main

main()
