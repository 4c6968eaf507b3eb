"""What theory expects of M members, beside trained ensembles of M: the claim over ensemble sizes."""

from __future__ import annotations

from equitangents.statistics import shared_level
from equitangents_studies.common.expected_agreement import COVERS, Trained, disjoint_scores
from equitangents_studies.framework.claims import Claim, Records, claim
from equitangents_studies.rotated_images.results import Results, ensemble_labels
from equitangents_studies.rotated_images.settings import STATED, Settings, ensemble_sizes

PREDICTED, DRAWS = 100, 200  # inputs whose orbits are drawn jointly, and ensembles drawn
TOLERANCE = 0.05  # of |G|


def trained(settings: Settings, results: Results, name: str, members: int) -> Trained:
    """Disjoint ensembles of `members` trained networks on the inputs that the prediction is for."""
    labels = lambda groups: results.agreement(ensemble_labels(settings, groups, axis=1))
    scores = disjoint_scores(results.outputs[name][:, :, :PREDICTED], members, labels)
    expected, low, high = results.predicted[name][ensemble_sizes(settings).index(members)]
    return Trained(scores, float(expected), float(low), float(high))


def judged_sets(results: Results) -> tuple[str, ...]:
    """Sets of inputs with a prediction and with the outputs of trained members."""
    return tuple(name for name in results.predicted if name in results.outputs)


def differences(settings: Settings, results: Results) -> Records:
    """Trained minus expected for every set and every M above 1, with intervals that hold together."""
    sizes, names = [m for m in ensemble_sizes(settings) if m > 1], judged_sets(results)
    level, bounds = shared_level(len(sizes) * len(names)), results.scales["agreement"]
    return Records.over(
        lambda name, members: trained(settings, results, name, members).difference(bounds, level),
        lambda name, members: f"{members} members, {results.images.titles[name]}",
        name=names,
        members=sizes,
    )


def members_claim(settings: Settings, results: Results) -> Claim:
    """Ensembles of every size, to within a tolerance that is ours."""
    found = differences(settings, results)
    least, most = -TOLERANCE * settings.order, TOLERANCE * settings.order
    outside = []
    for name in judged_sets(results):
        at = found.where(name=name)
        off = at.column("members")[~((least <= at.values) & (at.values <= most))]
        outside += [f"M = {', '.join(map(str, off))} ({results.images.titles[name]})"] if len(off) else []
    images = min(settings.infinite_train, len(results.images.train_x))
    other = "" if images == len(results.images.train_x) else f" for {images:,} of the training images"
    return claim(
        "Trained ensembles of every size agree with themselves as often as infinitely wide ones, to within "
        f"{100 * TOLERANCE:g} % of the rotations",
        found,
        measure=f"Orbit same predictions of disjoint ensembles of M networks on {PREDICTED} inputs of each set, minus "
        f"those that GP(μ, Σ/M) expects{other}, in rotations out of {settings.order}.",
        covers=COVERS,
        at_least=least,
        at_most=most,
        source=STATED + " in the limit of width; the bound is our choice",
        holds="Numbers of members can be planned from infinite width at this width.",
        fails="At this width the prediction does not serve for every size: off by more than the bound are "
        f"{'; '.join(outside)}. The study `predicted-agreement` shows what width does to the difference.",
        undecided="Whether infinite width tells how often ensembles of every size agree with themselves is not "
        "decided.",
    )
