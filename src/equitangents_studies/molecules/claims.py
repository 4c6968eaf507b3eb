"""What is claimed of energies of molecules: against the MLP kernel, against others, and what moving molecules does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.report import with_interval
from equitangents.statistics import bootstrap, exactly, shared_level, t_interval
from equitangents_studies.data.molecules import KCAL_PER_EV
from equitangents_studies.framework.claims import EXACT, Claim, Records, claim
from equitangents_studies.molecules.results import Results, error_ratio, mean_errors, mean_ratio
from equitangents_studies.molecules.settings import Settings

OURS = "our question"
THEIRS = "arXiv 2406.06504"
_RATIO = "Mean absolute error of the first over that of the second; geometric mean over splits, paired."


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Against the MLP kernel at all sizes, against the others at the largest, and what moving molecules does."""
    most, each = settings.sizes[-1], shared_level(len(settings.sizes))
    at = lambda molecules: settings.sizes.index(molecules)
    against = Records.over(
        lambda molecules: error_ratio(results, "so3", "mlp", at(molecules), each),
        lambda molecules: f"{molecules} molecules",
        molecules=settings.sizes,
    )
    low, high = 100 * against.values.min(), 100 * against.values.max()
    found = f"the error is {low:.3g} % to {high:.3g} % of the MLP kernel’s, by training size"
    sources = settings.data == "qm9"
    judged = [
        claim(
            "The invariant kernel’s error is below that of the MLP kernel on the same signals",
            against,
            aggregate=("the geometric mean over training sizes", mean_ratio(results, "so3", "mlp")),
            measure=_RATIO,
            covers="splits, which share molecules",
            repeated=settings.splits,
            at_most=1,
            origin="source" if sources else "ours",
            source=THEIRS if sources else f"our question: the source asks it of QM9 ({THEIRS})",
            place="figure of errors on QM9" if sources else "",
            stated="lower at all training sizes" if sources else "",
            holds=f"Build invariance under rotations into the kernel of energies: {found}.",
            fails=f"Invariance under rotations does not pay: {found}.",
            undecided=f"Whether invariance under rotations pays is not decided: {found}.",
        )
    ]
    judged += [_rival(results, name, most) for name in ("coulomb", "soap") if name in results.errors]
    turned = np.abs(results.rotated["so3"]).max(axis=1) / mean_errors(results, "so3")[0, -1]
    return [
        *judged,
        claim(
            "Turning and shifting a molecule changes the invariant kernel’s prediction by less than 2 % of its error, "
            "on average over molecules",
            {"": bootstrap(100 * turned)},
            measure=f"Largest change of a molecule’s prediction in {settings.turns} draws, mean over {settings.moved} "
            "molecules, over the mean absolute error.",
            covers="molecules",
            at_most=2,
            unit="%",
            origin="check",
            source="theory, up to the quadrature over rotations; the bound is our choice",
            stated="no change",
            holds="No copies of molecules in other orientations are needed: with rotations sampled to tolerance "
            f"{settings.tolerance:g} the largest change seen is {100 * turned.max():.2g} % of the error.",
            fails=f"Rotations are sampled too coarsely with tolerance {settings.tolerance:g}: take a smaller one.",
            undecided="Whether rotations are sampled finely enough is not decided: move more molecules, or take a "
            f"tolerance below {settings.tolerance:g}.",
        ),
        claim(
            "Renumbering a molecule’s atoms does not change the invariant kernel’s prediction, to rounding",
            {"": exactly(KCAL_PER_EV * np.abs(results.relabelled["so3"]).max())},
            measure=f"Largest change of a prediction, {settings.moved} molecules in {settings.turns} numberings each.",
            covers=EXACT,
            at_most=1e-6,
            unit="kcal/mol",
            origin="check",
            source="theory; the bound is our choice",
            holds="Atoms may come in any order.",
            fails="The order of atoms matters: number them alike in all molecules.",
        ),
    ]


def _rival(results: Results, name: str, molecules: int) -> Claim:
    """Whether the invariant kernel beats kernel ridge regression on other descriptions at the largest size."""
    rival = {"coulomb": "Coulomb matrices", "soap": "SOAP"}[name]
    ratio = error_ratio(results, "so3", name, -1)
    found = (
        f"with {molecules} molecules the SO(3) kernel’s error is {100 * ratio.value:.3g} % of that of {rival} "
        f"({100 * ratio.low:.3g} % to {100 * ratio.high:.3g} %)"
    )
    return claim(
        f"With {molecules} molecules the invariant kernel’s error is below that of kernel ridge regression on {rival}",
        {"": ratio},
        measure=_RATIO,
        covers="splits, which share molecules",
        repeated=results.splits,
        at_most=1,
        origin="ours",
        source=OURS,
        holds=f"Prefer the SO(3) kernel to {rival}: {found}.",
        fails=f"Prefer {rival} to the SO(3) kernel: {found}.",
        undecided=f"These splits do not decide between the SO(3) kernel and {rival}: {found}.",
    )


def headline(settings: Settings, results: Results) -> tuple[str, str]:
    """What was found, and our numbers beside the source's."""
    most, data_set = settings.sizes[-1], settings.data.upper()
    last = {name: t_interval(KCAL_PER_EV * mean_errors(results, name)[:, -1]) for name in ("so3", "mlp")}
    in_words = {name: with_interval(e.value, e.interval) for name, e in last.items()}
    ratio = mean_ratio(results, "so3", "mlp")
    title = (
        f"On {data_set} the invariant kernel errs by {100 * ratio.value:.2g} % of what an MLP’s kernel errs by on the "
        "same signals"
    )
    said = (
        f"With {most:,} molecules of {data_set} the SO(3)-invariant kernel predicts energies to {in_words['so3']} "
        f"kcal/mol, the MLP’s kernel to {in_words['mlp']} kcal/mol"
        + (" (the source: the invariant one is better at all training sizes)." if settings.data == "qm9" else ".")
    )
    return title, said
