"""Publishes finished runs, and brings what follows from all of them up to date.

`python -m tools.results FOLDER ...` puts the numbers and figures of each run into docs/results and writes its page, the
index, the gallery, the README's table and the menu; without a folder it writes these alone. `--variant C8` gives a
second run of a study a page of its own, `--taken-over TEXT` says what another run computed of it, `--killed-copy
FOLDER` that a copy was killed and resumed to the same tables. `--check` writes nothing and fails where something is
out of date.
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
    parser.add_argument("--taken-over", default="", help="what another run computed of it, and how that came into it")
    parser.add_argument("--killed-copy", type=Path, metavar="FOLDER", help="of a run like it, killed and resumed")
    parser.add_argument("--check", action="store_true", help="only say what is out of date")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.check:
            differing = stale(root)
        else:
            for folder in chosen.folders:
                place, copy = root / "docs" / "results", chosen.killed_copy
                record = publish(folder, place, chosen.variant, chosen.taken_over, copy)
                print(f"docs/results/{record.name}: {record.summary}")
            differing = refresh(root)
    except InvalidArgumentError as error:
        print(f"results: {error}", file=sys.stderr)
        return 1
    for path in differing:
        print(f"{path.relative_to(root)} {'is out of date' if chosen.check else 'written'}")
    return int(chosen.check and bool(differing))


if __name__ == "__main__":
    sys.exit(main())
