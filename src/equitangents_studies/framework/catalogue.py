"""Every study by name. Importable in a moment: nothing but the standard library is loaded here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from equitangents_studies.framework import works

if TYPE_CHECKING:
    from equitangents_studies.framework.study import Present, Study

_EMERGENT = f"Gerken & Kessel 2024, {works.EMERGENT_EQUIVARIANCE}"
_KERNELS = f"Misof, Kessel & Gerken 2024, {works.EQUIVARIANT_KERNELS}"
_SYNERGY = f"Xiao & Pennington 2022, {works.SYNERGY_AND_SYMMETRY}"
_WITH_DESK = ("quick", "desk", "paper")


@dataclass(frozen=True)
class StudyInfo:
    """What `equitangents list` shows of a study, and the module with its `STUDY` and its `present`."""

    name: str
    title: str
    source: str
    presets: tuple[str, ...]
    summary: str
    module: str


def _shipped(
    name: str,
    title: str,
    source: str,
    summary: str,
    presets: tuple[str, ...] = _WITH_DESK,
    file: str = "",
) -> StudyInfo:
    """A study that comes with the package, in the module of its name, or in a `file` of that folder."""
    module = f"equitangents_studies.{name.replace('-', '_')}.{file}".rstrip(".")
    return StudyInfo(name, title, source, presets, summary, module)


registry: dict[str, StudyInfo] = {
    info.name: info
    for info in (
        _shipped(
            "toy",
            "An invariant function on the plane",
            _EMERGENT,
            "MLPs learn a function invariant under rotations: are members invariant, is their mean, at "
            "initialisation and after 1, 2, 3 and 2000 steps?",
        ),
        _shipped(
            "ising",
            "Energies of the two-dimensional Ising model",
            _EMERGENT,
            "Ensembles of MLPs of growing width against the closed form: do their means converge, and is the "
            "orbit spread of M members that of GP(μ, Σ/M), on training, test and foreign spins?",
        ),
        _shipped(
            "rotated-images",
            "Predictions on rotated images",
            _EMERGENT,
            "CNNs trained on rotated images: how often members, their mean and the infinitely wide ensemble "
            "predict the same for all rotations of an image, in and out of distribution.",
            file="study",
        ),
        _shipped(
            "predicted-agreement",
            "Agreement over orbits, predicted and trained",
            _EMERGENT,
            "CNNs of growing width and ensembles of growing size, against the infinitely wide ensemble trained on the "
            "same images: does it tell how often they predict the same over an orbit, and does that get better with "
            "width?",
        ),
        _shipped(
            "comparison",
            "Which way to an invariant classifier",
            _EMERGENT,
            "One network, augmented ones, ensembles, group-convolutional networks, canonicalisation, averaging at "
            "test time and kernels, side by side: accuracy and invariance against cost, also on your own images.",
            (*_WITH_DESK, "desk-c8", "desk-c16"),
            file="page",
        ),
        StudyInfo(
            "histology",
            "Predictions on rotated tissue",
            _EMERGENT,
            ("quick", "desk", "desk-pooled", "paper"),
            "CNNs trained on colorectal tiles in four orientations: how often members, their mean and the "
            "infinitely wide ensemble predict the same for all rotations, on tissue and on foreign images.",
            "equitangents_studies.rotated_images.histology",
        ),
        _shipped(
            "mlp-to-gcnn",
            "Augmented MLPs are group-convolutional networks",
            _KERNELS,
            "Mean predictions of augmented MLPs and of group-convolutional networks without augmentation: are "
            "they equal at infinite width and any depth, for frozen finite kernels, and in the limit for trained ones?",
        ),
        _shipped(
            "augmented-cnn-to-gcnn",
            "Augmented CNNs are group-convolutional networks",
            _KERNELS,
            "Mean predictions of augmented CNNs and of group-convolutional networks without augmentation: how their "
            "distance falls with members and width, at all times, in and out of distribution.",
        ),
        _shipped(
            "cross-product",
            "Two vectors and their cross product",
            _EMERGENT,
            "MLPs learn vectors that turn with the inputs, under the rotation groups of the regular solids: "
            "equivariance of mean and covariance, in closed form and of trained ensembles, on and off the data.",
        ),
        _shipped(
            "continuous",
            "A continuous group sampled by finite ones",
            _EMERGENT,
            "Images augmented with C2 to C32 and turned by any angle: the change against the bound of Lemma 6.2, on "
            "rings and on pixels beside their floor; ensembles of CNNs at all angles.",
        ),
        _shipped(
            "sampling",
            "How to spend a budget of augmented samples",
            _EMERGENT,
            "Complete augmentation against subgroups, random, partial and importance-sampled group elements at a fixed "
            "budget, in closed form; systematic against random elements in trained ensembles, with accuracy.",
        ),
        _shipped(
            "finite-width",
            "What the violation of a finite ensemble consists of",
            _EMERGENT,
            "Size of the violation of MLPs, CNNs and group-convolutional networks against width and members, on two "
            "tasks: how much is due to finitely many members, to finite width and to incomplete augmentation?",
        ),
        _shipped(
            "other-ensembles",
            "Ensembles beyond plain averaging",
            _EMERGENT,
            "Bayesian posteriors, random priors, bagging: which are invariant in expectation, which come close to it "
            "as they grow?",
        ),
        _shipped(
            "medical-kernels",
            "Tissue classified by kernels with and without symmetry",
            _KERNELS,
            "Colorectal tiles, a growing training set: the kernel of a CNN against those of networks invariant under "
            "turns and reflections (C4, D4), which is also what a CNN learns from turned copies.",
        ),
        _shipped(
            "molecules",
            "Energies of molecules from kernels invariant under rotations",
            _KERNELS,
            "Learning curves of atomization energies: the SO(3) kernel on what atoms see, an MLP kernel on the "
            "same signals, Coulomb matrices and SOAP; what turning and renumbering molecules changes.",
        ),
        _shipped(
            "forces",
            "Energies, forces and dipoles from one kernel",
            _KERNELS,
            "Energies and forces learnt from energies, from forces and from both; forces against differences, "
            "free of curl, equivariant; tensors of water from equivariant readouts.",
        ),
        _shipped(
            "kernel-convergence",
            "Kernels of random networks against the analytic ones",
            _KERNELS,
            "Monte Carlo kernels of group-convolutional networks of growing width, on the plane and on the "
            "sphere: do they converge to the analytic NNGP and NTK, and at the expected rate?",
        ),
        _shipped(
            "symmetry-groups",
            "Which learning algorithm is symmetric under which group",
            _SYNERGY,
            "FCN, LCN, VEC, GAP and LAP under rotations of channels or of all coordinates, and permutations: do "
            "predictions stay when training and test images are moved together, at infinite and finite width?",
        ),
        _shipped(
            "spurious-symmetries",
            "What symmetries cost that the data lack",
            _SYNERGY,
            "Six architectures as NTK and as trained networks on images moved by five groups: does accuracy fall with "
            "the group, through the data and through the model, is the NTK ahead then, and how many samples does it "
            "cost?",
            file="page",
        ),
        _shipped(
            "finite-width-vec",
            "VEC between its symmetries at finite and infinite width",
            _SYNERGY,
            "VEC of growing width on images as they are and with channels rotated at every position: at which width is "
            "it best, what does the rotation cost, and does that cost vanish in the limit?",
        ),
        _shipped(
            "symmetry-breaking-path",
            "A symmetry broken step by step",
            _SYNERGY,
            "Images moved along a path into O(3)^d: does VEC of finite width go away from GAP and towards infinitely "
            "wide VEC? S-Dist with and without the bias of finite ensembles.",
        ),
        _shipped(
            "gaussian-vs-uniform",
            "The law of the first layer",
            _SYNERGY,
            "Fully connected networks with a Gaussian or a uniform first layer, on images moved by permutations and "
            "rotations of all coordinates: which symmetries are left, and does accuracy notice?",
        ),
        _shipped(
            "learning-curves",
            "Learning curves, their exponents and what predicts them",
            _SYNERGY,
            "Errors of infinitely wide networks against training size, on images as they are and rotated: exponents "
            "and cusps with intervals, whether exponents grow with data, and what the kernel’s spectrum predicts.",
            (*_WITH_DESK, "full", "features", "pooled", "networks"),
            file="page",
        ),
        _shipped(
            "imagenet-scale",
            "Learning curves on a folder of images",
            _SYNERGY,
            "ResNets and an MLP-Mixer on images read from files, as they are and with channels rotated at every "
            "position: exponents of learning curves before and after their cusp, and where the cusp lies.",
            file="study",
        ),
        _shipped(
            "spectra",
            "How many samples a symmetry is worth",
            _KERNELS,
            "Spectra of kernels by irrep, conditioning of equivariant and plain kernels, and by what factor the right "
            "group, a subgroup and a wrong one change the samples needed, measured and predicted.",
        ),
        _shipped(
            "moving-outputs",
            "Outputs that move with their inputs",
            _KERNELS,
            "Masks that turn with images, flows whose vectors turn with the grid, the element that turned a template: "
            "how many inputs the right group saves, and equivariance at every time, on and off the data.",
            (*_WITH_DESK, "flows-quick", "flows-desk", "flows-paper", "turns-quick", "turns-desk", "turns-paper"),
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
    module = importlib.import_module(info.module)
    return module.STUDY, module.present


def lookup(name: str, preset: str) -> StudyInfo:
    """The study of that name; InvalidArgumentError, with what was perhaps meant, where it or its preset is not known.

    >>> lookup("toi", "quick")
    Traceback (most recent call last):
    equitangents.errors.InvalidArgumentError: study is 'toi'; expected ...; did you mean 'toy'?
    """
    from equitangents.extending import unknown

    if name not in registry:
        raise unknown("study", name, registry)
    info = registry[name]
    if preset not in info.presets:
        raise unknown("preset", preset, info.presets)
    return info
