"""`python -m energyscope` is the command line."""

from energyscope.cli import main

main()
