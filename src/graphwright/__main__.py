"""``python -m graphwright`` is the command line."""

from graphwright.cli import main

main()
