"""What is claimed of VEC against width: where it is best, what rotations cost it, and its infinite limit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from equitangents.statistics import Estimate, no_interval, shared_level
from equitangents_studies.common.counted_runs import COUNTED
from equitangents_studies.finite_width_vec.results import INFERENCES, Results, Settings
from equitangents_studies.framework.claims import Claim, claim

STATED = "figure 3 of arXiv 2207.04612"
BEST = {"NN": 64, "NN+": 128}  # the widths past which the source's accuracies fall
PLACE, NAMED, MEDIAN = 64, (68, 78, 78, 79, 79), 78.0  # the width that the source gives accuracies at, in percent
FULL = 45_000
POINTS = 3.0  # percentage points that accuracies may differ by to meet
RUNS = "runs, each with images, a rotation and initial weights of its own"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Accuracy past the best width, ahead of the limit, the cost of rotations and its fall, the source's accuracy."""
    s, widths = settings, results.widths
    counts = [results.successful(how, g, w) for how, g in results.best for w in widths]
    reached = f"{sum(counts)} of {s.runs * len(counts)} runs reach {100 * COUNTED:.0f} % training accuracy"
    larger = f"{reached}, and only they count. {FULL:,} images of 32×32 pixels (preset paper) would decide."
    two = shared_level(len(INFERENCES))
    every = shared_level(len(INFERENCES) * len(widths))
    best = {how: _nearest(widths, BEST[how]) for how in INFERENCES}
    there = lambda e, how, known: e if BEST[how] in known else no_interval(e.value, e.level)
    falls = {
        f"{how}, from width {best[how]}": there(results.falls(how, best[how], two), how, widths[:-1])
        for how in INFERENCES
    }
    ahead = {
        f"{how}, width {best[how]}": there(results.ahead(how, "I", best[how], two), how, widths) for how in INFERENCES
    }
    cost = {f"{how}, width {w}": results.cost(how, w, every) for how in INFERENCES for w in widths}
    behind = {f"{how}, width {w}": results.ahead(how, "O(3)^d", w, every) for how in INFERENCES for w in widths}
    return [
        claim(
            "On images as they are, accuracy falls past 64 channels with NN and past 128 with NN+",
            falls,
            measure=f"Accuracy at that width minus accuracy at the largest, {widths[-1]} channels.",
            covers=RUNS, at_least=0, unit="percentage points", source=STATED,
            holds="Wider is not better: take VEC of moderate width.",
            fails="Here accuracy grows on past these widths.",
            undecided=f"These widths and images do not decide where VEC is best. {larger}",
        ),
        claim(
            "On images as they are, VEC of the source’s best width predicts better than infinitely wide VEC",
            ahead,
            measure="Accuracy of networks minus that of the NTK on the same images.",
            covers=RUNS, at_least=0, unit="percentage points", source=STATED,
            holds="Networks use neighbourhoods that the infinite limit is blind to.",
            fails="Here the kernel is ahead of networks of that width.",
            undecided=f"These images do not decide it. {larger}",
        ),
        claim(
            "A rotation of the channels at every position costs VEC of finite width accuracy, at every width",
            cost,
            measure="Accuracy on images as they are minus accuracy on rotated images.",
            covers=RUNS, at_least=0, unit="percentage points", source=STATED,
            holds="VEC of finite width has used what the rotation destroys.",
            fails="At some width networks do better on rotated images.",
            undecided=f"At some width the cost is within its errors. {larger}",
        ),
        claim(
            "That cost falls from the smallest width to the largest",
            {how: results.shrinks(how, two) for how in INFERENCES},
            measure="Cost at the smallest width at which enough runs count minus that at the largest.",
            covers=RUNS, at_least=0, unit="percentage points", source=f"theory: Theorem 4.1 of {STATED[12:]}",
            holds="With width VEC takes on the symmetry of its limit, O(3)^d.",
            fails="Here the cost grows with width.",
            undecided=f"The change of the cost is within its errors. {larger}",
        ),
        claim(
            "On rotated images infinitely wide VEC predicts at least as well as VEC of any width",
            behind,
            measure="Accuracy of networks minus that of the NTK on the same rotated images.",
            covers=RUNS, at_most=0, unit="percentage points", source="arXiv 2207.04612: the NTK is ahead under "
            "spurious symmetries",
            holds="Where neighbourhoods are of no use, take the kernel.",
            fails="At some width networks are ahead of the NTK on rotated images, too.",
            undecided=f"At some width the difference is within its errors. {larger}",
        ),
        _source(s, results),
    ]  # fmt: skip


def _source(settings: Settings, results: Results) -> Claim:
    """The accuracy at one width, which our images decide only at the source's size."""
    s = settings
    same = results.source == "cifar10" and s.train_images == FULL and s.pixels == 32 and PLACE in results.widths
    width = PLACE if PLACE in results.widths else results.widths[-1]
    level = shared_level(len(INFERENCES))
    found = max((results.accuracy(how, "I", width, level) for how in INFERENCES), key=_value)
    less = Estimate(found.value - MEDIAN, found.low - MEDIAN, found.high - MEDIAN, level)
    ours = f"{found.value:.0f} %" if math.isfinite(found.value) else "not known, since too few runs count"
    named = ", ".join(map(str, NAMED))
    return claim(
        f"With {PLACE} channels and {FULL:,} images accuracy is that of the source, {MEDIAN:g} %, to {POINTS:g} points",
        {f"width {width}, {s.train_images:,} images": less if same else no_interval(less.value, level)},
        measure="Highest accuracy along training of the better of NN and NN+, images as they are, minus the median of "
        f"the source’s {named} %.",
        covers=RUNS, at_least=-POINTS, at_most=POINTS, unit="percentage points", source=STATED,
        stated=f"{named} %",
        holds=f"Networks here are as good as the source’s: {ours}.",
        fails=f"Networks here are not as good as the source’s, or better: {ours}.",
        undecided=f"With {s.train_images:,} images of {s.pixels}×{s.pixels} pixels and {width} channels accuracy is "
        f"{ours}. {FULL:,} images of CIFAR-10 at 32×32 pixels (preset paper) would decide.",
    )  # fmt: skip


def _nearest(widths: Sequence[int], width: int) -> int:
    """The nearest to `width` of the widths that were trained."""
    return min(widths, key=lambda w: abs(math.log2(w / width)))


def _value(e: Estimate) -> float:
    return e.value if math.isfinite(e.value) else -math.inf
