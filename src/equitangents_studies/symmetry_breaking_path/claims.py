"""What is claimed of the path: away from GAP, towards the infinite limit; and what width and accuracy do on it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from equitangents.statistics import Estimate
from equitangents_studies.common.system_runs import COUNTED
from equitangents_studies.framework.claims import Claim, claim
from equitangents_studies.symmetry_breaking_path.results import OTHERS, Results, Settings, over_members

WORK, FIGURE = "arXiv 2207.04612", "Figure S1"
MEMBERS = "members"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Both changes along the path, the change with width, and that of accuracy."""
    return [
        _along(settings, results, "VEC"),
        _along(settings, results, "GAP"),
        _width(settings, results),
        _accuracy(settings, results),
    ]


def counted_widths(settings: Settings, results: Results) -> tuple[int, ...]:
    """Widths at which VEC learns its training images at all times, as the source counts runs; all if there is none."""
    learns = lambda w: min(results.learnt[w, t].mean() for t in settings.times) >= COUNTED
    return tuple(w for w in settings.widths if learns(w)) or settings.widths


def change(results: Results, other: str, widths: Sequence[int], times: Sequence[float]) -> Estimate:
    """S-Dist at the path's end minus that at its beginning, mean over widths."""
    ends = [results.distance(other, w, t) for t in (times[-1], times[0]) for w in widths]
    return over_members(lambda *found: _halves(found), *ends)


def width_change(results: Results, widths: Sequence[int], times: Sequence[float]) -> Estimate:
    """S-Dist to infinitely wide VEC at the smallest width minus that at the largest, mean over times."""
    ends = [results.distance("VEC", w, t) for w in (widths[0], widths[-1]) for t in times]
    return over_members(lambda *found: _halves(found), *ends)


def _halves(found: Sequence[float | np.ndarray]) -> float | np.ndarray:
    """The mean of the first half minus that of the second."""
    half = len(found) // 2
    return sum(found[:half]) / half - sum(found[half:]) / half


def _along(settings: Settings, results: Results, other: str) -> Claim:
    counted, times = counted_widths(settings, results), settings.times
    e = change(results, other, counted, times)
    left = [w for w in settings.widths if w not in counted]
    rest = "".join(
        f" Not so counted: at {w} channels, where networks learn {_learnt(settings, results, w)} % of their training "
        f"images, it changes by {signed(change(results, other, [w], times).value)}."
        for w in left
    )
    at_least, at_most = (-math.inf, 0.0) if other == "VEC" else (0.0, math.inf)
    statement, holds, fails = {
        "VEC": (
            "VEC of finite width comes nearer to infinitely wide VEC along the path",
            "What VEC of finite width had ahead of its limit is lost when the smaller symmetry is of no use",
            "The distance to infinitely wide VEC grows along the path",
        ),
        "GAP": (
            "VEC of finite width goes away from GAP of the same width along the path",
            "Shared symmetry keeps the two alike, and breaking it parts them",
            "The two come nearer to one another along the path",
        ),
    }[other]
    return claim(
        statement,
        {f"{w} channels": change(results, other, [w], times) for w in settings.widths},
        measure=f"S-Dist to {OTHERS[other]} at t = {times[-1]:g} minus that at t = 0, without the bias of finite "
        f"ensembles, mean over widths at which VEC reaches {100 * COUNTED:.0f} % training accuracy at all t, as the "
        "source counts runs.",
        covers=MEMBERS, origin="source", source=WORK, place=FIGURE, repeated=settings.members,
        aggregate=(f"the mean over {', '.join(map(str, counted))} channels", e),
        holds=f"{holds}: S-Dist changes by {signed(e.value)}.{rest}",
        fails=f"{fails}: S-Dist changes by {signed(e.value)}.{rest}",
        undecided=f"The change of the distance is within its errors.{rest}",
        why=_sizes(settings, results, other), at_least=at_least, at_most=at_most,
    )  # fmt: skip


def _sizes(settings: Settings, results: Results, other: str) -> str:
    """How long and how alike the two mean predictions are, which an S-Dist does not tell apart."""
    if other == "VEC":
        return ""
    width = settings.widths[-1]
    size = lambda t: results.size(width, t).whole
    first, last = settings.times[0], settings.times[-1]
    return (
        f"S-Dist mixes size and direction: with {width} channels the mean square of VEC’s mean prediction goes from "
        f"{size(first):.2g} to {size(last):.2g} along the path, its cosine with GAP’s from "
        f"{results.cosine(width, first).value:.2f} to {results.cosine(width, last).value:.2f}."
    )


def _width(settings: Settings, results: Results) -> Claim:
    s, e = settings, width_change(results, settings.widths, settings.times)
    said = f"{s.widths[0]} to {s.widths[-1]} channels"
    return claim(
        "The distance of VEC of finite width to its limit falls with width",
        {f"t = {t:g}": width_change(results, s.widths, [t]) for t in s.times},
        measure=f"S-Dist to infinitely wide VEC at {s.widths[0]} channels minus that at {s.widths[-1]}.",
        covers=MEMBERS, at_least=0, origin="ours", repeated=s.members,
        source="the source shows it in Figure S1 for 64 to 512 channels; our widths end there",
        aggregate=("the mean over times", e),
        holds=f"From {said} S-Dist to the limit falls by {e.value:.2g}, mean over times.",
        fails=f"From {said} S-Dist to the limit grows by {-e.value:.2g}, mean over times.",
        undecided=f"From {said} S-Dist to the limit changes by {signed(-e.value)}, within errors.",
    )  # fmt: skip


def _accuracy(settings: Settings, results: Results) -> Claim:
    s = settings
    numbers = {f"{w} channels": results.accuracy_change(w, s.times[0], s.times[-1]) for w in s.widths}
    worst = min(numbers.values(), key=lambda e: e.value)
    best = max(numbers.values(), key=lambda e: e.value)
    said = f"{signed(worst.value, 1)} to {signed(best.value, 1)} percentage points"
    return claim(
        "Accuracy of single networks falls along the path",
        numbers,
        measure=f"Test accuracy of single VEC networks at t = {s.times[-1]:g} minus that at t = 0.",
        covers=MEMBERS, at_most=0, unit="percentage points", origin="ours", source="our question", repeated=s.members,
        holds=f"Moved images are harder to classify: accuracy of single networks changes by {said}.",
        fails=f"With {s.train_images:,} images single networks classify moved images better: by {said}. VEC learns as "
        "LCN does there.",
        undecided=f"Accuracy of single networks changes by {said}.",
    )  # fmt: skip


def _learnt(settings: Settings, results: Results, width: int) -> str:
    shares = [100 * results.learnt[width, t].mean() for t in settings.times]
    return f"{min(shares):.0f} to {max(shares):.0f}"


def signed(value: float, digits: int = 3) -> str:
    """A change with its sign, as sentences write it."""
    return f"{value:+.{digits}f}".replace("-", "−")
