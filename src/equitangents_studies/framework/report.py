"""The report of a study: claims, sections with figures, settings and citations, as data and as one HTML file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from equitangents.report import Figure, Section, environment, palette, with_interval
from equitangents_studies.verdict import FAILS, HOLDS, UNDECIDED, Origin, Verdict

_BADGES = {HOLDS: "holds", FAILS: "fails", UNDECIDED: "undecided"}


@dataclass(frozen=True)
class Page:
    """All that the report of a study shows: title, sections, figures and sources; `seconds` is what the run took."""

    title: str
    kicker: str
    summary: str
    verdicts: Sequence[Verdict]
    sections: Sequence[Section]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    rerun: str
    citations: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    seconds: float = math.nan

    @property
    def figure(self) -> Figure | None:
        """The first of the first section, which stands before all else."""
        shown = self.sections[0].shown if self.sections else ()
        return next((item for item in shown if isinstance(item, Figure)), None)

    def of(self, origin: Origin) -> list[Verdict]:
        """The verdicts on claims of one origin."""
        return [v for v in self.verdicts if v.origin == origin]

    def html(self) -> str:
        """The report, complete in itself."""
        template = environment("equitangents_studies.framework").get_template("page.html.jinja")
        version = self.versions.get("equitangents", "")
        shown = {"badges": _BADGES, "with_interval": with_interval, "colours": palette.COLOURS}
        return template.render(page=self, version=version, **shown)
