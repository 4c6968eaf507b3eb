"""The page "What we found about these papers": by work, what every run found, and which claims do not hold."""

from __future__ import annotations

import re
from collections.abc import Sequence

from equitangents_studies import registry
from equitangents_studies.framework import works
from equitangents_studies.verdict import FAILS, HOLDS, Verdict
from tools.results.page import Further, decided, first_sentence, further, heading, plain, variant
from tools.results.record import Record

NAME = "findings.md"
_AGREES = {HOLDS: "agrees", FAILS: "differs"}
_WORKS = ("2403.03103", "2406.06504", "2207.04612")  # those that the package is about; others stand behind them
_ARXIV = re.compile(r"arXiv (\d{4}\.\d{5})")


def findings(published: Sequence[Record]) -> str:
    """`docs/results/findings.md`."""
    shown = [record for record in published if source_claims(record)]
    parts = [
        "# What we found about these papers",
        "Every line links to its run, which has our numbers beside the work’s. Below a finding stand the claims that "
        "differ or are open, each once, with what further runs found (their numbers are links); all others hold. "
        + counted(shown),
    ]
    for work in (*_WORKS, ""):
        of = [record for record in shown if _work(record) == work]
        if of:
            how = counted(of)
            lines = [line for record in of for line in _of_run(record, published)]
            parts += [f"## {_title(work)}", how, "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def source_claims(record: Record) -> list[Verdict]:
    """A run's claims that a work makes."""
    return [v for v in record.verdicts if v.origin == "source"]


def _work(record: Record) -> str:
    """The work that most of a run's claims are from, if it is one of the three."""
    named = [found[1] for v in source_claims(record) if (found := _ARXIV.search(v.source))]
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


def counted(records: Sequence[Record]) -> str:
    """How many of the works' claims hold, or agree with ours, and how many do not; nothing where there are none.

    What a further run of a study measured again to the same number, or decided by more repetitions, counts once.
    """
    once = {
        (record.study, v.claim, v.number, v.verdict): v
        for record in records for v in source_claims(record) if not decided(v, record, records)
    }  # fmt: skip
    verdicts = list(once.values())
    if not verdicts:
        return ""
    met = sum(v.verdict == HOLDS for v in verdicts)
    failing = sum(v.verdict == FAILS for v in verdicts)
    still = len(verdicts) - met - failing
    others = [f"{n} {what}" for n, what in ((failing, "fail or differ"), (still, "undecided")) if n]
    return f"Of {len(verdicts)} claims: {', '.join([f'{met} hold', *others])}."


def _of_run(record: Record, published: Sequence[Record]) -> list[str]:
    """A run's finding, then the claims that do not hold; of a run without a finding its sentence and all claims.

    A number of the source's that an earlier run of the study missed, too, stands with that one alone. So does a further
    run that came out beside such a number and has nothing else that does not hold; and one that varies a further run
    is named by what sets it apart.
    """
    before = [other for other in published[: published.index(record)] if other.study == record.study]
    told = {(v.place, v.stated) for other in before for v in _unmet(other) if v.stated}
    unmet = [v for v in _unmet(record) if (v.place, v.stated) not in told]
    claims = unmet if record.finding else source_claims(record)
    beside = (found.run for other in before for v in _unmet(other) for found in further(v, other, published))
    if record.variant and not claims and record in beside:
        return []
    varied = any(other.variant and record.variant.startswith(f"{other.variant}-") for other in before)
    named = variant(record) if varied else heading(record)
    sentence = "" if record.finding else f": {plain(record.sentence)}"
    return [f"- [{named}]({record.name}.md){sentence}", *(_line(v, record, published) for v in claims)]


def _unmet(record: Record) -> list[Verdict]:
    return [v for v in source_claims(record) if v.verdict != HOLDS]


def _line(v: Verdict, record: Record, published: Sequence[Record]) -> str:
    """A claim that does not hold, our number and the work's, why, and what it depends on or what would decide it."""
    said = "; ".join(part for part in (v.number, f"source: {v.stated}" if v.stated else "") if part)
    others = further(v, record, published)
    why = "" if any(found.cause for found in others) else plain(first_sentence(v.why))
    needed = plain(v.needed(record.seconds))
    more = [why, needed and f"{needed[0].upper()}{needed[1:]}.", *_elsewhere(others)]
    mark, word = v.mark.split()[:2]
    return " ".join([f"    - {mark} {word}: {plain(f'{v.claim} ({said}).')}", *(part for part in more if part)])


def _elsewhere(others: Sequence[Further]) -> list[str]:
    """How a number came out in further runs, each a link; only where none decides or explains it, in all of them."""
    linked: dict[str, list[str]] = {}
    for found in others:
        if found.decides:
            said = "More repetitions decide it"
        elif found.cause:
            other = "met" if found.verdict.verdict == HOLDS else "missed on the other side"
            said = f"It depends on {found.cause}; {other} with another"
        elif not any(one.decides or one.cause for one in others):
            said = f"With other settings it {_AGREES.get(found.verdict.verdict, 'is undecided')}"
        else:
            continue
        linked.setdefault(said, []).append(f"[{plain(found.verdict.number)}]({found.run.name}.md)")
    return [f"{said}: {', '.join(links)}." for said, links in linked.items()]
