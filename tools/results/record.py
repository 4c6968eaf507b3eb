"""What is published of a run, as plain values: read from the files of its folder, kept as `run.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from equitangents.errors import InvalidArgumentError
from equitangents_studies import registry
from equitangents_studies.claim import Claim

Json = dict[str, Any]

_NEEDED = ("config.json", "claims.json", "report.json", "report.html")


@dataclass(frozen=True)
class Record:
    """One published run.

    `name` is that of its page: the study's name, followed by the variant's. Written by hand, and kept when a run is
    published again: `title` (the finding), `summary`, `facts`, `notes` (by the statement of a claim: why it fails), and
    the titles and paragraphs of `sections`, whose `shown` are figures and tables of the report. A run with `table_of`
    has no page: its settings and numbers are rows of the table of settings on that page. `files` are the
    drawings beside the page. `judged` is the day on which claims were
    judged again from the run's numbers. `taken_over` says what another run computed of it. `copy_interrupted` is how
    often a copy of this run was killed and resumed whose tables are the same to the byte.
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
    notes: dict[str, str] = field(default_factory=dict)
    table_of: str = ""

    @property
    def judged_claims(self) -> list[Claim]:
        """All claims."""
        return [Claim.from_dict(claim) for claim in self.claims]

    @property
    def shown(self) -> list[Json]:
        """All figures and tables, in the order of the report."""
        return [item for section in self.sections for item in section["shown"]]

    @property
    def figures(self) -> list[Json]:
        """All figures."""
        return [item for item in self.shown if item["kind"] == "figure"]

    @property
    def tables(self) -> list[Json]:
        """All tables."""
        return [item for item in self.shown if item["kind"] == "table"]

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

    def written_as(self, before: Record | None) -> Record:
        """This run with what was written by hand of the run published `before`."""
        if before is None:
            return self
        return replace(
            self,
            title=before.title,
            summary=before.summary,
            facts=before.facts,
            notes=before.notes,
            table_of=before.table_of,
        )


def read(folder: Path, variant: str = "") -> Record:
    """The record of a finished run, without its files.

    Raises InvalidArgumentError where there is no finished run, of a study that the registry does not have, or one
    whose settings hold a path of this machine.
    """
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if missing:
        raise InvalidArgumentError(f"{folder} holds no finished run of a study: {', '.join(missing)} is missing")
    config, claims, report = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("config", "claims", "report")
    )
    study = str(config["study"])
    if study not in registry:
        raise InvalidArgumentError(f"{folder} holds a run of {study!r}, which is no study of the registry")
    settings = report["settings"]
    paths = [f"{key} {value}" for key, value in settings.items() if value.startswith(("/", "~"))]
    if paths:
        raise InvalidArgumentError(f"the settings of {folder} hold paths of this machine: {', '.join(paths)}")
    sessions = _until_finished(config["sessions"])
    return Record(
        name="-".join(part for part in (study, variant) if part),
        study=study,
        variant=variant,
        preset=str(config["preset"]),
        title=registry[study].title,
        summary=registry[study].summary,
        facts={},
        claims=claims,
        sections=[{"title": "Figures and tables", "text": [], "shown": report["shown"]}],
        settings=settings,
        versions=report["versions"],
        command=report["command"],
        seconds=float(config["seconds"]),
        processor_seconds=float(sum(s["processor_seconds"] for s in sessions)),
        interruptions=len(sessions) - 1,
        date=sessions[-1]["began"][:10],
        machines=_distinct([s["machine"] for s in sessions]),
        files=[],
    )


def _until_finished(sessions: list[Json]) -> list[Json]:
    """What came after a session that finished only read what was there."""
    endings = [session["ended"] for session in sessions]
    return sessions[: endings.index("finished") + 1] if "finished" in endings else sessions


def _distinct(machines: list[Json]) -> list[Json]:
    return [machine for i, machine in enumerate(machines) if machine not in machines[:i]]
