"""Pages written by hand with the numbers of the published runs: docs/results, the README, the paper."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from equitangents_studies import registry
from tools.results.markers import Find, filled, finder, plain, table
from tools.results.record import Record

_WORKS = ("2403.03103", "2406.06504", "2207.04612")  # those that the package is about; others stand behind them
_COMMENT = re.compile(r"<!--.*?-->")
_ARXIV = re.compile(r"arXiv (\d{4}\.\d{5})")
_OUTCOMES = ("holds", "fails", "undecided")


def records(results: Path) -> list[Record]:
    """Those published, in the order of the registry, variants behind their study."""
    found = [Record.from_json(path.read_text(encoding="utf-8")) for path in results.glob("*/run.json")]
    order = list(registry)
    return sorted(found, key=lambda record: (order.index(record.study), record.variant))


def made(root: Path) -> dict[Path, str]:
    """Every page of the repository at `root` that shows published numbers, and its text with them."""
    results = root / "docs" / "results"
    published = records(results)
    find: dict[str, Find] = {record.name: finder(record) for record in published}
    titles = {record.name: _title(results / record.page) for record in published}
    find["index"] = _index(published, titles).__getitem__
    pages = [*sorted(results.glob("*.md")), root / "README.md", root / "paper" / "paper.md"]
    return {path: filled(path.read_text(encoding="utf-8"), find, path.stem) for path in pages}


def stale(root: Path) -> list[Path]:
    """Pages that differ from what `made` has."""
    return [path for path, text in made(root).items() if path.read_text(encoding="utf-8") != text]


def refresh(root: Path) -> list[Path]:
    """Write what is stale; which pages those were."""
    changed: list[Path] = []
    while differing := [(path, text) for path, text in made(root).items() if path.read_text(encoding="utf-8") != text]:
        for path, text in differing:  # titles are numbers of the index: what changes them changes it, too
            path.write_text(text, encoding="utf-8")
        changed += [path for path, _ in differing if path not in changed]
    return changed


def _title(page: Path) -> str:
    """The finding: the first line of a page, without marks."""
    return _COMMENT.sub("", page.read_text(encoding="utf-8").splitlines()[0]).removeprefix("# ")


def _index(published: Sequence[Record], titles: Mapping[str, str]) -> dict[str, str]:
    """Tables of docs/results/index.md: `runs`, claims `counted` by work, and those `unmet`."""
    link = lambda r: f"[{r.name}]({r.page})"
    works: dict[str, list[Record]] = {work: [] for work in (*_WORKS, "")}
    for record in published:
        works[_work(record)].append(record)
    rows = [[f"arXiv {w}" if w else "other works", *_counted(works[w])] for w in works if works[w]]
    unmet = [
        [link(r), plain(c.statement), c.outcome, plain(c.number_cell), c.interval_cell, plain(c.stated or "–")]
        for r in published for c in r.source_claims if c.outcome != "holds"
    ]  # fmt: skip
    return {
        "counted": table(["work", *_OUTCOMES], [*rows, ["all", *_counted(published)]], "---:"),
        "runs": table(
            ["run", "finding", *_OUTCOMES],
            [[link(r), "" if r.table_of else titles[r.name], *_counted([r])] for r in published],
        ),
        "unmet": table(["run", "claim", "outcome", "number", "interval", "the source’s"], unmet),
    }


def _work(record: Record) -> str:
    """The work that most of a run's claims are from, if it is one of the three."""
    named = [found[1] for c in record.source_claims if (found := _ARXIV.search(c.source))]
    most = max(named, key=named.count, default="")
    return most if most in _WORKS else ""


def _counted(runs: Sequence[Record]) -> list[str]:
    """How many claims of the works hold, fail and are undecided; the same number of a study counts once."""
    once = {(r.study, c.statement, c.number, c.outcome) for r in runs for c in r.source_claims}
    found: Counter[str] = Counter(outcome for *_, outcome in once)
    return [str(found[outcome]) for outcome in _OUTCOMES]
