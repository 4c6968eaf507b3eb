"""What is claimed of the path: away from GAP, towards the infinite limit, and what hides it where it fails."""

from __future__ import annotations

from collections.abc import Sequence

from equitangents_studies.framework.claims import Claim, claim
from equitangents_studies.symmetry_breaking_path.results import OTHERS, Results, Settings, over_members

STATED = "figure S1 of arXiv 2207.04612"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Away from GAP, towards the infinite limit."""
    first, last = settings.times[0], settings.times[-1]
    change = lambda other: {
        f"width {w}": over_members(
            lambda a, b: b - a, results.distance(other, w, first), results.distance(other, w, last)
        )
        for w in settings.widths
    }
    return [
        claim(f"{title} along the path", change(other), measure="S-Dist at the end minus at the start.",
              covers="members", at_least=0, source=STATED, holds="It grows.", fails="It falls.")
        for other, title in OTHERS.items()
    ]  # fmt: skip
