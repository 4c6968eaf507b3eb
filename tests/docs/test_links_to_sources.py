"""Pages that lead readers through the sources link to files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(((?:\.\./)+(?:src|native)/[^)#]+)\)")
WALK = ROOT / "docs/guide/how-a-kernel-is-computed.md"


def test_every_link_to_a_source_leads_to_a_file():
    links = [(page, link) for page in (ROOT / "docs").rglob("*.md") for link in LINK.findall(page.read_text())]
    assert len(links) > 20
    assert [link for page, link in links if not (page.parent / link).is_file()] == []


def test_every_stop_of_the_walk_links_to_its_file_and_every_timed_one_has_a_time():
    rows = [line.strip("| ").split(" | ") for line in WALK.read_text().splitlines() if line.startswith("| ")]
    stops = [row for row in rows if len(row) == 3 and row[0] != "stop" and "ms" not in row[1]]
    assert len(stops) >= 18
    assert [row[0] for row in stops if not LINK.search(row[1])] == []
    times = {row[0]: row[1:] for row in rows if len(row) == 3 and "ms" in row[1]}
    assert {"fit", "kernels", "choice", "engine", "C++", "spectrum", "all"} <= times.keys()
    assert all(re.fullmatch(r"[\d.,]+ ms", time) for of in times.values() for time in of)
