"""`python -m equitangents` is the command line."""

from equitangents.cli.main import main

if __name__ == "__main__":
    main()
