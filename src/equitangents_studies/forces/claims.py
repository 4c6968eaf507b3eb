"""What is claimed of forces: that they are predicted and help, what holds by construction, and tensors of water."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equitangents.report import format_number, with_interval
from equitangents.statistics import Estimate, bootstrap, exactly
from equitangents_studies.common.scores import largest
from equitangents_studies.forces.results import TARGETS, Results, error_ratio, guessed
from equitangents_studies.forces.settings import Settings
from equitangents_studies.framework.claims import EXACT, Claim, claim

_THEORY = "by construction"
_ASKED = "asked by a reviewer of arXiv 2406.06504"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What forces add, and what holds by construction."""
    most = settings.sizes[-1]
    of_both = {
        "forces": error_ratio(results.forces["both"][-1], results.forces["energies"][-1]),
        "energies": error_ratio(results.energies["both"][-1], results.energies["energies"][-1]),
    }
    turned = {"energies": largest(results.turned_energies), "forces": largest(results.turned_forces)}
    turned |= {f"{kind} of water": largest(found.turned) for kind, found in results.water.items()}
    judged = [_learnt(results, most), *(_helped(what, ratio, most) for what, ratio in of_both.items())]
    judged += [
        claim(
            "Predicted forces are minus the gradient of predicted energies",
            {"": exactly(results.gradient)},
            measure="Largest difference from central differences, relative to the largest force, for the first test "
            "frame.",
            covers=EXACT,
            at_most=1e-6,
            origin="check",
            source=_THEORY,
            holds="Predicted forces conserve the predicted energy: molecular dynamics can run with them.",
            fails="Do not run molecular dynamics with these forces: they do not conserve the predicted energy.",
        ),
        claim(
            "Predicted forces are free of curl",
            {"": exactly(results.curl)},
            measure="Largest asymmetry of ∂F/∂x, by central differences, relative to the largest derivative, for the "
            "first test frame.",
            covers=EXACT,
            at_most=1e-6,
            origin="check",
            source=_THEORY,
            holds="Predicted Hessians are symmetric: vibrations can be computed from them.",
            fails="Predicted Hessians are not symmetric: do not compute vibrations from them.",
        ),
        claim(
            "Turning a molecule keeps its energy and turns its forces"
            + (" and its tensors" if results.water else "")
            + ", to within 1 %",
            turned,
            measure="Largest deviation, relative to the energies’ standard deviation, the largest force or tensor. The "
            "interval reaches from the largest that was seen to where a further one may lie.",
            covers="turns" + (" and molecules" if results.water else ""),
            at_most=0.01,
            origin="source",
            source="arXiv 2406.06504",
            place="review",
            stated="the extension to equivariant outputs is exact; the bound is our choice",
            holds="Predictions need no data in other orientations: the sampling of rotations to tolerance "
            f"{settings.tolerance:g} is fine enough.",
            fails=f"Rotations are sampled too coarsely with tolerance {settings.tolerance:g}: take a smaller one.",
            undecided="Whether turning changes predictions by less than 1 % is not decided: take more turns.",
        ),
    ]
    if results.water:
        ratios = {kind: found.ratio() for kind, found in results.water.items()}
        judged.append(
            claim(
                f"With {settings.water_sizes[-1]} molecules, tensors of water are predicted better than by fixed "
                "charges and a constant",
                ratios,
                measure="Mean absolute error over that of the simplest model that turns as it must: dipoles of one "
                "charge for each element, the mean polarisability times the identity; paired over test molecules.",
                covers="test molecules",
                at_most=1,
                origin="ours",
                source="our question",
                holds=f"Equivariant readouts are worth their cost for tensors of water: {_percent(ratios)}.",
                fails="A simpler model does as well or better for some tensor of water "
                f"({_percent(ratios)}): use it, or more molecules.",
                undecided="Whether equivariant readouts beat the simplest models for every tensor of water is not "
                f"decided ({_percent(ratios)}): take more molecules.",
            )
        )
    return judged


def _learnt(results: Results, frames: int) -> Claim:
    """Whether forces are predicted at all, after each way of training."""
    ratios = {f"from {target}": guessed(results, target) for target in TARGETS}
    said = ", ".join(f"{100 * e.value:.3g} % {label}" for label, e in ratios.items())
    return claim(
        f"With {frames} frames the kernel predicts forces: their error is below that of guessing their mean",
        ratios,
        aggregate=("from both", ratios["from both"]),
        measure="Mean absolute error of force components over their mean absolute deviation on the test frames, by "
        "what was trained on.",
        covers="test frames",
        at_most=1,
        origin="ours",
        source=_ASKED,
        place="review",
        holds=f"Forces come with the energies’ kernel: errors are {said} of the spread.",
        fails=f"The kernel does not predict forces from so few frames: errors are {said} of the spread.",
        undecided=f"More test frames would tell whether forces are predicted: errors are {said} of the spread.",
    )


def headline(settings: Settings, results: Results) -> tuple[str, str]:
    """What was found, and our numbers beside the source's."""
    both, alone = (guessed(results, target) for target in ("both", "energies"))
    meV = bootstrap(1000 * results.forces["both"][-1])
    percent = both.times(100)
    shown = format_number(percent.value, percent.interval)
    frames = settings.sizes[-1]
    title = (
        f"From {frames} frames of {settings.molecule} the invariant kernel predicts forces to {shown} % of their spread"
    )
    said = (
        f"Trained on energies and forces of {frames} frames, the error of force components is "
        f"{with_interval(meV.value, meV.interval)} meV/Å, {shown} % of their mean deviation, and "
        f"{format_number(100 * alone.value)} % from energies alone; the source has no forces, a reviewer asked "
        "for them."
    )
    return title, said


def _helped(what: str, ratio: Estimate, frames: int) -> Claim:
    """Whether `what` is predicted better after training on energies and forces than on energies alone."""
    found = f"the error of predicted {what} is {100 * ratio.value:.3g} % of what energies alone leave"
    return claim(
        f"With {frames} frames, {what} are predicted better after training on both than on energies",
        {"": ratio},
        measure="Mean absolute error after training on both over that after training on energies, paired over test "
        "frames.",
        covers="test frames",
        at_most=1,
        origin="ours",
        source=_ASKED,
        place="review",
        holds=f"Where forces come with the energies, train on both: with {frames} frames {found}.",
        fails=f"For {what} alone, leave the training forces out: with {frames} frames {found}.",
        undecided=f"Whether training on forces too helps to predict {what} is not decided: {found}.",
    )


def _percent(ratios: Mapping[str, Estimate]) -> str:
    parts = [f"the error of {kind} is {100 * e.value:.3g} % of the simplest model’s" for kind, e in ratios.items()]
    return ", ".join(parts)
