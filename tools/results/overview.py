"""What follows from all published runs together: their pages, the index, findings, gallery, README's table, menu."""

from __future__ import annotations

import re
from pathlib import Path

from equitangents.errors import InvalidArgumentError
from equitangents_studies import registry
from equitangents_studies.framework.catalogue import StudyInfo
from tools.results.findings import NAME as FINDINGS
from tools.results.findings import findings, link
from tools.results.page import counts, page, picture, plain, table, variant
from tools.results.record import Record

README_COLUMNS = (
    "parameters", "training, s", "accuracy, all orientations", "OSP, foreign images", "source, OSP",
)  # fmt: skip
_README = ("<!-- comparison: made by python -m tools.results -->", "<!-- comparison: end -->")
_GALLERY = ("<!-- studies: made by python -m tools.results -->", "<!-- studies: end -->")
_PAPER = ("<!-- figures: made by python -m tools.results -->", "<!-- figures: end -->")
_HEADLINES = {
    "rotated-images": "gerken2024emergent",
    "medical-kernels": "misof2024equivariant",
    "spurious-symmetries": "xiao2022synergy",
}  # the run that stands for a work, and its key in paper.bib
_MENU = ("      # results: made by python -m tools.results", "      # results: end")
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


def records(results: Path) -> list[Record]:
    """Those published, in the order of the registry, variants behind their study."""
    found = [Record.from_json(path.read_text(encoding="utf-8")) for path in results.glob("*/run.json")]
    order = list(registry)
    return sorted(found, key=lambda record: (order.index(record.study), _counted(record.variant)))


def _counted(text: str) -> list[tuple[int, str]]:
    """What sorts C8 before C16."""
    return [(int(number or 0), word) for number, word in re.findall(r"(\d*)(\D*)", text)]


def made(root: Path) -> dict[Path, str]:
    """Every file of the repository at `root` that follows from the published runs, and its text."""
    results = root / "docs" / "results"
    published = records(results)
    texts = {results / f"{r.name}.md": page(r, published) for r in published if not r.table_of}
    texts[results / "index.md"] = index(published)
    texts[results / FINDINGS] = findings(published)
    for path, marks, text in (
        (root / "docs" / "gallery.md", _GALLERY, gallery(published)),
        (root / "README.md", _README, comparison(published)),
        (root / "mkdocs.yml", _MENU, menu(published)),
        (root / "paper" / "paper.md", _PAPER, headlines(published)),
    ):
        texts[path] = _between(path, marks, text)
    return texts


def stale(root: Path) -> list[Path]:
    """Files that differ from what `made` has, and pages whose run is not there any more."""
    texts = made(root)
    differing = [path for path, text in texts.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    return differing + [path for path in (root / "docs" / "results").glob("*.md") if path not in texts]


def refresh(root: Path) -> list[Path]:
    """Write what is stale, and remove pages whose run is not there any more; which those were."""
    texts, changed = made(root), stale(root)
    for path in changed:
        if path in texts:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path], encoding="utf-8")
        else:
            path.unlink()
    return changed


def index(published: list[Record]) -> str:
    """`docs/results/index.md`."""
    lines = [
        "# Results",
        "Runs of the studies, each published with all of its numbers, its settings, the machine and the time it took. "
        "[Published runs](../guide/studies.md#published-runs) says how a page is made of a run; "
        f"[What we found about these papers]({FINDINGS}) has what was found about the works’ claims, in a few minutes.",
    ]
    if published:
        rows = [
            (
                link(r),
                plain(r.title),
                *(str(number) for number in counts(r).values()),
            )
            for r in published
        ]
        header, sides = (
            ("study", "what was found, or asked", "hold", "undecided", "fail"),
            ("---", "---", "---:", "---:", "---:"),
        )
        lines.append(
            "*Hold*, *undecided* and *fail* count the claims of the works that a study reproduces; questions of our "
            "own and checks of the code do not count. A claim holds or fails only where its whole interval meets or "
            "misses the criterion on its page; where the run was too small to tell, it is undecided."
        )
        lines.append("\n".join("| " + " | ".join(row) + " |" for row in (header, sides, *rows)))
    else:
        lines.append("No run has been published yet.")
    lines += _newer(published)
    return "\n\n".join(lines) + "\n"


