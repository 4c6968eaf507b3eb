"""The page of a published run, in Markdown: what was found, the figure, the source's claims, then all the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equitangents.formatting import exact_duration, memory_size
from equitangents.report import with_interval
from equitangents_studies import registry
from equitangents_studies.verdict import FAILS, HOLDS, Verdict
from tools.results.record import Json, Record
from tools.results.words import SETTINGS, brackets, in_words

_SPECIAL = re.compile(r"([\\`*$<|])")
_NAME = re.compile(r"(`[\w. =-]+`)")
_ROWS = 24  # of a table of numbers that stands in the page
_SAID = "What it means"  # stands with each claim; reports of earlier versions had it as a section
_NOT_RECORDED = "not recorded"
# Settings that change no number of a contender but its interval, or what stands beside it.
_COUNTS = {"contenders", "repetitions", "kernel_images", "models", "predicted_sets"}


def page(record: Record, published: Sequence[Record] = ()) -> str:
    """The whole page. Of claims that do not hold it says what other runs found."""
    verdicts = {origin: [v for v in record.verdicts if v.origin == origin] for origin in ("source", "ours", "check")}
    found = _answers(verdicts["ours"])
    first = " ".join([record.title, record.sentence, *(v.claim for v in verdicts["source"])])
    parts = [
        f"# {heading(record)}",
        plain(record.sentence),
        *(figure(item, record, record.name) for item in record.figures[:1]),
        plain(f"{in_words(first)} {brackets(record.sentence)}"),
        *(["## What the source claims", _claims(verdicts["source"], record, published)] if verdicts["source"] else []),
        *(["## What we found", found] if found and not verdicts["source"] else []),
        *_seams(record),
        table(("", ""), [*record.facts.items(), ("Source", registry[record.study].source)]),
        *(_section(section, record) for section in record.sections if section["title"] != _SAID),
        "## Details",
        *_folded("What we found besides", [found] if verdicts["source"] else []),
        *_folded("Checks of the code", [_answers(verdicts["check"])]),
        *_folded("Each claim in full", [_claim(v, record) for v in record.verdicts]),
        *_folded(
            "The run",
            [
                table(("", ""), _run(record)),
                "To repeat it:",
                f"```\n{record.command}\n```",
                "It writes every number behind the figures to tables in the folder `results` of the run.",
                "Data sets in files are read from `--data-dir FOLDER`, or the folder that `EQUITANGENTS_DATA` names.",
                "### Settings",
                table(("setting", "value"), record.settings.items()),
                "### Versions",
                table(("", "version"), record.versions.items()),
            ],
        ),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _folded(title: str, parts: Iterable[str]) -> list[str]:
    """What a reader opens; nothing where there is nothing inside."""
    inside = [part for part in parts if part]
    return [f'<details markdown="1">\n<summary>{title}</summary>', *inside, "</details>"] if inside else []


def heading(record: Record) -> str:
    """A run's title, of further runs of a study without a finding with what sets them apart."""
    apart = f": {variant(record)}" if record.variant and not record.finding else ""
    return plain(record.title + apart)


def variant(record: Record) -> str:
    """What sets a second run of a study apart, in words: C8 grey corners."""
    return record.variant.replace("-", " ")


def counts(record: Record) -> dict[str, int]:
    """How many of the source's claims hold or agree, are undecided, and fail or differ."""
    verdicts = [v.verdict for v in record.verdicts if v.origin == "source"]
    holding, failing = verdicts.count(HOLDS), verdicts.count(FAILS)
    return {"holds": holding, "undecided": len(verdicts) - holding - failing, "fails": failing}


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
    return _lines([plain(cell) for cell in header], ([plain(cell) for cell in row] for row in rows), numbers)


def _lines(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = False) -> str:
    """A table of cells that are Markdown already."""
    sides = ["---", *(["---:" if numbers else "---"] * (len(header) - 1))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, sides, *rows))


