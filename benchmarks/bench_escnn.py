"""A group-convolutional network of escnn beside ours: accuracy and invariance on the same images, with intervals.

Both are contenders of the study `comparison`: the same training images in the same order of repetitions, as many
parameters, epochs and images a step, the same inputs turned to all orientations, paired differences. `--full` is its
preset `desk` on Fashion-MNIST, from the folder that EQUITANGENTS_DATA names; without it `quick`, on digits. escnn runs
in an environment of its own: EQUITANGENTS_ESCNN_PYTHON names its interpreter, or build/escnn is made at the versions of
`constraints-escnn.txt`.
"""

from __future__ import annotations

import csv
import os
import subprocess
from pathlib import Path

from benchmarks.escnn_contender import VARIABLE
from benchmarks.peers import OUT, environment
from equitangents import studies
from equitangents.report import with_interval
from equitangents_studies.contenders.registry import KINDS

CONTENDER = "benchmarks.escnn_contender:Escnn"
SETTINGS = {"contenders": f"gcnn,{CONTENDER}", "shrink": ""}
NAMES = {"gcnn": KINDS["gcnn"].title, CONTENDER: "escnn"}
MEASURES = {
    "upright": "accuracy, upright",
    "rotated": "accuracy, all orientations",
    "inside": "OSP, test images",
    "outside": "OSP, foreign images",
}
_CONSTRAINTS = Path(__file__).with_name("constraints-escnn.txt")


def escnn_python() -> str | None:
    """The interpreter with escnn, or None and a line that says why there is none."""
    python = os.environ.get(VARIABLE) or environment(
        "escnn", _CONSTRAINTS, ("torch", "numpy", "scipy", "joblib", "autograd", "pymanopt", "requests"),
        alone=("lie_learn", "escnn"),  # they ask for py3nj, which needs a Fortran compiler and is not needed here
    )  # fmt: skip
    if python is None:
        return None
    done = subprocess.run([python, "-c", "import escnn"], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"no escnn in {python}: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
        return None
    return python


def table(folder: Path) -> str:
    """Both networks by measure, and their paired difference, from a run's tables."""
    numbers: dict[tuple[str, str], dict[str, str]] = {}
    for row in _rows(folder / "results" / "contenders.csv"):
        if row["contender"] in NAMES:
            numbers[row["contender"], row["measure"]] = row
    differences = {row["measure"]: row for row in _rows(folder / "results" / "pairs.csv")}
    parameters = {row["contender"]: float(row["parameters"]) for row in _rows(folder / "results" / "costs.csv")}
    lines = ["| | " + " | ".join([*NAMES.values(), "within ours", "difference"]) + " |", "|---|---:|---:|---|---:|"]
    lines.append("| parameters | " + " | ".join(f"{parameters[name]:,.0f}" for name in NAMES) + " | | |")
    for measure, words in MEASURES.items():
        ours, theirs = (numbers[name, measure] for name in NAMES)
        within = float(ours["low"] or "nan") <= float(theirs["value"]) <= float(ours["high"] or "nan")
        pair = differences.get(measure)
        cells = [_cell(ours, "value"), _cell(theirs, "value"), "yes" if within else "no"]
        cells.append("" if pair is None else _cell(pair, "difference"))
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _cell(row: dict[str, str], value: str) -> str:
    low, high = (float(row[end] or "nan") for end in ("low", "high"))
    return with_interval(float(row[value]), (low, high))


def main(full: bool = False, **changes: str) -> None:
    """Print the table; the run's folder stays in build/benchmarks. `changes` are settings of the study."""
    python = escnn_python()
    if python is None:
        return
    os.environ[VARIABLE] = python
    preset = "desk" if full else "quick"
    folder = OUT / f"escnn-{preset}"
    begun = (folder / "config.json").exists() and not (folder / "report.html").exists()
    studies.run("comparison", preset, out=folder, resume=begun, settings={**SETTINGS, **changes}, progress=True)
    text = table(folder)
    (OUT / "escnn.md").write_text(text + "\n", encoding="utf-8")
    print(f"{text}\nin brackets 95 % intervals; within ours: whether escnn’s number lies in our interval")
    print("OSP: orbit same predictions, the orientations with the class of the image as it is")


if __name__ == "__main__":
    main()
