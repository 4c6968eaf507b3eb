"""The report of a study: claims, figures, tables, settings and citations, as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equitangents.extending import duration
from equitangents.report import Figure, Section, Table, environment, palette
from equitangents_studies.claim import TITLES, Claim
from equitangents_studies.framework.catalogue import StudyInfo


@dataclass(frozen=True)
class Page:
    """Content of a run's report; `seconds` is the run time."""

    info: StudyInfo
    preset: str
    claims: Sequence[Claim]
    shown: Sequence[Figure | Table]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    rerun: str
    citations: Sequence[str]
    seconds: float

    @property
    def figure(self) -> Figure | None:
        """The first figure, at the top of the page."""
        return next((item for item in self.shown if isinstance(item, Figure)), None)

    @property
    def sections(self) -> list[Section]:
        """Figures and tables."""
        return [Section("Figures and tables", [], list(self.shown))] if self.shown else []

    @property
    def run_time(self) -> str:
        """Run time, as text."""
        return duration(self.seconds)

    @property
    def groups(self) -> dict[str, list[Claim]]:
        """Claims by the title of their table."""
        found = {title: [c for c in self.claims if c.kind == kind] for kind, title in TITLES.items()}
        return {title: claims for title, claims in found.items() if claims}

    def to_dict(self) -> dict[str, Any]:
        """Settings, versions, command, figures (without drawings) and tables, for JSON."""
        shown = [
            {"kind": "figure", "name": item.name, "alt": item.alt, "caption": item.caption}
            if isinstance(item, Figure)
            else {"kind": "table", "caption": item.caption, "header": [*item.header], "rows": [*map(list, item.rows)]}
            for item in self.shown
        ]
        return {"settings": self.settings, "versions": self.versions, "command": self.rerun, "shown": shown}

    def html(self) -> str:
        """The report as one self-contained HTML page."""
        template = environment("equitangents_studies.framework").get_template("page.html.jinja")
        return template.render(page=self, version=self.versions.get("equitangents", ""), colours=palette.COLOURS)
