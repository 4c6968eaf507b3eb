"""Figures, tables and theorems of the three works, and the command that makes each. Loads nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from equitangents.errors import InvalidArgumentError


@dataclass(frozen=True)
class Place:
    """An `item` of a work, the words after `equitangents reproduce`, and the published `run` that shows it."""

    item: str
    command: str
    run: str


def _desk(item: str, study: str, words: str = "", run: str = "", preset: str = "desk") -> Place:
    return Place(item, f"{study} --preset {preset} {words}".strip(), run or study)


_FILES = "--data-dir FOLDER"

PLACES: dict[str, tuple[Place, ...]] = {
    "2403.03103": (
        _desk("invariant function on the plane: members and their mean", "toy"),
        _desk("transformation of kernels, permutation shift, μ_t and Σ_t", "cross-product"),
        _desk("Ising model: widths, relative orbit standard deviation", "ising"),
        _desk("Fashion-MNIST: agreement over orbits during training", "rotated-images"),
        _desk("histology: agreement over orbits during training", "histology", preset="desk-pooled"),
        _desk("agreement that infinite width predicts", "predicted-agreement"),
        _desk("continuous groups, Lemma 6.2", "continuous"),
        _desk("comparison with other methods, C4", "comparison"),
        _desk("the same, C8", "comparison", run="comparison-C8", preset="desk-c8"),
        _desk("the same, C16", "comparison", run="comparison-C16", preset="desk-c16"),
        _desk("systematic or random elements", "sampling"),
        _desk("open question: finite width", "finite-width"),
        _desk("open question: other ensembles", "other-ensembles"),
    ),
    "2406.06504": (
        _desk("convergence of kernels with width", "kernel-convergence"),
        _desk("Theorems 5.1 to 5.3", "mlp-to-gcnn"),
        _desk("augmented CNNs and group convolutions, MNIST", "augmented-cnn-to-gcnn"),
        _desk(
            "the same, histology", "augmented-cnn-to-gcnn", f"--set data=histology_crc5 {_FILES}",
            "augmented-cnn-to-gcnn-tissue",
        ),
        _desk("kernels on medical images", "medical-kernels"),
        _desk("QM9: errors against training size", "molecules"),
        _desk("review: vectors and tensors", "forces"),
        _desk("review: spectra", "spectra"),
    ),
    "2207.04612": (
        _desk("Theorems 3.1 and 4.1", "symmetry-groups"),
        _desk("Figure 2", "spurious-symmetries"),
        _desk("Figure 2: VEC at infinite width after 45,000 images", "learning-curves", _FILES, preset="full"),
        _desk(
            "Figure 2: GAP at infinite width, by random features", "learning-curves", _FILES,
            "learning-curves-GAP-features", "features",
        ),
        _desk("Figure 3", "finite-width-vec", _FILES),
        _desk(
            "Figures 4 and S6", "learning-curves", f"--set networks=VEC --set members=5 {_FILES}",
            "learning-curves-networks", "networks",
        ),
        _desk("Figure 5", "imagenet-scale"),
        _desk("Figure S1", "symmetry-breaking-path"),
        _desk("Figure S5", "gaussian-vs-uniform"),
    ),
}  # fmt: skip


def places(work: str) -> tuple[Place, ...] | None:
    """What `work`, by its number on arXiv, shows; None for what is no such number.

    Raises InvalidArgumentError for another work.
    """
    found = re.fullmatch(r"(?:arXiv[: ]?)?(\d{4}\.\d{4,5})", work, re.IGNORECASE)
    if found is None:
        return None
    if found[1] not in PLACES:
        raise InvalidArgumentError("study", work, [f"arXiv {known}" for known in PLACES])
    return PLACES[found[1]]
