"""Molecules with energies, forces and tensors: from files of a folder, and those that ship with ASE.

Units are ASE's throughout: ångström, eV, eV/Å; dipoles and polarisabilities in atomic units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError
from equitangents.extending import read_named, require
from equitangents_studies.data.folder import MOLECULE_SOURCES, DataSource, file_of

if TYPE_CHECKING:
    from equitangents.molecules import Molecules

EV_PER_HARTREE = 27.211386
KCAL_PER_EV = 23.060548  # kcal/mol

TRAJECTORIES = ("aspirin", "benzene", "ethanol", "malonaldehyde", "toluene")
WATER = ("monomer", "dimer", "zundel")

_G2_CITATION = (
    "L. A. Curtiss, K. Raghavachari, P. C. Redfern and J. A. Pople, Assessment of Gaussian-2 and density functional "
    "theories for the computation of enthalpies of formation, J. Chem. Phys. 106, 1063 (1997)."
)


@dataclass(frozen=True, eq=False)
class MoleculeSet:
    """N molecules of at most A atoms and their properties; None: unknown.

    `energies` (N,) in eV; `forces` (N, A, 3) in eV/Å, 0 where there is no atom; `dipoles` (N, 3) and `polarizabilities`
    (N, 3, 3) in atomic units. `label` names the kind of energy.
    """

    name: str
    molecules: Molecules
    energies: Float[np.ndarray, " n"]
    label: str
    citation: str = ""
    forces: Float[np.ndarray, "n atoms 3"] | None = None
    dipoles: Float[np.ndarray, "n 3"] | None = None
    polarizabilities: Float[np.ndarray, "n 3 3"] | None = None

    def __len__(self) -> int:
        return len(self.molecules)

    def __getitem__(self, index: Any) -> MoleculeSet:
        """Some of the molecules, by a slice, a mask or indices."""
        part = lambda x: None if x is None else x[index]
        return replace(
            self,
            molecules=self.molecules[index],
            energies=self.energies[index],
            forces=part(self.forces),
            dipoles=part(self.dipoles),
            polarizabilities=part(self.polarizabilities),
        )


def load_molecules(
    name: Literal["g2", "qm7", "qm9"], data_dir: str | Path | None = None, *, count: int | None = None, seed: int = 0
) -> MoleculeSet:
    """Molecules at rest with their atomization energies (negative); `count` of them, chosen by the seed.

    "g2" ships with ASE: 148 molecules of the G2/97 set at MP2 geometries, with electronic energies from experimental
    heats of formation less computed vibrational and thermal energies, as tabulated there. "qm7" and "qm9" are read from
    `<name>.npz` in `data_dir`, or in the folder named by EQUITANGENTS_DATA.

    Raises:
        DataNotFoundError: The file is missing.
        MissingLibraryError: ASE is missing.
        InvalidArgumentError: The name is unknown, the file malformed, or there are fewer molecules than `count`.

    Example:
        >>> found = load_molecules("g2", count=20)
        >>> len(found), found.energies.shape
        (20, (20,))
    """
    if name == "g2":
        return _chosen(g2(), count, seed)
    if name not in ("qm7", "qm9"):
        raise InvalidArgumentError("set of molecules", name, ["g2", "qm7", "qm9"])
    key, unit, label = {
        "qm9": ("U0_atomization", EV_PER_HARTREE, "atomization energy at 0 K, B3LYP/6-31G(2df,p)"),
        "qm7": ("energy_pbe0", 1 / KCAL_PER_EV, "atomization energy, PBE0"),
    }[name]
    source = MOLECULE_SOURCES[name]
    arrays = _arrays(source, data_dir, ["Z", "pos", key] + (["dipole"] if name == "qm9" else []))
    whole = MoleculeSet(
        name,
        _molecules(arrays["Z"], arrays["pos"]),
        arrays[key] * unit,
        label,
        source.citation,
        dipoles=arrays["dipole"].astype(np.float64) if name == "qm9" else None,
    )
    return _chosen(whole, count, seed)


def g2() -> MoleculeSet:
    """The G2/97 molecules that ship with ASE, with electronic atomization energies from experiment."""
    from equitangents.molecules import Molecules

    molecule = require("ase.build", "studies", "the data set g2").molecule
    tables = require("ase.data.g2", "studies", "the data set g2")
    names = list(tables.molecule_names)
    return MoleculeSet(
        "g2",
        Molecules.from_ase([molecule(name) for name in names]),
        np.array([_g2_energy(tables.data, name) for name in names]),
        "experimental atomization energy without vibrations",
        _G2_CITATION,
    )


def _g2_energy(data: Any, name: str) -> float:
    """Minus the atomization energy without vibrations, in eV; tables are in kcal/mol at 298 K.

    ΔH_f(298 K) - [H(298) - H(0)] - ZPE of the molecule, less ΔH_f(0 K) - [H(298) - H(0)] of its atoms, whose brackets
    are those of the elements' standard states.
    """
    from ase.symbols import string2symbols

    entry = data[name]
    atoms = sum(data[s]["enthalpy"] - data[s]["thermal correction"] for s in string2symbols(entry["symbols"]))
    return float(entry["enthalpy"] - entry["thermal correction"] - entry["ZPE"] - atoms) / KCAL_PER_EV


def load_trajectory(molecule: str, data_dir: str | Path | None = None) -> tuple[MoleculeSet, MoleculeSet]:
    """(Training, test) frames of one molecule of `rmd17.npz`, total energies and forces; 1,000 of each.

    `molecule` is "aspirin", "benzene", "ethanol", "malonaldehyde" or "toluene". Errors as of `load_molecules`.
    """
    if molecule not in TRAJECTORIES:
        raise InvalidArgumentError("molecule", molecule, list(TRAJECTORIES))
    source = MOLECULE_SOURCES["rmd17"]
    keys = [f"{molecule}_{part}_{what}" for part in ("train", "test") for what in ("pos", "forces", "energy")]
    arrays = _arrays(source, data_dir, [f"{molecule}_Z", *keys])

    def part(which: str) -> MoleculeSet:
        return MoleculeSet(
            molecule,
            _molecules(arrays[f"{molecule}_Z"], arrays[f"{molecule}_{which}_pos"]),
            arrays[f"{molecule}_{which}_energy"] / KCAL_PER_EV,
            "total energy, PBE/def2-SVP",
            source.citation,
            forces=arrays[f"{molecule}_{which}_forces"].astype(np.float64) / KCAL_PER_EV,
        )

    return part("train"), part("test")


def load_water(system: str = "monomer", data_dir: str | Path | None = None) -> MoleculeSet:
    """1,000 geometries of "monomer" (H2O), "dimer" or "zundel" (H5O2+) of `water_tensors.npz`, with tensors.

    The cation's dipole is about its centre of mass, the origin of its positions. Errors as of `load_molecules`.
    """
    if system not in WATER:
        raise InvalidArgumentError("system", system, list(WATER))
    source = MOLECULE_SOURCES["water_tensors"]
    keys = [f"{system}_{what}" for what in ("Z", "pos", "energy", "dipole", "polarizability")]
    z, x, energy, dipole, polarizability = _arrays(source, data_dir, keys).values()
    return MoleculeSet(
        f"water {system}",
        _molecules(z, x),
        energy * EV_PER_HARTREE,
        "total energy",
        source.citation,
        dipoles=dipole.astype(np.float64),
        polarizabilities=polarizability.astype(np.float64),
    )


def _molecules(z: np.ndarray, x: np.ndarray) -> Molecules:
    """Molecules from atomic numbers z, (N, A) or (A,) for all, and positions x (N, A, 3)."""
    from equitangents.molecules import Molecules  # which starts JAX

    return Molecules(np.broadcast_to(z.astype(int), x.shape[:2]), x.astype(np.float64))


def _arrays(source: DataSource, data_dir: str | Path | None, keys: Sequence[str]) -> dict[str, np.ndarray]:
    arrays = read_named("data", file_of(source, data_dir), keys)
    return {key: arrays[key] for key in keys}


def _chosen(whole: MoleculeSet, count: int | None, seed: int) -> MoleculeSet:
    if count is None:
        return whole
    if not 0 < count <= len(whole):
        raise InvalidArgumentError("count", count, range(1, len(whole) + 1), whole.name)
    return whole[np.random.default_rng(seed).permutation(len(whole))[:count]]
