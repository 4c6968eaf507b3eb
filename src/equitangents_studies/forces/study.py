"""Energies and forces learnt together, and forces that are minus the gradient of the energy whatever was learnt from.

Beyond the source: the kernel differentiated in the positions is the covariance of forces, so that an infinitely wide
network learns from energies, from forces or from both; and dipoles and polarisabilities of water from equivariant
readouts.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents import nn
from equitangents.errors import MissingLibraryError
from equitangents.groups import so3
from equitangents.molecules import AtomSignals, MoleculeRegressor, Molecules
from equitangents_studies import data
from equitangents_studies.common.molecule_kernels import mean_square, so3_network
from equitangents_studies.data.molecules import TRAJECTORIES
from equitangents_studies.forces import water_tensors
from equitangents_studies.forces.claims import claims
from equitangents_studies.forces.results import TARGETS, Results
from equitangents_studies.forces.settings import PRESETS, Settings
from equitangents_studies.forces.water_tensors import KINDS, WaterSettings
from equitangents_studies.framework.citations import EQUIVARIANT_KERNELS
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """A molecule that is known, frames enough, and files that can be read."""
    known = ("methanol", *TRAJECTORIES)
    check(settings.molecule in known, "molecule", settings.molecule, f"one of {', '.join(known)}")
    check(len(settings.sizes) >= 2 and min(settings.sizes) >= 2, "sizes", settings.sizes, "two sizes, of 2 or more")
    at_least(settings, test=2, turns=1)
    if settings.molecule == "methanol":
        toy_frames(1, settings.displacement, np.random.default_rng(0))
    else:
        train, test = data.load_trajectory(settings.molecule, data_dir)
        check(settings.sizes[-1] <= len(train), "sizes", settings.sizes, f"at most {len(train)}")
        check(settings.test <= len(test), "test", settings.test, f"at most {len(test)}")
    if _has_water(settings, data_dir):
        water_tensors.check_settings(_of_water(settings), data_dir)


def _has_water(settings: Settings, data_dir: Path | None) -> bool:
    return bool(settings.water_sizes) and data.molecules_available("water_tensors", data_dir)


def _of_water(settings: Settings) -> WaterSettings:
    return WaterSettings(
        settings.water, settings.water_sizes, settings.water_test,
        settings.bandlimit, settings.scale, settings.tolerance, settings.seed,
    )  # fmt: skip


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Three ways of training at every size, laws of the largest, and dipoles of water."""
    train, test = frames(settings, folder)
    work: dict[Any, Stage] = {
        (target, size): Stage(
            f"{target}-{size}", f"From {target}, {size} frames", partial(_learn, settings, train[:size], test, target)
        )
        for target in TARGETS
        for size in settings.sizes
    }
    work["laws"] = Stage("laws", "Laws of forces", partial(_laws, settings, train[: settings.sizes[-1]], test))
    if _has_water(settings, folder.data_dir):
        work |= {kind: water_tensors.stage(kind, _of_water(settings), folder.data_dir) for kind in KINDS}
    found = folder.stages(work)
    laws = found["laws"]
    table = lambda what: {t: np.stack([found[t, n][what] for n in settings.sizes]) for t in TARGETS}
    water = {kind: water_tensors.results(found[kind]) for kind in KINDS if kind in found}
    spread = tuple(float(np.abs(v - v.mean()).mean()) for v in (test.energies, _forces(test)))
    return Results(
        energies=table("energies"),
        forces=table("forces"),
        gradient=float(laws["gradient"]),
        curl=float(laws["curl"]),
        turned_energies=laws["energies"],
        turned_forces=laws["forces"],
        spread=(spread[0], spread[1]),
        label=test.label,
        water=water,
    )


def frames(settings: Settings, folder: RunFolder) -> tuple[data.MoleculeSet, data.MoleculeSet]:
    """(Training, test) frames in random order."""
    rng = np.random.default_rng(settings.seed)
    if settings.molecule == "methanol":
        whole = toy_frames(settings.sizes[-1] + settings.test, settings.displacement, rng)
        return whole[: settings.sizes[-1]], whole[settings.sizes[-1] :]
    train, test = data.load_trajectory(settings.molecule, folder.data_dir)
    return (part[rng.permutation(len(part))[:n]] for part, n in ((train, settings.sizes[-1]), (test, settings.test)))  # type: ignore[return-value]


