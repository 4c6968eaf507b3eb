"""Publishes finished runs, and fills the pages that show them with their numbers.

`python -m tools.results FOLDER ...` puts the numbers and figures of each run into docs/results, then fills the markers
of its pages, of the README and of the paper; without a folder it fills these alone. `--variant C8` gives a second run
of a study a page of its own. `--check` writes nothing and fails where a number is out of date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from equitangents.errors import InvalidArgumentError
from tools.results.overview import refresh, stale
from tools.results.publish import publish

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """The exit status: 0, or 1 where something was refused or is out of date."""
    parser = argparse.ArgumentParser(prog="python -m tools.results", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="of a finished run")
    parser.add_argument("--variant", default="", help="what sets this run apart from that on the study's own page")
    parser.add_argument("--check", action="store_true", help="only list what is out of date")
    chosen = parser.parse_args(arguments)
    try:
        for folder in [] if chosen.check else chosen.folders:
            publish(folder, root / "docs" / "results", chosen.variant)
        differing = stale(root) if chosen.check else refresh(root)
    except InvalidArgumentError as error:
        print(f"results: {error}", file=sys.stderr)
        return 1
    for path in differing:
        print(path.relative_to(root), "is out of date" if chosen.check else "written")
    return int(chosen.check and bool(differing))


if __name__ == "__main__":
    sys.exit(main())
