"""Every study by name. Importable in a moment: nothing but the standard library is loaded here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equitangents.studies.framework.study import Present, Study

_EMERGENT = "Gerken & Kessel 2024, arXiv 2403.03103"
_KERNELS = "Misof, Kessel & Gerken 2024, arXiv 2406.06504"


@dataclass(frozen=True)
class StudyInfo:
    """What `equitangents list` shows of a study, the module that holds it as `STUDY`, and that with its `present`."""

    name: str
    title: str
    source: str
    presets: tuple[str, ...]
    summary: str
    module: str
    page: str = ""


registry: dict[str, StudyInfo] = {
    info.name: info
    for info in (
        StudyInfo(
            name="toy",
            title="An invariant function on the plane",
            source=_EMERGENT,
            presets=("quick", "paper"),
            summary="MLPs learn a function invariant under rotations: are members invariant, is their mean, at "
            "initialisation and after 1, 2, 3 and 2000 steps? A page with a time slider.",
            module="equitangents.studies.toy.study",
            page="equitangents.studies.toy.page",
        ),
        StudyInfo(
            name="ising",
            title="Energies of the two-dimensional Ising model",
            source=_EMERGENT,
            presets=("quick", "paper"),
            summary="Ensembles of MLPs of growing width against the closed form: do their means converge, and is the "
            "orbit spread of M members that of GP(μ, Σ/M), on training, test and foreign spins?",
            module="equitangents.studies.ising.study",
            page="equitangents.studies.ising.page",
        ),
        StudyInfo(
            name="rotated-images",
            title="Predictions on rotated images",
            source=_EMERGENT,
            presets=("quick", "desk", "paper"),
            summary="CNNs trained on rotated images: how often members, their mean and the infinitely wide ensemble "
            "predict the same for all rotations of an image, in and out of distribution.",
            module="equitangents.studies.rotated_images.study",
            page="equitangents.studies.rotated_images.page",
        ),
        StudyInfo(
            name="comparison",
            title="Which way to an invariant classifier",
            source=_EMERGENT,
            presets=("quick", "desk", "paper"),
            summary="One network, augmented ones, ensembles, group-convolutional networks, canonicalisation, averaging "
            "at test time and kernels, side by side: accuracy and invariance against cost, also on your own images.",
            module="equitangents.studies.comparison.study",
            page="equitangents.studies.comparison.page",
        ),
        StudyInfo(
            name="mlp-to-gcnn",
            title="Augmented MLPs are group-convolutional networks",
            source=_KERNELS,
            presets=("quick", "paper"),
            summary="Mean predictions of augmented MLPs and of group-convolutional networks without augmentation: are "
            "they equal at infinite width, for frozen finite kernels, and in the limit for trained networks?",
            module="equitangents.studies.mlp_to_gcnn.study",
            page="equitangents.studies.mlp_to_gcnn.page",
        ),
        StudyInfo(
            name="cross-product",
            title="Two vectors and their cross product",
            source=_EMERGENT,
            presets=("quick", "paper"),
            summary="MLPs learn vectors that turn with the inputs, under the rotation groups of the regular solids: "
            "equivariance of mean and covariance, in closed form and of trained ensembles, on and off the data.",
            module="equitangents.studies.cross_product.study",
            page="equitangents.studies.cross_product.page",
        ),
        StudyInfo(
            name="continuous",
            title="A continuous group sampled by finite ones",
            source=_EMERGENT,
            presets=("quick", "paper"),
            summary="Images augmented with C2 to C32 and turned by any angle: the change against the bound of Lemma "
            "6.2, with exact rotations of rings and with resampled pixels beside their floor.",
            module="equitangents.studies.continuous.study",
            page="equitangents.studies.continuous.page",
        ),
        StudyInfo(
            name="sampling",
            title="How to spend a budget of augmented samples",
            source=_EMERGENT,
            presets=("quick", "paper"),
            summary="Complete augmentation against subgroups, random, partial and importance-sampled group elements at "
            "a fixed budget: how much does the mean change over orbits, and does that grow in training?",
            module="equitangents.studies.sampling.study",
            page="equitangents.studies.sampling.page",
        ),
        StudyInfo(
            name="finite-width",
            title="What the violation of a finite ensemble consists of",
            source=_EMERGENT,
            presets=("quick", "paper"),
            summary="Size of the violation against width and members, with fitted exponents: how much of it is due to "
            "finitely many members, to finite width and to incomplete augmentation?",
            module="equitangents.studies.finite_width.study",
            page="equitangents.studies.finite_width.page",
        ),
        StudyInfo(
            name="other-ensembles",
            title="Ensembles beyond plain averaging",
            source=_EMERGENT,
            presets=("quick", "paper"),
            summary="Bayesian posteriors, random priors, bagging, snapshots and boosting: which are invariant in "
            "expectation, which come close to it as they grow, and why.",
            module="equitangents.studies.other_ensembles.study",
            page="equitangents.studies.other_ensembles.page",
        ),
        StudyInfo(
            name="molecules",
            title="Energies of molecules from kernels invariant under rotations",
            source=_KERNELS,
            presets=("quick", "paper"),
            summary="Learning curves of atomization energies: the SO(3) kernel on what atoms see, an MLP kernel on the "
            "same signals, Coulomb matrices and SOAP; what turning and renumbering molecules changes.",
            module="equitangents.studies.molecules.study",
            page="equitangents.studies.molecules.page",
        ),
        StudyInfo(
            name="forces",
            title="Energies, forces and dipoles from one kernel",
            source=_KERNELS,
            presets=("quick", "paper"),
            summary="Energies and forces learnt from energies, from forces and from both; forces against differences, "
            "free of curl, equivariant; tensors of water from equivariant readouts.",
            module="equitangents.studies.forces.study",
            page="equitangents.studies.forces.page",
        ),
        StudyInfo(
            name="kernel-convergence",
            title="Kernels of random networks against the analytic ones",
            source=_KERNELS,
            presets=("quick", "paper"),
            summary="Monte Carlo kernels of group-convolutional networks of growing width, on the plane and on the "
            "sphere: do they converge to the analytic NNGP and NTK, and at the expected rate?",
            module="equitangents.studies.kernel_convergence.study",
            page="equitangents.studies.kernel_convergence.page",
        ),
    )
}

_added: dict[str, tuple[Any, Any]] = {}


def add(info: StudyInfo, study: Study[Any, Any], present: Present) -> None:
    """Make a study of one's own known, so that `run(info.name)` runs it.

    Example: `add(StudyInfo("coin", "A coin", "nobody", ("quick",), "Is it fair?", __name__), STUDY, present)`
    """
    registry[info.name] = info
    _added[info.name] = (study, present)


def load(info: StudyInfo) -> tuple[Study[Any, Any], Present]:
    """The study and what presents it."""
    if info.name in _added:
        return _added[info.name]
    study = importlib.import_module(info.module).STUDY
    return study, importlib.import_module(info.page).present if info.page else study.present
