"""The page of a published run, in Markdown: the finding, the figure, the claims, then all the rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from equitangents.formatting import exact_duration, memory_size
from equitangents_studies import registry
from equitangents_studies.claim import Claim
from tools.results.record import Json, Record

_SPECIAL = re.compile(r"([\\`*$<|])")
_NAME = re.compile(r"(`[\w. =-]+`)")
_NOT_RECORDED = "not recorded"
_KINDS = {"source": "Claims of the source", "ours": "Questions of our own", "check": "Checks of the code"}
_UNSHOWN = {"contenders", "kernel_images"}  # settings that a row of the table of settings names by its claim
_HEADER = ("claim", "where", "outcome", "number", "interval", "over", "bound", "the source’s")


def page(record: Record, published: Sequence[Record] = ()) -> str:
    """The whole page; of `published` runs those without a page are rows of its table of settings."""
    kinds = {title: [c for c in record.judged_claims if c.kind == kind] for kind, title in _KINDS.items()}
    parts = [
        f"# {plain(record.title)}",
        plain(record.summary),
        *(figure(item, record) for item in record.figures[:1]),
        *(
            part for title, claims in kinds.items() if claims
            for part in (f"## {title}", _table(_HEADER, map(_row, claims)))
        ),
        *_titled("## Notes", "\n".join(f"- {plain(claim)}: {plain(note)}" for claim, note in record.notes.items())),
        *_titled("## Other settings", settings_table([r for r in published if r.table_of == record.name])),
        table(("", ""), [*record.facts.items(), ("Source", registry[record.study].source)]),
        *(_section(section, record) for section in record.sections),
        "## Details",
        *_folded(
            "The run",
            [
                table(("", ""), _run(record)),
                f"```\n{record.command}\n```",
                "It writes every number behind the figures to tables in the folder `results` of the run.",
                "Data sets in files are read from `--data-dir FOLDER`, or the folder that `EQUITANGENTS_DATA` names.",
                "### Settings",
                table(("setting", "value"), record.settings.items()),
                "### Versions",
                table(("", "version"), record.versions.items()),
            ],
        ),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _titled(title: str, text: str) -> list[str]:
    return [title, text] if text else []


def _folded(title: str, parts: Iterable[str]) -> list[str]:
    """Parts that a reader opens; nothing where all are empty."""
    inside = [part for part in parts if part]
    return [f'<details markdown="1">\n<summary>{title}</summary>', *inside, "</details>"] if inside else []


def variant(record: Record) -> str:
    """What sets a further run of a study apart."""
    return record.variant.replace("-", " ")


def counts(record: Record) -> dict[str, int]:
    """How many claims of the source hold, are undecided and fail."""
    found = Counter(c.outcome for c in record.judged_claims if c.kind == "source")
    return {outcome: found[outcome] for outcome in ("holds", "undecided", "fails")}


def plain(text: str) -> str:
    """Text as it is, with nothing that Markdown reads otherwise but names between backticks.

    >>> plain("2 * x < $3, `systems.cavity_risk`")
    '2 \\\\* x &lt; \\\\$3, `systems.cavity_risk`'
    """
    parts = _NAME.split(" ".join(text.split()))
    escaped = lambda part: _SPECIAL.sub(lambda m: "&lt;" if m[1] == "<" else f"\\{m[1]}", part)
    return "".join(part if i % 2 else escaped(part) for i, part in enumerate(parts))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = False) -> str:
    """A table; where its cells are `numbers`, all columns but the first are right-aligned."""
    return _table([plain(cell) for cell in header], ([plain(cell) for cell in row] for row in rows), numbers)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = False) -> str:
    """A table of cells that are Markdown already."""
    sides = ["---", *(["---:" if numbers else "---"] * (len(header) - 1))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, sides, *rows))


def figure(item: Json, record: Record) -> str:
    """A drawing with its caption."""
    drawn = picture(item, record, record.name)
    return f"{drawn}\n\n*{plain(item['caption'])}*" if drawn else ""


def picture(item: Json, record: Record, folder: str) -> str:
    """A drawing without its caption; nothing where the record has no file of it. `folder` leads to the files."""
    name = record.file(item["name"], ".svg", ".png")
    alt = plain(item["alt"] or item["caption"]).replace("[", "(").replace("]", ")")
    return "" if name is None else f"![{alt}]({folder}/{name})"


def _row(c: Claim) -> list[str]:
    statement = f"{plain(c.statement)}<br><small>{plain(c.measure)}</small>"
    number = plain(c.number_cell) + (f"<br><small>{plain(c.shown)}</small>" if c.shown else "")
    cells = (c.interval_cell, c.covers, c.bound_cell, c.stated or "–")
    return [statement, plain(c.place or c.source), c.outcome, number, *map(plain, cells)]


def settings_table(runs: Sequence[Record]) -> str:
    """Rows for the source's claims of runs without a page: the run, the settings that differ among them, the claim."""
    every = {key: {run.settings.get(key, "") for run in runs} for run in runs for key in run.settings}
    differing = [key for key in runs[0].settings if len(every[key]) > 1 and key not in _UNSHOWN] if runs else []
    rows = [
        [run.variant, *(run.settings.get(key, "") for key in differing), c.statement, c.number_cell, c.interval_cell,
         c.stated or "–", c.outcome]
        for run in runs for c in run.judged_claims if c.kind == "source"
    ]  # fmt: skip
    return table(("run", *differing, "claim", "number", "interval", "the source’s", "outcome"), rows) if rows else ""


def _section(section: Json, record: Record) -> str:
    first = record.figures[0]["name"] if record.figures else ""
    shown = [
        f"{table(item['header'], item['rows'], numbers=True)}\n\n*{plain(item['caption'])}*"
        if item["kind"] == "table"
        else figure(item, record)
        for item in section["shown"]
        if item.get("name") != first
    ]
    parts = [*map(plain, section["text"]), *(part for part in shown if part)]
    return "\n\n".join([f"## {plain(section['title'])}", *parts]) if parts else ""


def _run(record: Record) -> list[tuple[str, str]]:
    seconds, times, copy = record.processor_seconds, record.interruptions, record.copy_interrupted
    rows = [
        ("Preset", record.preset),
        ("Date", record.date or _NOT_RECORDED),
        ("Run time", exact_duration(record.seconds)),
        ("Processor time", _NOT_RECORDED if seconds is None else exact_duration(seconds)),
        ("Interruptions", _NOT_RECORDED if times is None else str(times)),
        *(("Machine", words) for words in [machine(m) for m in record.machines] or [_NOT_RECORDED]),
    ]
    if copy is not None:
        rows.append(("Interruptions of a copy with the same tables", str(copy)))
    for title, said in (("Claims judged again", record.judged), ("Taken over", record.taken_over)):
        rows += [(title, said)] if said else []
    return rows


def machine(values: Mapping[str, Any]) -> str:
    """A processor, its number of cores and the memory."""
    return f"{values['processor']}, cores: {values['cores']}, memory: {memory_size(values['memory'])}"
