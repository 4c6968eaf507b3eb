"""The page "What we found about these papers": by work, the finding of every run, and the claims that do not hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from equitangents_studies import registry
from equitangents_studies.claim import Claim
from equitangents_studies.framework import works
from tools.results.page import plain, table
from tools.results.record import Record

NAME = "findings.md"
_WORKS = ("2403.03103", "2406.06504", "2207.04612")  # those that the package is about; others stand behind them
_ARXIV = re.compile(r"arXiv (\d{4}\.\d{5})")


def findings(published: Sequence[Record]) -> str:
    """`docs/results/findings.md`."""
    shown = [record for record in published if source_claims(record)]
    parts = [
        "# What we found about these papers",
        "Every run links to its page, which has our numbers beside the work’s. The second table of each work has its "
        "claims that fail or are undecided; all others hold.",
        _counts(shown),
    ]
    for work in (*_WORKS, ""):
        of = [record for record in shown if _work(record) == work]
        if of:
            parts += [f"## {_title(work)}", _counts(of), _runs(of), _unmet(of)]
    return "\n\n".join(part for part in parts if part) + "\n"


def source_claims(record: Record) -> list[Claim]:
    """A run's claims that a work makes."""
    return [c for c in record.judged_claims if c.kind == "source"]


def link(record: Record) -> str:
    """A link to the page that shows the run."""
    return f"[{record.name}]({record.table_of or record.name}.md)"


def _work(record: Record) -> str:
    """The work that most of a run's claims are from, if it is one of the three."""
    named = [found[1] for c in source_claims(record) if (found := _ARXIV.search(c.source))]
    most = max(named, key=named.count, default="")
    return most if most in _WORKS else ""


def _title(work: str) -> str:
    """A work's title and authors."""
    if not work:
        return "Other works"
    known = next((one for one in vars(works).values() if isinstance(one, works.Work) and work in one), None)
    found = re.search(r"^\s*title\s*= \{(.*)\},$", known.bibtex, re.M) if known else None
    authors = next((info.source for info in registry.values() if work in info.source), f"arXiv {work}")
    return plain(f"{found[1]} ({authors})" if found else authors)


def _counts(records: Sequence[Record]) -> str:
    """How many of the works' claims hold, fail and are undecided; the same number of a study counts once."""
    once = {(r.study, c.statement, c.number, c.outcome) for r in records for c in source_claims(r)}
    found = Counter(outcome for *_, outcome in once)
    rows = [[str(found[outcome]) for outcome in ("holds", "fails", "undecided")]]
    return table(("hold", "fail", "undecided"), rows)


def _runs(records: Sequence[Record]) -> str:
    rows = [f"| {link(r)} | {plain(r.title)} |" for r in records if not r.table_of]
    return "\n".join(["| run | finding |", "| --- | --- |", *rows])


def _unmet(records: Sequence[Record]) -> str:
    rows = [
        "| {} |".format(" | ".join((link(r), *map(plain, (c.statement, c.outcome, *_numbers(c), c.stated or "–")))))
        for r in records
        for c in source_claims(r)
        if c.outcome != "holds"
    ]
    header = ["| run | claim | outcome | number | interval | the source’s |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join([*header, *rows]) if rows else ""


def _numbers(c: Claim) -> tuple[str, str]:
    return c.number_cell, c.interval_cell
