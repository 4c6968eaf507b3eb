"""Tissue and its rotations: the measurement of `study` on colorectal tiles, which have no preferred orientation.

Foreign inputs: another laboratory's colon tissue (LC25000), photographs of things (CIFAR-10) and noise; our choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from equitangents.statistics import Estimate, bootstrap, shared_level
from equitangents_studies.framework.citations import EMERGENT_EQUIVARIANCE
from equitangents_studies.framework.claims import Claim, Records, claim
from equitangents_studies.framework.study import Study
from equitangents_studies.rotated_images import claims as rotated_images
from equitangents_studies.rotated_images.results import Results
from equitangents_studies.rotated_images.settings import STATED, Settings, check_settings
from equitangents_studies.rotated_images.study import measure

_FOREIGN = ("histology_lc25000_colon", "cifar10", "noise")
PRESETS = {
    "quick": Settings(
        data="histology_crc5",
        foreign=_FOREIGN,
        pixels=16,
        train_images=300,
        test_images=200,
        foreign_images=200,
        members=20,
        channels=(16, 16),
        readout="pool",
        epochs=10,
        recorded_epochs=(0, 1, 2, 4, 7, 10),
        infinite_train=300,
    ),
    "desk": Settings(
        data="histology_crc5",
        foreign=_FOREIGN,
        pixels=16,
        train_images=600,
        test_images=300,
        foreign_images=150,
        members=40,
        channels=(24, 24),
        narrow=(6, 6),
        readout="pool",  # of all positions these networks hardly learn tissue
        epochs=40,
        recorded_epochs=(0, 1, 2, 5, 10, 20, 30, 40),
        infinite_train=600,
    ),
    "paper": Settings(
        data="nct_crc_he",
        foreign=_FOREIGN,
        train_images=None,
        test_images=None,
        foreign_images=400,
        members=100,
        channels=(64, 64, 64),
        readout="pool",
        batch=128,
        epochs=20,
        recorded_epochs=(0, 1, 2, 3, 5, 7, 10, 15, 20),
        infinite_train=2000,
    ),
}


def lead_of_members(results: Results, name: str, epoch: int, level: float = 0.95) -> Estimate:
    """Orbit same predictions of the mean minus those of a member, mean over members; bootstrapped over inputs."""
    mean = results.agreement(results.mean[name][epoch])
    members = results.agreement(results.members[name][epoch]).mean(axis=0)
    most = results.scales["agreement"][1] - 1
    return bootstrap(mean - members, confidence=level, bounds=(-most, most))


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The source's comparison with the members as they are, then those of `rotated-images`."""
    names, trained = tuple(results.images.sets), [int(e) for e in results.epochs if e > 0]
    level, epochs = shared_level(len(trained) * len(names)), [int(e) for e in results.epochs]
    ahead = Records.over(
        lambda epoch, name: lead_of_members(results, name, epochs.index(epoch), level),
        lambda epoch, name: f"{results.images.titles[name]} after epoch {epoch}",
        epoch=trained,
        name=names,
    )
    found = f"the lead is {ahead.span('.2g')} rotations out of {settings.order}"
    first = claim(
        "From the first recorded epoch on, the ensemble agrees with itself over rotations more often than a member "
        "does on average, on tissue and on foreign images",
        ahead,
        measure=f"Orbit same predictions of the mean of {settings.members} CNNs minus those of a member, mean over "
        f"members, in rotations out of {settings.order}.",
        covers="inputs",
        at_least=0,
        source=STATED,
        holds=f"On tissue too, averaging makes predictions steadier under turns than one network’s: {found}.",
        fails=f"On some set and at some time averaging does not make predictions steadier under turns: {found}.",
        undecided=f"Whether averaging helps on every set and at every time is not decided: {found}.",
    )
    return [first, *rotated_images.claims(settings, results)]


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
