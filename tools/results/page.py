"""The page of one published run, in Markdown: first what came out, then every claim, then what it was made with."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from equitangents.formatting import exact_duration, memory_size
from equitangents_studies import registry
from tools.results.record import Json, Record

_MARKS = {"holds": "✓ holds", "fails": "✗ fails"}
_SPECIAL = re.compile(r"([\\`*$<|])")
_NAME = re.compile(r"(`[\w. =-]+`)")
_ROWS, _COLUMNS = 24, 10  # of a table of numbers that stands in the page; larger ones are linked
_SAID = "What it means"  # stands with each claim
_NOT_RECORDED = "not recorded"


def page(record: Record, folder: Path) -> str:
    """The whole page; `folder` holds the record's files."""
    parts = [
        f"# {plain(record.title)}" + (f": {plain(variant(record))}" if record.variant else ""),
        outcome(record),
        table(
            ("", ""), [*record.facts.items(), ("Source", registry[record.study].source), ("Run time", run_time(record))]
        ),
        "## Claims",
        _claims_in_short(record.claims),
        *(_claim(claim) for claim in record.claims),
        *(_section(section, record) for section in record.sections if section["title"] != _SAID),
        *_numbers(record, folder),
        "## The run",
        table(("", ""), _run(record)),
        "To repeat it:",
        f"```\n{record.command}\n```",
        "Data sets in files are read from `--data-dir FOLDER`, or from the folder that `EQUITANGENTS_DATA` names.",
        "### Settings",
        table(("setting", "value"), record.settings.items()),
        "### Versions",
        table(("", "version"), record.versions.items()),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def variant(record: Record) -> str:
    """What sets a second run of a study apart, in words: C8 grey corners."""
    return record.variant.replace("-", " ")


def counts(record: Record) -> dict[str, int]:
    """How many claims hold, are undecided and fail."""
    verdicts = [claim["verdict"] for claim in record.claims]
    holding, failing = verdicts.count("holds"), verdicts.count("fails")
    return {"holds": holding, "undecided": len(verdicts) - holding - failing, "fails": failing}


def outcome(record: Record) -> str:
    """All verdicts in one sentence, as numbers: the claims themselves stand in a table below it."""
    number = counts(record)
    verb = "holds" if number["holds"] == 1 else "hold"
    said = [f"{number['holds']} of {len(record.claims)} claims {verb}"]
    if number["undecided"]:
        said.append(
            f"{number['undecided']} {'is' if number['undecided'] == 1 else 'are'} not decided by a run of this size"
        )
    if number["fails"]:
        said.append(f"{number['fails']} {'fails' if number['fails'] == 1 else 'fail'}")
    return ", ".join(said[:-1]) + (" and " if len(said) > 1 else "") + said[-1] + "."


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
    sides = ["---", *(["---:" if numbers else "---"] * (len(header) - 1))]
    lines = [[plain(cell) for cell in header], sides, *([plain(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figure(item: Json, record: Record, folder: str) -> str:
    """A drawing with its caption; `folder` leads to the record's files from the page."""
    name = record.file(item["name"], ".svg", ".png")
    if name is None:
        return ""
    alt = plain(item["alt"] or item["caption"]).replace("[", "(").replace("]", ")")
    return f"![{alt}]({folder}/{name})\n\n*{plain(item['caption'])}*"


def mark(claim: Json) -> str:
    """A verdict in a word."""
    return _MARKS.get(claim["verdict"], f"? {claim['verdict']}")


def measured(claim: Json) -> str:
    """The number and its uncertainty."""
    return f"{claim['number']} ({claim['uncertainty']})"


def run_time(record: Record) -> str:
    """By the clock and of processors."""
    processors = "processor time not recorded"
    if record.processor_seconds is not None:
        processors = f"{exact_duration(record.processor_seconds)} of processors"
    return f"{exact_duration(record.seconds)}; {processors}"


def _claims_in_short(claims: Sequence[Json]) -> str:
    rows = [(c["claim"], mark(c), c["number"], c["criterion"], c["stated"] or "–") for c in claims]
    return table(("claim", "verdict", "number", "criterion", "the source’s number"), rows)


def _claim(claim: Json) -> str:
    stated = f" Its number: {claim['stated']}." if claim["stated"] else ""
    lines = [
        f"### {plain(claim['claim'])}",
        f"**{mark(claim).capitalize()}**: {plain(measured(claim))}, criterion: {plain(claim['criterion'])}.",
        plain(f"{claim['measure']} {claim['note']}"),
        plain(claim.get("meaning", "")),
        plain(f"Source: {claim['source']}.{stated}"),
    ]
    return "\n\n".join(line for line in lines if line)


def _section(section: Json, record: Record) -> str:
    parts = [f"## {plain(section['title'])}", *map(plain, section["text"])]
    for item in section["shown"]:
        if item["kind"] == "figure":
            parts.append(figure(item, record, record.name))
        else:
            parts += [table(item["header"], item["rows"], numbers=True), f"*{plain(item['caption'])}*"]
    return "\n\n".join(part for part in parts if part)


def _numbers(record: Record, folder: Path) -> list[str]:
    """Links to the tables; where the report has none, those that are small enough stand here."""
    files = [file for file in record.files if file["name"].endswith(".csv")]
    if not files:
        return []
    parts = ["## Numbers", "Every number behind the figures, one row per measurement:"]
    note = lambda file: f": {file['thinned']}; a run of one’s own has all of it" if file["thinned"] else ""
    parts.append("\n".join(f"- [{f['name']}]({record.name}/{f['name']}){note(f)}" for f in files))
    if not record.tables:
        for file in files:
            header, *rows = list(csv.reader(io.StringIO((folder / file["name"]).read_text(encoding="utf-8"))))
            if len(rows) <= _ROWS and len(header) <= _COLUMNS:
                cells = [[_short(cell) for cell in row] for row in rows]
                parts += [
                    f"### {file['name']}",
                    table([name.replace("_", " ") for name in header], cells, numbers=True),
                ]
    return parts


def _short(cell: str) -> str:
    try:
        return cell if cell.lstrip("-").isdigit() else f"{float(cell):.4g}".replace("-", "−")
    except ValueError:
        return cell


def _run(record: Record) -> list[tuple[str, str]]:
    machines = [machine(m) for m in record.machines] or [_NOT_RECORDED]
    return [
        ("Preset", record.preset),
        ("Date", record.date or _NOT_RECORDED),
        ("Run time", run_time(record)),
        ("Interrupted and resumed", _times(record)),
        *(("Machine", words) for words in machines),
    ]


def machine(values: Mapping[str, Any]) -> str:
    """A processor, its cores and the memory, in words."""
    cores = values["cores"]
    return f"{values['processor']}, {cores} core{'' if cores == 1 else 's'}, {memory_size(values['memory'])} of memory"


def _times(record: Record) -> str:
    count = record.interruptions
    if count is None:
        return _NOT_RECORDED
    times = "no" if count == 0 else "once" if count == 1 else f"{count} times"
    lost = "; the run time leaves out what was not yet written down when a run was killed" if count else ""
    return times + lost
