"""Pages written by hand with the numbers of the published runs: docs/results, the README, the paper."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from equitangents.report import figures, palette
from equitangents_studies import registry
from equitangents_studies.claim import EXACT, Claim
from equitangents_studies.framework.catalogue import PLACES
from tools.results import small
from tools.results.markers import Find, filled, finder, plain, table
from tools.results.record import Record

_WORKS = ("2403.03103", "2406.06504", "2207.04612")  # those that the package is about; others stand behind them
_SETTINGS = ("learning-curves-VEC-one-norm",)  # runs of another setting than the primary one, on a page of their own
_PRIMARY = ("comparison-C8", "comparison-C16")  # and primary ones on the page of another run
_COMMENT = re.compile(r"<!--.*?-->")
_ARXIV = re.compile(r"arXiv (\d{4}\.\d{5})")
_OUTCOMES = ("holds", "fails", "undecided")
_KINDS = {"number": "numbers that they state", "theorem": "theorems, without sampling", "statement": "other statements"}


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
    index = results / "index.md"
    find["index"] = {**_index(published, titles), "lead": _lead(published, _listed(index))}.__getitem__
    pages = [*sorted(results.glob("*.md")), root / "README.md", root / "paper" / "paper.md"]
    return {path: filled(path.read_text(encoding="utf-8"), find, path.stem) for path in pages}


def stale(root: Path) -> list[Path]:
    """Pages that differ from what `made` has."""
    return [path for path, text in made(root).items() if path.read_text(encoding="utf-8") != text]


def refresh(root: Path) -> list[Path]:
    """Write what is stale; which pages those were."""
    changed: list[Path] = []
    _draw(records(root / "docs" / "results"), root / "docs" / "results")
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
    once = _once(filter(_is_primary, published))
    works = {work: [outcome for (*_, named, _), outcome in once.items() if named == work] for work in (*_WORKS, "")}
    rows = [[f"arXiv {work}" if work else "other works", *_counted(found)] for work, found in works.items() if found]
    unmet = [
        [link(r), plain(c.statement), c.outcome, plain(c.number_cell), c.interval_cell, plain(c.stated or "–")]
        for r in published for c in r.source_claims if c.outcome != "holds"
    ]  # fmt: skip
    return {
        "counted": table(["work", *_OUTCOMES], [*rows, ["all", *_counted(once.values())]], "---:"),
        "runs": table(
            ["run", "finding", *_OUTCOMES],
            [
                [link(r), "" if r.table_of else titles[r.name], *_counted(c.outcome for c in r.source_claims)]
                for r in published
            ],
        ),
        "places": _places({r.name: r for r in published}),
        "unmet": table(["run", "claim", "outcome", "number", "interval", "the source’s"], unmet),
    }


def _places(runs: Mapping[str, Record]) -> str:
    """Figures, tables and theorems of the works, how to make each, and what came out."""
    rows = [
        [
            f"{work}, {plain(place.item)}", f"`{place.command}`", f"[{place.run}]({runs[place.run].page})",
            *_counted(c.outcome for c in runs[place.run].source_claims if _work(c) == work),
        ]
        for work, shown in PLACES.items() for place in shown if place.run in runs
    ]  # fmt: skip
    return table(["work, figure, table or theorem", "`equitangents reproduce …`", "page", *_OUTCOMES], rows)


def _draw(published: Sequence[Record], folder: Path) -> None:
    """Draw `ours-and-theirs.svg`: our number over the source's for every number that a source states."""
    compared = [
        (f"{r.name}: {c.statement.rpartition(': ')[2]}", c.number, c.interval, c.reference)
        for r in published if _is_primary(r) for c in r.source_claims if c.reference is not None
    ]  # fmt: skip
    if not compared:
        return
    with figures.canvas(5.2, 0.7 + 0.36 * len(compared)) as canvas:
        axes = canvas.subplots()
        for i, (label, number, (low, high), (stated, spread)) in enumerate(compared):
            axes.text(0, i - 0.35, label, transform=axes.get_yaxis_transform(), fontsize="small")  # left, above its row
            axes.barh(i, 2 * spread / stated, left=1 - spread / stated, height=0.5, color=palette.GRID.light)
            bars = [[(number - low) / stated], [(high - number) / stated]]
            axes.errorbar(number / stated, i, xerr=bars, fmt="o", color=palette.BLUE.light)
        axes.axvline(1, color=palette.MUTED.light, lw=1)
        axes.set_yticks([])
        axes.set_ylim(len(compared) - 0.5, -0.9)
        axes.set_xlabel("ours / the source’s")
        figures.save(canvas, folder, "ours-and-theirs")
    (folder / "ours-and-theirs.png").unlink()
    path = folder / "ours-and-theirs.svg"
    path.write_text(small.drawing(path.read_text(encoding="utf-8")), encoding="utf-8")


def _is_primary(record: Record) -> bool:
    """Whether its claims count: other settings of a table or figure are shown beside it, and count nothing."""
    return record.name in _PRIMARY or not (record.table_of or record.name in _SETTINGS)


def _listed(index: Path) -> Counter[str]:
    """What "Not reproduced" lists by hand, by the second column: a number, or a statement."""
    text = index.read_text(encoding="utf-8").partition("## Not reproduced")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    return Counter(row[2].strip() for row in rows)


def _lead(published: Sequence[Record], listed: Mapping[str, int]) -> str:
    """What came out of the three works: the numbers they state, their theorems, what they say without a number."""
    found: dict[str, Counter[str]] = {kind: Counter() for kind in _KINDS}
    for (*_, work, kind), outcome in _once(filter(_is_primary, published)).items():
        if work:
            found[kind][outcome] += 1
    rows = [[_KINDS[kind], *(str(found[kind][o]) for o in _OUTCOMES), str(listed.get(kind, 0))] for kind in found]
    return table(["of the three works", "agree or hold", "differ or fail", "undecided", "not reproduced"], rows, "---:")


def _once(runs: Iterable[Record]) -> dict[tuple[str, str, str, str, str], str]:
    """The outcome of each claim of the works, the worst of those of one statement, by what sets it apart.

    The last two are the work, if it is one of the three, and the kind.
    """
    once: dict[tuple[str, str, str, str, str], str] = {}
    for record in runs:
        for c in record.source_claims:
            kind = "number" if c.reference else "theorem" if c.theorem and c.covers == EXACT else "statement"
            key = (record.study, record.variant if record.table_of else "", c.statement, _work(c), kind)
            once[key] = max(once.get(key, "holds"), c.outcome, key=("holds", "undecided", "fails").index)
    return once


def _work(claim: Claim) -> str:
    """The one of the three works that makes a claim, or nothing."""
    return next((work for work in _ARXIV.findall(claim.source) if work in _WORKS), "")


def _counted(outcomes: Iterable[str]) -> list[str]:
    """How many hold, fail and are undecided."""
    found = Counter(outcomes)
    return [str(found[outcome]) for outcome in _OUTCOMES]
