"""`python -m tempering`."""

from tempering.cli import main

main()
