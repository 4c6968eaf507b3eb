"""Claims about the change under rotations between the elements of C_k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.statistics import Estimate, bootstrap, exactly, power_law, shared_level
from equitangents_studies.continuous.image_claims import SOURCE, image_claims
from equitangents_studies.continuous.results import Results, bound_share, finite_violation
from equitangents_studies.continuous.settings import Settings
from equitangents_studies.framework.claims import EXACT, Claim, Records, after, claim


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The lemma, invariance under C_k itself, the slope, the floor of resampling, finite and image ensembles."""
    times, finest = range(len(results.steps)), settings.orders[-1]
    when = lambda t: after(int(results.steps[t]))
    words = lambda k, t: f"C{k}, {when(t)}"
    share, floor, each = bound_share(results), results.relative_floor()[-1], shared_level(len(times))

    def own(k: int, t: int) -> Estimate:
        i = settings.orders.index(k)
        return exactly(results.profile["rings"][i, t, :: settings.angles // k].max() / results.size["rings"][i, t])

    def over_floor(way: str) -> Records:
        both = [np.stack([results.relative(way)[-1, t], floor[t]], axis=1) for t in times]
        root = lambda m: np.sqrt(m[:, 0] / m[:, 1])
        return Records.over(lambda t: bootstrap(both[t], root, confidence=each), when, t=times)

    slope = lambda t: power_law(results.kappa["rings"], results.relative("rings")[:, t].T, confidence=each)
    pixels, rings = over_floor("pixels"), over_floor("rings")
    found = [
        claim(
            "On the test images the mean changes by at most κ C(x) under any rotation tried",
            Records.over(
                lambda k, t: exactly(share[settings.orders.index(k), t].max()), words, k=settings.orders, t=times
            ),
            measure="On rings: largest change over angles divided by κ C(x), for the worst input. C(x) = |x| times "
            f"the largest gradient of the closed-form mean at {settings.points}² places on the chords, by central "
            "differences.",
            covers=EXACT,
            at_most=1,
            origin="source",
            source=SOURCE,
            place="Lemma 6.2",
            stated="at most 1",
            holds="κ C(x) is a safe bound when choosing how many orientations to show: the change takes up at most "
            f"{share.max():.0%} of it here.".replace("%", " %"),
            fails="With the gradient searched at so few places κ C(x) is no safe bound: raise the setting points.",
        ),
        claim(
            "On the test images the mean does not change under the rotations of C_k, to rounding",
            Records.over(own, words, k=settings.orders, t=times),
            measure="On rings: largest change under C_k, relative to the root mean square prediction.",
            covers=EXACT,
            at_most=1e-8,
            origin="source",
            source=SOURCE,
            place="main theorem",
            stated="0",
            holds="If only finitely many orientations occur in use, show exactly those: the infinitely wide "
            "ensemble is then invariant under them.",
            fails="The closed-form mean changes even under the rotations that the data show: find out why before "
            "looking at those between them.",
        ),
        claim(
            "The change under all rotations falls at least in proportion to κ",
            Records.over(slope, when, t=times),
            measure="On rings: exponent of the root mean square change against κ.",
            covers="inputs",
            at_least=1,
            origin="ours",
            source="expected from the lemma, which bounds the change by κ",
            stated="at least 1",
            holds="Each further doubling of the orientations shown at least halves the change under all rotations, "
            "where it halves κ.",
            fails="More orientations reduce the change under all rotations more slowly than κ: measure it at the "
            "number that is to be used.",
            undecided="How fast the change under all rotations falls with κ is not decided: more test images or "
            "more orders would tell.",
        ),
        claim(
            f"After augmentation with C{finest} the change on pixels is at most twice the error of resampling",
            pixels,
            measure="Root mean square change when pixels are rotated, over that when they are rotated there and back.",
            covers="inputs",
            at_most=2,
            origin="ours",
            source="our question; the bound is our choice",
            holds=f"On pixels more than {finest} orientations would gain little: resampling sets the limit (the "
            f"change is {pixels.span()} times its error).",
            fails=f"On pixels {finest} orientations are not enough to reach the limit that resampling sets: the "
            f"change is {pixels.span()} times its error at the recorded steps.",
            undecided=f"Whether more than {finest} orientations would gain much on pixels is not decided: the "
            f"change is {pixels.span()} times the error of resampling.",
        ),
        claim(
            f"After augmentation with C{finest} exact rotations of rings change the mean by at most half of what "
            "resampling pixels does",
            rings,
            measure="Root mean square relative change on rings over the floor of resampled pixels.",
            covers="inputs",
            at_most=0.5,
            origin="ours",
            source="our question; the bound is our choice",
            holds="Where invariance below the error of resampling is needed, use a representation that can "
            "be rotated exactly, such as rings.",
            fails="An exact representation does not bring the change clearly below the error of resampling with "
            f"{finest} orientations: show more of them.",
            undecided=f"Whether an exact representation pays with {finest} orientations is not decided: more test "
            "images would tell.",
        ),
    ]
    if settings.trained:
        level = shared_level(len(settings.trained))
        finite = Records.over(
            lambda k: finite_violation(settings, results, k, level), lambda k: f"C{k}", k=settings.trained
        )
        found.append(
            claim(
                "Trained ensembles, less their sampling error, violate the symmetry as much as the closed form says, "
                "to within a factor of 2",
                finite,
                measure=f"On rings {when(len(times) - 1)}: root mean square change of the mean of members of width "
                f"{settings.width}, without sampling bias, over that of the closed form.",
                covers="members",
                at_least=0.5,
                at_most=2,
                origin="ours",
                source="expected; the bounds are our choice",
                holds="The number of orientations can be chosen in closed form, before any network is trained: "
                f"measured over predicted is {finite.span()}.",
                fails="Choose the number of orientations from trained networks, not in closed form: measured over "
                f"predicted is {finite.span()} at width {settings.width}.",
                undecided="Whether the closed form tells how much trained ensembles violate the symmetry is not "
                f"decided (measured over predicted is {finite.span()}): more members would tell.",
            )
        )
    return found if results.images is None else [*found, *image_claims(settings, results.images)]
