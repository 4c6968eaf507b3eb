"""The claims of `rotated-images`: on every set of inputs, at every recorded epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equitangents.statistics import Estimate, bootstrap, exactly, shared_level
from equitangents_studies.framework.claims import EXACT, Claim, Records, claim
from equitangents_studies.rotated_images.floor import floor_claim
from equitangents_studies.rotated_images.predicted import PREDICTED, TOLERANCE, judged_sets, members_claim
from equitangents_studies.rotated_images.results import Results
from equitangents_studies.rotated_images.settings import STATED, Settings, stated_agreement

_START = "before training"
_RESAMPLED = "Turns by less than 90° resample the image; the source’s proof asks for an exact action."


def lead(results: Results, name: str, epoch: int, level: float = 0.95) -> Estimate:
    """Orbit same predictions of the mean minus those of the best member, bootstrapped over inputs."""
    mean = results.agreement(results.mean[name][epoch])
    members = results.agreement(results.members[name][epoch])
    most = results.scales["agreement"][1] - 1
    return bootstrap((mean - members).T, lambda means: means.min(axis=1), confidence=level, bounds=(-most, most))


def excess(results: Results, name: str, level: float = 0.95) -> Estimate:
    """Orbit same predictions of single members after the last epoch, less those expected of infinitely wide ones."""
    scores = results.agreement(results.members[name][-1])[:, :PREDICTED].mean(axis=-1)
    expected = float(results.predicted[name][0, 0])
    low, high = results.scales["agreement"]
    return bootstrap(scores, lambda means: means - expected, confidence=level, bounds=(low - expected, high - expected))


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The source's claims, on every set at every recorded epoch; initialisation and finite width apart."""
    epochs, names = [int(e) for e in results.epochs], tuple(results.images.sets)
    trained, order = [e for e in epochs if e > 0], settings.order
    words = lambda name, epoch: f"{results.images.titles[name]} {f'after epoch {epoch}' if epoch else _START}"

    def ahead(level: float, at: Sequence[int]) -> Records:
        of = lambda epoch, name: lead(results, name, epochs.index(epoch), level)
        return Records.over(of, words, epoch=at, name=names)

    measure = f"Orbit same predictions of the mean of {settings.members} CNNs minus those of the best of them, in "
    how: dict[str, Any] = {"measure": measure + f"rotations out of {order}.", "covers": "inputs", "at_least": 0}
    judged = [
        claim(
            "From the first recorded epoch on, the ensemble agrees with itself over rotations more often than any of "
            "its members",
            ahead(shared_level(len(trained) * len(names)), trained),
            source=STATED + "; to ask it against the best member is our choice",
            stated=stated_agreement(settings),
            holds="Once training has begun, average: the mean keeps its prediction more often than even the best "
            "single network, also on images unlike the training data.",
            fails="A single well-chosen network can agree with itself as often as the mean: compare before paying "
            "for an ensemble.",
            undecided="Whether averaging beats the best single network is not decided on these images: take more.",
            **how,
        ),
        claim(
            "Before training, the ensemble agrees with itself over rotations more often than any of its members",
            ahead(shared_level(len(names)), [0]),
            source="ours: the same question at initialisation",
            holds="Averaging helps even before training has begun.",
            fails="Before training averaging does not help: the mean of untrained networks is one more random "
            "function.",
            **how,
        ),
    ]
    if results.predicted:
        level = shared_level(len(results.predicted))
        off = Records.over(
            lambda name: excess(results, name, level),
            lambda name: results.images.titles[name],
            name=tuple(results.predicted),
        )
        found = ", ".join(
            f"{e.value:+.2f}".replace("-", "−") + f" ({results.images.titles[name]})"
            for name, e in zip(results.predicted, off.estimates, strict=True)
        )
        judged.append(
            claim(
                "Single members agree with themselves as often as infinitely wide ones, to within "
                f"{100 * TOLERANCE:g} % of the rotations",
                off,
                measure="Orbit same predictions of a member after the last epoch, mean over members, minus those that "
                f"GP(μ, Σ) expects, in rotations out of {order}.",
                covers="members",
                at_least=-TOLERANCE * order,
                at_most=TOLERANCE * order,
                source=STATED + " in the limit of width; the bound is our choice",
                holds="Numbers of members planned from infinite width are good for networks of this width.",
                fails=f"Plan the number of members from a pilot of trained networks: at {settings.channels[-1]} "
                f"channels single ones differ from infinite width by {found} rotations out of {order}.",
                undecided="Whether infinite width tells how often networks of this width agree with themselves is "
                "not decided: use a pilot of trained networks to plan.",
            )
        )
    if judged_sets(results):
        judged.append(members_claim(settings, results))
    if results.floor:
        judged.append(floor_claim(settings, results))
    if results.infinite:
        agreed = lambda name, epoch: exactly(results.agreement(results.infinite[name][epochs.index(epoch)]).min())
        judged.append(
            claim(
                "At infinite width the prediction is the same for all rotations, at every time, on and off the data",
                Records.over(agreed, words, name=names, epoch=epochs),
                measure=f"Orbit same predictions of the infinitely wide ensemble on the worst input, out of {order}."
                + ("" if results.action.exact else f" {_RESAMPLED}"),
                covers=EXACT,
                at_least=order,
                source=STATED,
                holds="Where its kernel matrix is affordable, the infinitely wide ensemble gives predictions that "
                "no rotation changes.",
                fails="Even the infinitely wide ensemble changes its prediction under some rotation: more members "
                "or more width will not help.",
            )
        )
    return judged