def figure(item: Json, record: Record, folder: str) -> str:
    """A drawing with its caption; `folder` leads to the record's files from the page."""
    drawn = picture(item, record, folder)
    return f"{drawn}\n\n*{plain(item['caption'])}*" if drawn else ""


def picture(item: Json, record: Record, folder: str, said: str = "") -> str:
    """A drawing alone, with what it shows or what is `said` of it; nothing where the record has none."""
    name = record.file(item["name"], ".svg", ".png")
    if name is None:
        return ""
    alt = plain(said or item["alt"] or item["caption"]).replace("[", "(").replace("]", ")")
    return f"![{alt}]({folder}/{name})"


def run_time(record: Record) -> str:
    """By the clock and of processors."""
    processors = "processor time not recorded"
    if record.processor_seconds is not None:
        processors = f"{exact_duration(record.processor_seconds)} of processors"
    return f"{exact_duration(record.seconds)}; {processors}"


def _seams(record: Record) -> list[str]:
    """What is not of the one run that the settings describe."""
    return [
        *([f"Claims were judged anew from this run’s numbers on {record.judged}."] if record.judged else []),
        *([f"Taken over: {plain(record.taken_over)}"] if record.taken_over else []),
    ]


@dataclass(frozen=True)
class Further:
    """How a number of the source's that a run does not meet came out in a further run of the study: its `verdict`,
    whether more repetitions `decide` it there, or else what the number depends on, in words (`cause`).
    """

    run: Record
    verdict: Verdict
    decides: bool
    cause: str


def further(v: Verdict, record: Record, published: Sequence[Record]) -> list[Further]:
    """Further runs beside a number of the source's that is not met; those beside another number are left out."""
    return [
        Further(other, w, _decides(v, record, w, other), _cause(v, record, w, other))
        for other, w in _beside(v, record, published)
    ]


def elsewhere(v: Verdict, record: Record, published: Sequence[Record]) -> str:
    """In Markdown, how a number of the source's that is not met came out in further runs of the study, first in those
    that show what it depends on, and in which facts (the table below the claims) and words these differ.
    """
    first, lines = [], []
    for found in further(v, record, published):
        other, w = found.run, found.verdict
        apart = [words for key, words in other.facts.items() if record.facts.get(key) != words]
        under = plain("; ".join([*apart, *([w.claim] if w.claim != v.claim else [])]))
        said = f"[{other.name}]({other.name}.md){f' ({under})' if under else ''}: {plain(f'{w.number}, {w.mark}')}."
        if found.decides:
            first.append(f"More repetitions decide it: in {said}")
        elif found.cause:
            between = "" if w.verdict == HOLDS else "the source’s number lies between this one and another "
            first.append(f"It depends on {found.cause}: {between}with all else the same, in {said}")
        else:
            lines.append(f"In {said}")
    return " ".join(first + lines)


def decided(v: Verdict, record: Record, published: Sequence[Record]) -> bool:
    """Whether a further run of the study, of more repetitions, decides what this one leaves undecided."""
    return any(_decides(v, record, w, other) for other, w in _beside(v, record, published))


def _beside(v: Verdict, record: Record, published: Sequence[Record]) -> Iterator[tuple[Record, Verdict]]:
    """Further runs of the study, with their verdicts on a number of the source's that this one does not meet."""
    if v.verdict == HOLDS or not v.stated:
        return
    for other in published:
        if other.study == record.study and other.name != record.name:
            for w in other.verdicts:
                if (w.origin, w.place, w.stated) == ("source", v.place, v.stated):
                    yield other, w


def _apart(record: Record, other: Record) -> list[str]:
    """Settings that differ, but those that change intervals alone."""
    both = (record.settings.keys() & other.settings.keys()) - _COUNTS
    return [key for key in both if record.settings[key] != other.settings[key]]


def _decides(v: Verdict, record: Record, w: Verdict, other: Record) -> bool:
    undecided = v.verdict not in (HOLDS, FAILS) and w.verdict in (HOLDS, FAILS)
    return undecided and w.claim == v.claim and not _apart(record, other)


