"""The command line: `main.py` joins the commands, one thin file each."""

from equitangents.cli import options as options
