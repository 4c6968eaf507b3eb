"""Every study by one worker and by two: the same numbers, to the last bit, but for the times that it measures."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from equitangents import studies
from studies.miniatures import run

MEASURED = "seconds"  # in the names of entries of stages and columns of tables that hold a measured time


def arrays(folder):
    """The arrays of all stages, byte for byte."""
    found = {}
    for path in sorted(folder.glob("stages/*.npz")):
        with np.load(path) as stage:
            found |= {(path.stem, name): (stage[name].dtype, stage[name].tobytes()) for name in stage.files}
    return {key: content for key, content in found.items() if MEASURED not in key[1]}


def tables(folder):
    """All tables as text, without columns of times."""
    found = {}
    for path in sorted(folder.glob("results/*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        kept = [j for j, name in enumerate(header) if MEASURED not in name]
        found[path.name] = [[row[j] for j in kept] for row in [header, *rows]]
    return found


def verdicts(folder):
    """All verdicts, but for those on times."""
    claims = json.loads((folder / "claims.json").read_text())
    return [claim for claim in claims if MEASURED not in claim["measure"] + claim["unit"]]


@pytest.mark.slow
@pytest.mark.timeout(3600)  # each study twice, and workers that compile what this process has compiled
@pytest.mark.parametrize("name", studies.registry)
def test_two_workers_compute_what_one_does(name, tmp_path):
    one = run(name, tmp_path / "one").folder
    two = run(name, tmp_path / "two", executor=2).folder
    for part in (arrays, tables, verdicts):
        expected = part(one)
        assert expected
        assert part(two) == expected
