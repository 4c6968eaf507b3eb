"""What is published of a run, as plain values: read from the files of its folder, kept as `run.json`."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from equitangents.errors import InvalidArgumentError
from equitangents_studies import registry
from equitangents_studies.framework.claims import lead
from equitangents_studies.verdict import Verdict
from tools.results.markup import Node, parse

Json = dict[str, Any]

_NEEDED = ("config.json", "verdicts.json", "report.html")
_OWN_SECTIONS = ("claims", "besides", "checks", "in-full", "reproduce", "cite")  # those that every report has
_LEAD = re.compile(r"\d+ of \d+ (claims?|numbers?)\b")  # what is a count of verdicts


@dataclass(frozen=True)
class Record:
    """One published run.

    `name` is that of its page: the study's, with the variant's behind it if there is one. `sections` are those of the
    report: a title, paragraphs, and what is shown, figures and tables. `files` are the drawings beside the page. What a
    folder of an earlier version does not know is None.
    `judged` is the day on which claims were judged anew from the run's numbers, where that is not the run's own.
    `taken_over` says what of it was computed by another run, or state of the code, and how it came into this one.
    `copy_interrupted` is how often a copy of this run was killed and resumed whose tables are the same to the byte.
    """

    name: str
    study: str
    variant: str
    preset: str
    title: str
    summary: str
    facts: dict[str, str]
    claims: list[Json]
    sections: list[Json]
    settings: dict[str, str]
    versions: dict[str, str]
    command: str
    seconds: float
    processor_seconds: float | None
    interruptions: int | None
    date: str | None
    machines: list[Json]
    files: list[str]
    judged: str | None = None
    taken_over: str | None = None
    copy_interrupted: int | None = None

    @property
    def verdicts(self) -> list[Verdict]:
        """All claims."""
        return [Verdict.from_dict(claim) for claim in self.claims]

    @property
    def finding(self) -> str:
        """What was found, where the page has that for its title; else nothing."""
        return "" if self.title == registry[self.study].title else self.title

    @property
    def sentence(self) -> str:
        """What the page says first: of runs without a sentence of their own how the source's claims came out."""
        return lead(self.verdicts, named=False) if _LEAD.match(self.summary) or not self.summary else self.summary

    @property
    def figures(self) -> list[Json]:
        """All figures, in the order of the report."""
        return [item for section in self.sections for item in section["shown"] if item["kind"] == "figure"]

    @property
    def tables(self) -> list[Json]:
        """All tables of the report."""
        return [item for section in self.sections for item in section["shown"] if item["kind"] == "table"]

    def file(self, stem: str, *endings: str) -> str | None:
        """The name of a published file, with one of the endings."""
        return next((f"{stem}{ending}" for ending in endings if f"{stem}{ending}" in self.files), None)

    def to_json(self) -> str:
        """As `run.json` has it."""
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Record:
        """From `run.json`."""
        return Record(**json.loads(text))


def read(folder: Path, variant: str = "") -> Record:
    """The record of a finished run, without its files.

    Raises InvalidArgumentError where there is no finished run, of a study that the registry does not have, or one
    whose settings hold a path of this machine.
    """
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if missing:
        raise InvalidArgumentError(f"{folder} holds no finished run of a study: {', '.join(missing)} is missing")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    report = parse((folder / "report.html").read_text(encoding="utf-8"))
    study = str(config["study"])
    if study not in registry:
        raise InvalidArgumentError(f"{folder} holds a run of {study!r}, which is no study of the registry")
    facts = {node.first("dt").text: node.first("dd").text for node in report.first("dl", "facts").elements}
    facts.pop("Run time", None)  # stands with the machine
    reproduce = next(node for node in report.every("section") if node.attributes.get("id") == "reproduce")
    settings, versions = (_pairs(table) for table in reproduce.every("table", "pairs"))
    paths = [f"{key} {value}" for key, value in settings.items() if value.startswith(("/", "~"))]
    if paths:
        raise InvalidArgumentError(f"the settings of {folder} hold paths of this machine: {', '.join(paths)}")
    sessions = _until_finished(config.get("sessions"))
    return Record(
        name=f"{study}-{variant}" if variant else study,
        study=study,
        variant=variant,
        preset=str(config["preset"]),
        title=report.first("h1").text,
        summary=report.first("p", "summary").text,
        facts=facts,
        claims=json.loads((folder / "verdicts.json").read_text(encoding="utf-8")),
        sections=[_section(n) for n in report.every("section") if n.attributes.get("id") not in _OWN_SECTIONS],
        settings=settings,
        versions=versions,
        command=reproduce.first("pre").raw.strip(),
        seconds=float(config["seconds"]),
        processor_seconds=_processor_seconds(sessions),
        interruptions=None if sessions is None else len(sessions) - 1,
        date=None if sessions is None else sessions[-1]["began"][:10],
        machines=_distinct([s["machine"] for s in sessions or [] if "machine" in s]),
        files=[],
    )


def _pairs(table: Node) -> dict[str, str]:
    return {row.first("th").text: row.first("td").text for row in table.every("tr")}


def _section(node: Node) -> Json:
    shown = [_shown(child) for child in node.elements if child.tag == "figure"]
    return {
        "title": node.first("h2").text,  # none of the figure that stands before all else
        "text": [child.text for child in node.elements if child.tag == "p"],
        "shown": [item for item in shown if item is not None],
    }


def _shown(node: Node) -> Json | None:
    """A figure or a table; None for what reacts to its reader, which only the report itself can show."""
    caption = node.first("figcaption")
    files = caption.first("span", "files")
    if files in caption.elements:
        caption.children.remove(files)
        return {
            "kind": "figure",
            "name": Path(files.text).stem,
            "alt": node.attributes.get("aria-label", ""),
            "caption": caption.text,
        }
    table = next(node.every("table", "numbers"), None)
    if table is None:
        return None
    header, *rows = [[cell.text for cell in row.elements] for row in table.every("tr")]
    return {"kind": "table", "caption": caption.text, "header": header, "rows": rows}


def _until_finished(sessions: list[Json] | None) -> list[Json] | None:
    """What came after a session that finished only read what was there."""
    endings = [session.get("ended") for session in sessions or []]
    return sessions[: endings.index("finished") + 1] if sessions is not None and "finished" in endings else sessions


def _processor_seconds(sessions: list[Json] | None) -> float | None:
    if sessions is None or not all("processor_seconds" in s for s in sessions):
        return None
    return float(sum(s["processor_seconds"] for s in sessions))


def _distinct(machines: list[Json]) -> list[Json]:
    return [machine for i, machine in enumerate(machines) if machine not in machines[:i]]
