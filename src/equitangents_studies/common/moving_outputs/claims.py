"""What is claimed of outputs that move: inputs saved, augmentation and architecture alike, equivariance in time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from equitangents.report import format_number
from equitangents.statistics import Estimate, exactly, shared_level
from equitangents_studies.common.moving_outputs.problem import RIGHT, SETS, WRONG
from equitangents_studies.common.moving_outputs.results import Learning, every_time
from equitangents_studies.framework.claims import Claim, after, claim, exact, in_words, ours, theirs, to_rounding
from equitangents_studies.framework.works import BEYOND_THE_LIMIT as EMERGENT
from equitangents_studies.framework.works import EQUIVARIANT_KERNELS as THEIRS
from equitangents_studies.systems.factors import ends_of, number_of

OURS = "our question"
REVIEW = "review"  # equivariant outputs are sketched there; the derivation is ours (docs/theory.md)
_LEFT = 10.0  # per cent
_SEEN = 0.01


def saving_claims(learnings: Mapping[str, Learning], noun: str, moved: str) -> list[Claim]:
    """Whether the right group saves training inputs (`noun`) and the wrong one none; `moved`: what turns with them."""
    level = shared_level(len(learnings))
    right = {f"{name}{k.titles[RIGHT]}": k.saved(RIGHT, level) for name, k in learnings.items()}
    wrong = {f"{name}{k.titles[WRONG]}": k.excess(WRONG, level) for name, k in learnings.items()}
    largest = max(k.sizes[-1] for k in learnings.values())
    said, errors = ("; ".join(f"{label} {_words(e)}" for label, e in of.items()) for of in (right, wrong))
    how = (
        f"Number of {noun} with which the plain kernel is trained at most, over that with which the kernel with the "
        "group built in has the same squared error, interpolated between sizes; the other way round where the plain "
        "kernel is better."
    )
    covers = f"draws of training and test {noun}"
    return [
        claim(
            f"With the right group built in, fewer training {noun} give the same error",
            right,
            measure=how,
            covers=covers,
            at_least=1,
            by=ours(OURS),
            holds=f"Build the group in where {moved}. The plain kernel needs more {noun} by these factors: {said}.",
            fails=f"The group saves no {noun} somewhere; check that it is a symmetry of these data. Factors: {said}.",
            undecided=f"More draws, or other sizes than up to {largest}, would tell whether all are above 1. Factors: "
            f"{said}.",
        ),
        claim(
            f"A wrong group does not lower the error of the largest training set of {noun}",
            wrong,
            measure="Squared error with the wrong group built in over that of the plain kernel.",
            covers=covers,
            at_least=1,
            by=ours(OURS),
            holds="It is the right symmetry that helps, not averaging over a group. Errors grow by these factors: "
            f"{errors}.",
            fails=f"Averaging over a group that is no symmetry of the data helps somewhere. Factors: {errors}.",
            undecided=f"More draws would tell whether a wrong group raises the error. Factors: {errors}.",
        ),
    ]


def time_claims(learnings: Mapping[str, Learning], noun: str) -> list[Claim]:
    """Augmentation and equivariant kernel alike at every time; both equivariant, the plain one not; on and off data."""
    some = next(iter(learnings.values()))
    times = every_time(some.units)
    numbers = lambda of: {
        f"{name}{set_name}": exactly(float(of(k)[i]))
        for name, k in learnings.items()
        for i, set_name in enumerate(SETS)
    }
    grown = {
        f"{name}growing training sets": exactly(float(k.augmented[:, k.explicit].max()))
        for name, k in learnings.items()
        if k.explicit.any()
    }
    done = [size for k in learnings.values() for size in np.array(k.sizes)[k.explicit].tolist()]
    most = max(done, default=0)
    both = {
        f"{model}, {label}": e
        for model in ("augmented", "equivariant")
        for label, e in numbers(lambda k, model=model: k.errors[model].max(axis=1)).items()
    }
    trained = lambda k: k.errors["plain"].min(axis=1)
    plain = numbers(trained)
    least = format_number(min(e.value for e in plain.values()))
    return [
        to_rounding(
            "Networks trained on all moved copies, targets moved along, have the mean of the equivariant ones at every "
            "time, on the data and off them",
            {**numbers(lambda k: k.apart.max(axis=1)), **grown},
            measure="Largest difference of means relative to the largest output, over elements, outputs and times "
            f"({times}, in units of N/λ_max), and at the end of training sets of up to {most} {noun}; infinite width, "
            "the copies are trained on explicitly.",
            by=theirs(THEIRS, REVIEW, "equal"),
            holds="Take whichever is at hand, augmentation or architecture: the means are one and the same.",
            fails="Augmentation and the equivariant kernel differ here: their curves must be read apart.",
        ),
        to_rounding(
            "Both are equivariant at every time, on the data and off them",
            both,
            measure="Root mean square of f(ρ(g)x) − ρ(g)f(x), all g but the identity, relative to that of f; the "
            f"largest over times ({times}).",
            by=theirs(THEIRS, REVIEW, "0"),
            holds=f"Outputs move with their inputs as they should, also for {noun} unlike those of training.",
            fails="The outputs do not move as the inputs do: the network’s windows or the action are not exact.",
        ),
        exact(
            "Without augmentation the mean is not equivariant, on the data or off them",
            plain,
            measure=f"The same of the plain ensemble; the smallest over times ({times}).",
            at_least=_SEEN,
            by=ours("our control; the bound is our choice"),
            holds=f"The symmetry is not learnt by itself: the error is at least {least} of the output.",
            fails=f"The plain ensemble comes to move its outputs somewhere (down to {least}): it may need no group.",
        ),
    ]


def trained_claim(learning: Learning, noun: str) -> list[Claim]:
    """Whether the mean of finite networks that trained on all moved copies is equivariant; none without networks."""
    trained = learning.trained
    if trained is None:
        return []
    steps = trained.training.steps
    level = shared_level(len(SETS) * len(steps))
    numbers = {
        f"{name}, {after(step)}": trained.share(name, i, level).times(100)
        for name in SETS
        for i, step in enumerate(steps)
    }
    errors = np.array([trained.errors(name, i) for name in SETS for i in range(len(steps))])
    alone, mean = (f"{column.min():.2g} to {column.max():.2g}" for column in errors.T)
    t = trained.training
    said = f"the mean of {t.members} errs by {mean} of the outputs, single networks by {alone}"
    return [
        claim(
            "Averaging finite networks trained on all moved copies removes their equivariance error at every time, on "
            f"the data and off them: at most {_LEFT:g} % of its square is left",
            numbers,
            measure="Squared mean over networks of f(ρ(g)x) − ρ(g)f(x), over its mean square, free of the bias of "
            f"finitely many networks; {t.members} networks trained on {t.inputs} {noun}.",
            covers="members",
            at_most=_LEFT,
            unit="%",
            by=theirs(EMERGENT, f"abstract of {EMERGENT}", "equivariant in the mean at any width"),
            holds=f"Average networks: {said}.",
            fails=f"Averaging leaves an error somewhere; look at windows and padding: {said}.",
            undecided=f"More networks would tell whether averaging leaves an error: {said}.",
        )
    ]


def headline(learnings: Mapping[str, Learning], noun: str, what: str) -> tuple[str, str]:
    """What was found, and our numbers beside the source's; `what` moves with the `noun`."""
    factors = [k.saved(RIGHT) for k in learnings.values()]
    least = [f"at least {e.value:.3g}" for e in factors]  # where no interval is known the curves do not meet
    few, saved = (
        " and ".join(say(e) if e.has_interval else other for e, other in zip(factors, least, strict=True))
        for say in (number_of, in_words)
    )
    grown = [k.augmented[:, k.explicit] for k in learnings.values() if k.explicit.any()]
    apart = float(np.max([*(k.apart.max() for k in learnings.values()), *(table.max() for table in grown)]))
    off = float(np.max([k.errors[model] for k in learnings.values() for model in ("augmented", "equivariant")]))
    bare = float(np.min([k.errors["plain"] for k in learnings.values()]))
    title = f"Networks whose {what} need {few} times fewer {noun} than plain ones for the same error"
    said = (
        f"For the same squared error networks with the right group built in need {saved} times fewer {noun} than plain "
        "ones. Trained on all moved copies, infinitely wide networks have the mean of the equivariant ones to "
        f"{format_number(apart)} of the largest output at every time (the source: equal), and both are equivariant to "
        f"{format_number(off)} of their outputs; without augmentation the violation is {format_number(bare)} or more."
    )
    return title, said


def _words(e: Estimate) -> str:
    """A factor with its interval."""
    if not np.isfinite(e.value):
        return "none measured"
    return f"{number_of(e)} ({ends_of(e)})" if e.has_interval else f"{e.value:.3g}, without an interval"