def toy_frames(count: int, displacement: float, rng: np.random.Generator) -> data.MoleculeSet:
    """Displaced methanol with the energies and forces of ASE's EMT: smooth, but no chemistry."""
    try:
        from ase.build import molecule
        from ase.calculators.emt import EMT
    except ImportError:
        raise MissingLibraryError(
            "the toy energies need ASE: pip install 'equitangents[molecules]' (in a checkout '.[molecules]')"
        ) from None
    still, energies, forces, positions = molecule("CH3OH"), [], [], []
    for _ in range(count):
        atoms = still.copy()
        atoms.positions += displacement * rng.normal(size=atoms.positions.shape)
        atoms.calc = EMT()
        energies.append(atoms.get_potential_energy())
        forces.append(atoms.get_forces())
        positions.append(atoms.positions)
    numbers = np.tile(still.numbers, (count, 1))
    return data.MoleculeSet(
        "methanol", Molecules(numbers, np.array(positions)), np.array(energies), "toy energy of ASE's EMT",
        forces=np.array(forces),
    )  # fmt: skip


def network(settings: Settings, signals: AtomSignals, molecules: Molecules) -> nn.Sequential:
    """The invariant network, its first layer scaled to these molecules."""
    scale = settings.scale / mean_square(signals, molecules) ** 0.5
    return so3_network(settings.bandlimit, scale, settings.tolerance)


def _fitted(settings: Settings, train: data.MoleculeSet, target: str) -> MoleculeRegressor:
    signals = AtomSignals(settings.bandlimit, elements=train.molecules.elements)
    net = network(settings, signals, train.molecules)
    model = MoleculeRegressor(net, signals=signals, ridge=settings.ridge)
    energies = None if target == "forces" else train.energies
    return model.fit(train.molecules, energies, None if target == "energies" else train.forces)


def _forces(frames: data.MoleculeSet) -> np.ndarray:
    assert frames.forces is not None
    return frames.forces


def _learn(settings: Settings, train: data.MoleculeSet, test: data.MoleculeSet, target: str, task: Task) -> Arrays:
    """Errors on test frames; without energies to learn from, up to their mean on the training frames."""
    model = _fitted(settings, train, target)
    found = model.predict(test.molecules)
    energies = found.energies
    if target == "forces":
        energies = energies + (train.energies - model.predict(train.molecules).energies).mean()
    return {
        "energies": np.abs(energies - test.energies),
        "forces": np.abs(found.forces - _forces(test)).mean(axis=(1, 2)),
    }


def _laws(settings: Settings, train: data.MoleculeSet, test: data.MoleculeSet, task: Task) -> Arrays:
    """Forces against differences of energies, the asymmetry of their derivatives, and what turning does."""
    model = _fitted(settings, train, "both")
    one = test.molecules[:1]
    found = model.predict(one)
    step, size = 1e-3, one.positions[0].size
    moved = lambda h: Molecules(
        np.repeat(one.atomic_numbers, size, 0),
        one.positions + h * np.eye(size).reshape(size, *one.positions.shape[1:]),
    )
    sides = {h: model.predict(moved(h * step)) for h in (-2, -1, 1, 2)}
    slope = lambda what: (8 * (what(sides[1]) - what(sides[-1])) - (what(sides[2]) - what(sides[-2]))) / (12 * step)
    force = found.forces[0].ravel()
    gradient = np.abs(slope(lambda p: p.energies) + force).max() / np.abs(force).max()
    jacobian = slope(lambda p: p.forces.reshape(size, size))
    curl = np.abs(jacobian - jacobian.T).max() / np.abs(jacobian).max()
    turns = so3(1).random(settings.turns, seed=settings.seed)
    turned = model.predict(
        Molecules(np.repeat(one.atomic_numbers, settings.turns, 0), one.positions @ turns.swapaxes(1, 2))
    )
    expected = found.forces @ turns.swapaxes(1, 2)
    return {
        "gradient": np.array(gradient),
        "curl": np.array(curl),
        "energies": np.abs(turned.energies - found.energies) / test.energies.std(),
        "forces": np.abs(turned.forces - expected).max(axis=(1, 2)) / np.abs(force).max(),
    }


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EQUIVARIANT_KERNELS,), check_settings)
