"""`python -m kohort` is `kohort`."""

from kohort.cli.entry import main

main()
