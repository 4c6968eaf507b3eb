"""The tests of neural-tangents run on `equitangents` under its name, from a checkout of its repository.

`PEER_CHECKOUT=FOLDER python -m benchmarks peer_tests`: files of stax, predict, empirical and Monte Carlo kernels and
batches, with one generated case a test (`NT_NUM_GENERATED_CASES`) and every `PEER_SAMPLE`-th of these by a hash of its
name, in two portions. It prints how many pass in each file, and the causes of the rest. Their helpers for tests
(`_src.utils`) are read from the checkout; they need `more_itertools`. Tests of private functions count as failed. A
test that takes more than `PEER_SECONDS` of processor time counts as unfinished.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.peers import OUT, ROOT

FILES = (
    "stax/branching", "stax/combinators", "stax/elementwise", "stax/linear", "stax/requirements", "stax/stax",
    "predict", "empirical", "batching", "monte_carlo",
)  # fmt: skip
_PORTIONS = FILES[:6], FILES[6:]


def main() -> None:
    """Run both portions; print the tables, and write them to build/benchmarks."""
    checkout = os.environ.get("PEER_CHECKOUT")
    if checkout is None:
        print("PEER_CHECKOUT names no checkout of neural-tangents' repository: nothing run")
        return
    names = os.environ.get("PEER_FILES")
    portions = [names.split(",")] if names else _PORTIONS
    rows = [row for files in portions for row in run(Path(checkout), files)]
    text = report(rows)
    print(text)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "peer_tests.md").write_text(text + "\n")


def run(checkout: Path, files: Any) -> list[dict[str, str]]:
    """One row a test: its file, name, outcome and cause."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "rows.jsonl"
        paths = [str(checkout / "tests" / f"{name}_test.py") for name in files]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.peer_alias", "-p", "no:cacheprovider"]
        command += ["--rootdir", str(checkout), "-c", os.devnull, "-W", "ignore", *paths]
        paths_of_modules = os.pathsep.join([str(ROOT), str(checkout), os.environ.get("PYTHONPATH", "")])
        given = {"NT_NUM_GENERATED_CASES": "1", "PEER_ROWS": str(found), "PEER_ROOT": str(checkout)}
        environment = {**given, **os.environ, "PYTHONPATH": paths_of_modules, "PEER_ROWS": str(found)}
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
        if not found.exists():
            raise RuntimeError(f"pytest ran nothing: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return _once([json.loads(line) for line in found.read_text().splitlines()])


def _once(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """One row a test, of which parts may have a row each: it fails where one of these does."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        key = row["file"], row["test"]
        if key not in found or (row["outcome"] == "failed" and found[key]["outcome"] != "failed"):
            found[key] = row
    return list(found.values())


def report(rows: list[dict[str, str]]) -> str:
    """Passed and failed by file, then the causes of what failed, the most frequent first."""
    counted = [row for row in rows if row["outcome"] in ("passed", "failed")]
    lines = ["| file | passed | failed | skipped | unfinished |", "|---|---:|---:|---:|---:|"]
    for name in dict.fromkeys(row["file"] for row in rows):
        seen = Counter(row["outcome"] for row in rows if row["file"] == name)
        counts = [seen[outcome] for outcome in ("passed", "failed", "skipped", "unfinished")]
        lines.append(f"| {name} | {' | '.join(map(str, counts))} |")
    passed = sum(row["outcome"] == "passed" for row in counted)
    lines.append(f"\n{passed} of {len(counted)} pass, {passed / max(len(counted), 1):.0%}")
    causes = Counter(_cause(row["cause"]) for row in counted if row["outcome"] == "failed")
    return "\n".join([*lines, "", *(f"- {count}: {cause}" for cause, count in causes.most_common())])


def _cause(text: str) -> str:
    """The message without numbers."""
    return re.sub(r"[-+]?\d[\d.e+-]*", "#", text)[:160]


if __name__ == "__main__":
    main()