def _newer(published: list[Record]) -> list[str]:
    """Paragraphs on newer work, of which the nearest run is published."""
    names = {record.name for record in published}
    lines = [
        f"- [{number}](https://arxiv.org/abs/{number}): {about} ([{run}]({run}.md))."
        for number, about, run in _NEWER
        if run in names
    ]
    said = "Not reproduced; the run that asks the nearest question stands behind each."
    return ["## Newer work on the same questions", said, "\n".join(lines)] if lines else []


def gallery(published: list[Record]) -> str:
    """The gallery's part on studies: of each a card with its main figure and finding; then those without a run."""
    cards, without = [], []
    for info in registry.values():
        runs = [r for r in published if r.study == info.name]
        if runs:
            cards.append(_card(info, runs))
        else:
            without.append(f"- `{info.name}`: {plain(info.title)}")
    parts = ['<div class="cards" markdown>', *cards, "</div>"] if cards else []
    if without:
        parts += ["### Not published yet", "No run of these studies has been published:", "\n".join(without)]
    return "\n\n".join(parts)


def _card(info: StudyInfo, runs: list[Record]) -> str:
    main = runs[0]
    parts = [
        "<div markdown>",
        *(f"[{picture(item, main, f'results/{main.name}')}](results/{main.name}.md)" for item in main.figures[:1]),
        f"### {plain(info.title)}",
        f"{plain(main.title)}. {plain(main.summary)}\n{{ .found }}",
        f"`equitangents reproduce {info.name}`",
        f"Every claim with its number: {', '.join(_link(run) for run in runs)}.",
        "</div>",
    ]
    return "\n\n".join(part for part in parts if part)


def _link(run: Record) -> str:
    return f"[{plain(variant(run)) or 'report'}](results/{run.table_of or run.name}.md)"


_EXPLAINED = (
    "OSP: in how many orientations the predicted class stays the same; foreign images are unlike the training data. "
    "Infinitely wide networks and the invariant kernel are trained on fewer images: the page has how many."
)


def comparison(published: list[Record]) -> str:
    """The README's table of the contenders; empty as long as no run of `comparison` is published.

    Raises InvalidArgumentError where the published run has no table with the columns that it shows.
    """
    run = next((r for r in published if r.name == "comparison"), None)
    if run is None:
        return ""
    found = next((t for t in run.tables if set(README_COLUMNS) <= set(t["header"])), None)
    if found is None:
        raise InvalidArgumentError(f"the run of comparison has no table with the columns {', '.join(README_COLUMNS)}")
    places = [0, *(found["header"].index(name) for name in README_COLUMNS)]
    facts = "; ".join(f"{key.lower()}: {value}" for key, value in run.facts.items() if key in ("Data", "Group"))
    return "\n\n".join(
        [
            f"What `{run.command}` found ({plain(facts)}), "
            "[with every number and setting](docs/results/comparison.md):",
            table(
                [found["header"][i] for i in places], [[row[i] for i in places] for row in found["rows"]], numbers=True
            ),
            f"*{plain(found['caption'])} {_EXPLAINED}*",
        ]
    )


def headlines(published: list[Record]) -> str:
    """The paper's part on results: of each work what its run found, and the run's first figure."""
    parts = []
    for run in published:
        if run.name in _HEADLINES:
            found = f"**{plain(run.title)}** [@{_HEADLINES[run.name]}]."
            parts.append(f"{found} {plain(run.summary)} `{run.command}` repeats it.")
            parts += [picture(item, run, f"../docs/results/{run.name}") for item in run.figures[:1]]
    return "\n\n".join(parts)


def menu(published: list[Record]) -> str:
    """The part of the documentation's menu."""
    first = ["          - All runs: results/index.md", f"          - What we found: results/{FINDINGS}"]
    runs = [f"              - {record.name}: results/{record.name}.md" for record in published if not record.table_of]
    return "\n".join(["      - Results:", *first, *(["          - Each run:", *runs] if runs else [])])


def _between(path: Path, marks: tuple[str, str], text: str) -> str:
    """The file with `text` between the two lines `marks`."""
    whole = path.read_text(encoding="utf-8")
    if any(whole.count(mark) != 1 for mark in marks):
        raise InvalidArgumentError(f"{path.name} must have the lines {marks[0]!r} and {marks[1]!r}, each once")
    before, rest = whole.split(marks[0])
    after = rest.split(marks[1])[1]
    gap = "\n" if path.suffix == ".yml" else "\n\n"
    return f"{before}{marks[0]}{gap}{text}{gap if text else ''}{marks[1]}{after}"