def _cause(v: Verdict, record: Record, w: Verdict, other: Record) -> str:
    """The one setting, in words, that sets a run apart where the same number of the source's is met, or missed on the
    other side; else nothing.
    """
    apart = _apart(record, other)
    if v.verdict != FAILS or w.claim != v.claim or len(apart) != 1:
        return ""
    beyond = v.difference is not None and w.difference is not None and v.difference.value * w.difference.value < 0
    return SETTINGS.get(apart[0], "") if w.verdict == HOLDS or (w.verdict == FAILS and beyond) else ""


def _claims(verdicts: Sequence[Verdict], record: Record, published: Sequence[Record]) -> str:
    """The source's claims: what each says, where, and our number beside its own."""
    rows = []
    for v in verdicts:
        notes = [plain(v.why), plain(v.remedy(record.seconds)), elsewhere(v, record, published)]
        number = plain(f"{v.number} ({v.uncertainty})") + _small(plain(_measured(v)))
        cells = (plain(v.place or v.source), plain(v.mark), number, plain(v.stated or "–"))
        rows.append((plain(v.claim) + _small(*notes), *cells))
    return _lines(("claim", "where", "verdict", "our number", "the source’s"), rows)


def _measured(v: Verdict) -> str:
    """What its number is, in a sentence, and of a family which."""
    shown = first_sentence(v.note)
    return f"{first_sentence(v.measure)} {shown if shown.startswith('Shown') else ''}"


def first_sentence(text: str) -> str:
    """The first of several."""
    return re.split(r"(?<=\.) (?=[A-Z])", text, maxsplit=1)[0]


def _small(*notes: str) -> str:
    """What stands small below the first line of a cell."""
    return "".join(f"<br><small>{words}</small>" for words in notes if words)


def _answers(verdicts: Sequence[Verdict]) -> str:
    """Questions with their numbers and what follows; nothing where there are none."""
    rows = [(v.claim, f"{v.number} ({v.uncertainty})", f"{v.mark} {v.meaning}".strip()) for v in verdicts]
    return table(("asked", "number", "answer"), rows) if rows else ""


def _claim(v: Verdict, record: Record) -> str:
    mark = f"**{plain(v.mark).capitalize()}**: " if v.mark else ""
    stated = f" Its number: {v.stated}." if v.stated else ""
    family = [(label, with_interval(e.value, e.interval, v.bounds)) for label, e in v.numbers.items()]
    lines = [
        f"### {plain(v.claim)}",
        f"{mark}{plain(f'{v.number} ({v.uncertainty})')}, criterion: {plain(v.criterion)}.",
        plain(f"{v.measure} {v.note}"),
        *map(plain, (v.meaning, v.why, v.remedy(record.seconds))),
        plain(f"Source: {v.source}{f', {v.place}' if v.place else ''}.{stated}"),
        table(("", "number"), family) if 1 < len(family) <= _ROWS or v.aggregate else "",
    ]
    return "\n\n".join(line for line in lines if line)


def _section(section: Json, record: Record) -> str:
    """A section of the report without the figure that stands before all else."""
    parts = [f"## {plain(section['title'])}" if section["title"] else "", *map(plain, section["text"])]
    for item in section["shown"]:
        if item["kind"] == "table":
            parts += [table(item["header"], item["rows"], numbers=True), f"*{plain(item['caption'])}*"]
        elif item != record.figures[0]:
            parts.append(figure(item, record, record.name))
    return "\n\n".join(part for part in parts if part)


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
    count, of_copy = record.interruptions, record.copy_interrupted
    if count is None:
        return _NOT_RECORDED
    times = lambda n: "no" if n == 0 else "once" if n == 1 else f"{n} times"
    lost = "; the run time leaves out what was not yet written down when a run was killed" if count else ""
    copy = f"; a copy of it was, {times(of_copy)}, and has the same tables to the last bit" if of_copy else ""
    return times(count) + lost + copy
