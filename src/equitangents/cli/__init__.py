"""The command line: `main.py` joins the commands, one thin file each."""
