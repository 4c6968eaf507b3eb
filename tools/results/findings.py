"""The page "What we found about these papers": by work, what every run found, and which claims do not hold."""

from __future__ import annotations

import re
from collections.abc import Sequence

from equitangents_studies import registry
from equitangents_studies.framework import works
from equitangents_studies.verdict import FAILS, HOLDS, Verdict
from tools.results.page import decided, depends, elsewhere, first_sentence, heading, plain
from tools.results.record import Record

NAME = "findings.md"
_WORKS = ("2403.03103", "2406.06504", "2207.04612")  # those that the package is about; others stand behind them
_NEWER = (
    ("2508.11522", "finite-width corrections of the tangent kernel of MLPs with any nonlinearity", "finite-width"),
    ("2502.06547", "augmentation and a penalty make the equivariant weights attract training", "finite-width"),
    ("2603.24638", "which irreps carry the broken symmetry of potentials without a built-in one", "molecules"),
    (
        "2303.14269",
        "what a symmetry saves kernel regression: a factor of the group’s order",
        "exchange-rate",
    ),
    ("2604.00316", "kernels that learn features generalise once a symmetry of their data is broken", "frozen-kernel"),
    (
        "2510.01349",
        "data without the symmetry of their labels can make invariant ridge regression worse",
        "medical-kernels",
    ),
)  # arXiv numbers, what they are about, and the run that is nearest
_ARXIV = re.compile(r"arXiv (\d{4}\.\d{5})")


def findings(published: Sequence[Record]) -> str:
    """`docs/results/findings.md`."""
    shown = [record for record in published if source_claims(record)]
    parts = [
        "# What we found about these papers",
        "Every line links to the run behind it, whose page has our numbers beside the work’s. Below a finding stand "
        "the claims of the work that differ or are open; all others hold, but for a number that an earlier run of the "
        "study missed, too, which stands with that run alone. What was measured again, or decided by more repetitions, "
        "counts once. " + counted(shown),
    ]
    for work in (*_WORKS, ""):
        of = [record for record in shown if _work(record) == work]
        if of:
            how = counted(of)
            lines: list[str] = []
            for record in of:
                lines += _of_run(record, published, "".join(lines))
            parts += [f"## {_title(work)}", how, "\n".join(lines)]
    names = {record.name for record in published}
    newer = [
        f"- [{number}](https://arxiv.org/abs/{number}): {about} ([{run}]({run}.md))."
        for number, about, run in _NEWER
        if run in names
    ]
    if newer:
        said = "Not reproduced; the run that asks the nearest question stands behind each."
        parts += ["## Newer work on the same questions", said, "\n".join(newer)]
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


def _of_run(record: Record, published: Sequence[Record], said: str) -> list[str]:
    """A run's finding, then the claims that do not hold; of a run without a finding its sentence and all claims.

    A number of the source's that an earlier run of the study missed, too, stands with that one alone. So does a further
    run of a study that was linked from there, in what was `said`, and has nothing else that does not hold.
    """
    before = [other for other in published[: published.index(record)] if other.study == record.study]
    told = {(v.place, v.stated) for other in before for v in source_claims(other) if v.verdict != HOLDS and v.stated}
    unmet = [v for v in source_claims(record) if v.verdict != HOLDS and (v.place, v.stated) not in told]
    claims = unmet if record.finding else source_claims(record)
    link = f"({record.name}.md)"
    if record.variant and link in said and not claims:
        return []
    sentence = "" if record.finding else f": {plain(record.sentence)}"
    return [f"- [{heading(record)}]{link}{sentence}", *(_line(v, record, published) for v in claims)]


def _line(v: Verdict, record: Record, published: Sequence[Record]) -> str:
    said = "; ".join(part for part in (v.number, f"source: {v.stated}" if v.stated else "") if part)
    why = "" if depends(v, record, published) else plain(first_sentence(v.why))
    more = [why, plain(v.remedy(record.seconds)), elsewhere(v, record, published, briefly=True)]
    return " ".join([f"    - {plain(v.mark)}: {plain(f'{v.claim} ({said}).')}", *(part for part in more if part)])
