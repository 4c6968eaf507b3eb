"""The resampling floor of C8 and C16: a few networks trained likewise, averaged over all turns of every input."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from equitangents.statistics import Estimate, bootstrap, shared_level
from equitangents_studies.common.scores import floor_control, twice_turned
from equitangents_studies.common.training import train_stage
from equitangents_studies.framework.claims import Claim, Records, claim
from equitangents_studies.framework.folder import RunFolder
from equitangents_studies.framework.stages import Arrays
from equitangents_studies.rotated_images.results import Results, ensemble_labels
from equitangents_studies.rotated_images.settings import Settings

MEMBERS, INPUTS = 8, 100  # networks of the invariant function, and inputs of each set that it is shown
TOLERANCE = 0.05  # of |G|


def floor_stage(settings: Settings, folder: RunFolder, results: Results, **training: Any) -> Arrays:
    """Classes (|G|, n) that the invariant function gives the orbits of the first n inputs of every set."""
    members = min(MEMBERS, settings.members)
    inputs = {name: twice_turned(results.action, x[:INPUTS]) for name, x in results.images.sets.items()}
    return train_stage(
        folder,
        "floor",
        f"Resampling floor, {members} CNNs",
        **training,
        members=members,
        record=inputs,
        record_at=[settings.epochs],
        keep=partial(_averaged, settings),
    )


def _averaged(settings: Settings, recorded: Arrays) -> Arrays:
    order = settings.order
    split = lambda y: y[-1].reshape(len(y[-1]), order, order, -1, y.shape[-1])  # (M, h, g, n, K)
    return {name: ensemble_labels(settings, split(y), axis=(0, 1)) for name, y in recorded.items()}


def ahead_of_floor(results: Results, name: str, level: float = 0.95) -> Estimate:
    """Orbit same predictions of the ensemble after the last epoch minus those of the floor, on the same inputs."""
    count = results.floor[name].shape[-1]
    ensemble = results.agreement(results.mean[name][-1])[:count]
    most = results.scales["agreement"][1] - 1
    return bootstrap(ensemble - results.agreement(results.floor[name]), confidence=level, bounds=(-most, most))


def floor_claim(settings: Settings, results: Results) -> Claim:
    """Whether more than resampling keeps the ensemble from being invariant."""
    names, least = tuple(results.floor), -TOLERANCE * settings.order
    level = shared_level(len(names))
    return claim(
        "The ensemble agrees with itself as often as resampled pixels allow, to within "
        f"{100 * TOLERANCE:g} % of the rotations",
        Records.over(
            lambda name: ahead_of_floor(results, name, level), lambda name: results.images.titles[name], name=names
        ),
        measure=f"Orbit same predictions of the mean of {settings.members} CNNs minus the resampling floor, on the "
        f"first {INPUTS} inputs of each set, in rotations out of {settings.order}.",
        covers="inputs",
        at_least=least,
        origin="ours",
        source="ours: the source states no floor",
        holds="What is left of the violation is due to the pixels: neither more members nor more training would help "
        "much.",
        fails="The ensemble stays behind what its pixels allow on at least one set: more members or more training may "
        "help.",
        undecided="Whether the ensemble is as invariant as its pixels allow is not decided on these inputs.",
    )


def floor_rows(results: Results) -> list[tuple[str, Estimate, Estimate]]:
    """For every set: its title, the floor, and the control over quarter turns alone."""
    four = (1.0, 4.0)
    return [
        (
            results.images.titles[name],
            bootstrap(results.agreement(labels), bounds=results.scales["agreement"]),
            bootstrap(np.asarray(floor_control(results.action, labels)), bounds=four),
        )
        for name, labels in results.floor.items()
    ]
