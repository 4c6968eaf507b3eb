"""What is published of a run, as plain values: read from the files of its folder, kept as `run.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
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

    `name` is that of its page: the study's name, followed by the variant's. `figures` are captions of the drawings of
    the report, `tables` its tables. The settings of a run with `table_of` are rows of a table on that page. `judged` is
    the day on which claims were judged again from the run's numbers.
    """

    name: str
    study: str
    variant: str
    preset: str
    claims: list[Json]
    figures: list[Json]
    tables: list[Json]
    settings: dict[str, str]
    versions: dict[str, str]
    command: str
    seconds: float
    processor_seconds: float | None
    interruptions: int | None
    date: str | None
    machines: list[Json]
    judged: str | None = None
    table_of: str = ""

    @property
    def source_claims(self) -> list[Claim]:
        """The claims that a work makes."""
        return [c for c in map(Claim.from_dict, self.claims) if c.kind == "source"]

    @property
    def page(self) -> str:
        """The file of the page that shows it."""
        return f"{self.table_of or self.name}.md"

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
    shown = lambda kind: [item for item in report["shown"] if item["kind"] == kind]
    return Record(
        name="-".join(part for part in (study, variant) if part),
        study=study,
        variant=variant,
        preset=str(config["preset"]),
        claims=claims,
        figures=shown("figure"),
        tables=shown("table"),
        settings=settings,
        versions=report["versions"],
        command=report["command"],
        seconds=float(config["seconds"]),
        processor_seconds=float(sum(s["processor_seconds"] for s in sessions)),
        interruptions=len(sessions) - 1,
        date=sessions[-1]["began"][:10],
        machines=_distinct([s["machine"] for s in sessions]),
    )


def _until_finished(sessions: list[Json]) -> list[Json]:
    """What came after a session that finished only read what was there."""
    endings = [session["ended"] for session in sessions]
    return sessions[: endings.index("finished") + 1] if "finished" in endings else sessions


def _distinct(machines: list[Json]) -> list[Json]:
    return [machine for i, machine in enumerate(machines) if machine not in machines[:i]]
