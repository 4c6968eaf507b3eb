"""CONTRIBUTING.md lists every package with planted faults, as many as there are."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tools.mutate.faults import load

ROOT = Path(__file__).resolve().parents[2]


def test_contributing_counts_the_faults_that_are_listed_and_those_with_a_reason():
    faults = load(ROOT / "tools/mutate/faults", ROOT)
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    listed = Counter(fault.package for fault in faults)
    explained = Counter(fault.package for fault in faults if fault.reason is not None)
    said = {name: (int(count), int(reasons)) for name, count, reasons in rows}
    assert said.pop("all") == (len(faults), explained.total())
    assert said == {name: (listed[name], explained[name]) for name in listed}
