"""Energies and forces learnt together, and forces that are minus the gradient of the energy whatever was learnt from.

Beyond the source: the kernel differentiated in the positions is the covariance of forces, so that an infinitely wide
network learns from energies, from forces or from both; and dipoles and polarisabilities of water from equivariant
readouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from equitangents import data, nn
from equitangents.data.molecules import TRAJECTORIES
from equitangents.errors import MissingLibraryError
from equitangents.groups import so3
from equitangents.molecules import AtomSignals, MoleculeRegressor, Molecules
from equitangents.report.verdict import Verdict
from equitangents.statistics import Estimate, bootstrap, exactly
from equitangents.studies.common.molecule_kernels import mean_square, so3_network
from equitangents.studies.forces import water_tensors
from equitangents.studies.forces.water_tensors import KINDS, WaterSettings, WaterTensors
from equitangents.studies.framework.citations import EQUIVARIANT_KERNELS
from equitangents.studies.framework.compatibility import Presentation, Study, judge
from equitangents.studies.framework.folder import Arrays, RunFolder
from equitangents.studies.framework.progress import Task
from equitangents.studies.framework.settings import check

TARGETS = ("energies", "forces", "both")


@dataclass(frozen=True)
class Settings:
    """`molecule` "methanol" has toy energies of ASE's effective medium theory at geometries displaced by `displacement`
    (Å, standard deviation of every coordinate); others are frames of rMD17. `scale` is the root mean square of signals
    after the first layer. Where there is a file, dipoles and polarisabilities of `water` ("monomer", "dimer", "zundel")
    are learnt from `water_sizes` molecules and tested on `water_test`.
    """

    molecule: str = "methanol"
    sizes: tuple[int, ...] = (2, 4, 8)
    test: int = 6
    displacement: float = 0.05
    bandlimit: int = 2
    scale: float = 0.5
    tolerance: float = 1e-6
    ridge: float = 1e-4
    turns: int = 3
    water: str = "monomer"
    water_sizes: tuple[int, ...] = (5, 10, 20, 40)
    water_test: int = 30
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "paper": Settings(
        molecule="ethanol", sizes=(5, 10, 20, 50, 100), test=100, bandlimit=4, tolerance=1e-7, ridge=1e-6, turns=10,
        water_sizes=(10, 25, 50, 100, 250), water_test=200,
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Results:
    """Absolute errors on test frames by target: `energies` (sizes, frames) in eV, `forces` the same in eV/Å, mean over
    components. `gradient`, `curl`, `turned_energies`, `turned_forces`: relative violations of what must hold.
    `water` holds what was measured on dipoles and polarisabilities of water, and is empty without a file. `spread` is
    the mean absolute deviation of (energies, force components) from their mean.
    """

    energies: dict[str, np.ndarray]
    forces: dict[str, np.ndarray]
    gradient: float
    curl: float
    turned_energies: float
    turned_forces: float
    spread: tuple[float, float]
    label: str
    water: dict[str, WaterTensors]


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Three ways of training at every size, laws of the largest, and dipoles of water."""
    known = ("methanol", *TRAJECTORIES)
    check(settings.molecule in known, "molecule", settings.molecule, f"one of {', '.join(known)}")
    check(len(settings.sizes) >= 2 and min(settings.sizes) >= 2, "sizes", settings.sizes, "two sizes, of 2 or more")
    check(settings.test >= 2, "test", settings.test, "at least 2")
    train, test = frames(settings, folder)
    found = {
        (target, size): folder.stage(
            f"{target}-{size}", f"From {target}, {size} frames", partial(_learn, settings, train[:size], test, target)
        )
        for target in TARGETS
        for size in settings.sizes
    }
    laws = folder.stage("laws", "Laws of forces", partial(_laws, settings, train[: settings.sizes[-1]], test))
    table = lambda what: {t: np.stack([found[t, n][what] for n in settings.sizes]) for t in TARGETS}
    water: dict[str, WaterTensors] = {}
    if settings.water_sizes and data.molecules_available("water_tensors", folder.data_dir):
        of_water = WaterSettings(
            settings.water, settings.water_sizes, settings.water_test,
            settings.bandlimit, settings.scale, settings.tolerance, settings.seed,
        )  # fmt: skip
        water = {kind: water_tensors.measure(kind, of_water, folder) for kind in KINDS}
    spread = tuple(float(np.abs(v - v.mean()).mean()) for v in (test.energies, _forces(test)))
    return Results(
        energies=table("energies"),
        forces=table("forces"),
        gradient=float(laws["gradient"]),
        curl=float(laws["curl"]),
        turned_energies=float(laws["energies"]),
        turned_forces=float(laws["forces"]),
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
    check(settings.sizes[-1] <= len(train), "sizes", settings.sizes, f"at most {len(train)}")
    check(settings.test <= len(test), "test", settings.test, f"at most {len(test)}")
    return (part[rng.permutation(len(part))[:n]] for part, n in ((train, settings.sizes[-1]), (test, settings.test)))  # type: ignore[return-value]


def toy_frames(count: int, displacement: float, rng: np.random.Generator) -> data.MoleculeSet:
    """Displaced methanol with the energies and forces of ASE's EMT: smooth, but no chemistry."""
    try:
        from ase.build import molecule
        from ase.calculators.emt import EMT
    except ImportError:
        raise MissingLibraryError("the toy energies need ASE: pip install 'equitangents[molecules]'") from None
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
        "energies": np.array(np.abs(turned.energies - found.energies).max() / test.energies.std()),
        "forces": np.array(np.abs(turned.forces - expected).max() / np.abs(force).max()),
    }


def error_ratio(a: np.ndarray, b: np.ndarray) -> Estimate:
    """Mean of a over mean of b, paired over test frames."""
    return bootstrap(np.stack([a, b], axis=1), lambda m: m[:, 0] / m[:, 1])


def claims(settings: Settings, results: Results) -> Sequence[Verdict]:
    """What forces add, and what holds by construction."""
    ratio = "Mean absolute error of the first over that of the second, paired over test frames."
    theory = "by construction"
    turned = {"energies": exactly(results.turned_energies), "forces": exactly(results.turned_forces)}
    turned |= {f"{kind} of water": exactly(found.turned) for kind, found in results.water.items()}
    verdicts = [
        judge(
            f"With {settings.sizes[-1]} frames, forces are predicted better after training on both than on energies",
            {"": error_ratio(results.forces["both"][-1], results.forces["energies"][-1])},
            measure=ratio,
            at_most=1,
            source="our question",
        ),
        judge(
            "and energies too",
            {"": error_ratio(results.energies["both"][-1], results.energies["energies"][-1])},
            measure=ratio,
            at_most=1,
            source="our question",
        ),
        judge(
            "Predicted forces are minus the gradient of predicted energies",
            {"": exactly(results.gradient)},
            measure="Largest difference from central differences, relative to the largest force.",
            at_most=1e-6,
            source=theory,
        ),
        judge(
            "and free of curl",
            {"": exactly(results.curl)},
            measure="Largest asymmetry of ∂F/∂x, by central differences, relative to the largest derivative.",
            at_most=1e-6,
            source=theory,
        ),
        judge(
            "Turning a molecule leaves its energy and turns its forces",
            turned,
            measure="Largest deviation, relative to the energies’ standard deviation, the largest force or tensor.",
            at_most=0.01,
            source="theory, up to the quadrature over rotations; the bound is our choice",
        ),
    ]
    if results.water:
        verdicts.append(
            judge(
                f"With {settings.water_sizes[-1]} molecules, tensors of water are predicted better than by fixed "
                "charges and a constant",
                {kind: found.ratio() for kind, found in results.water.items()},
                measure="Mean absolute error over that of the simplest model that turns as it must: dipoles of one "
                "charge for each element, the mean polarisability times the identity; paired over test molecules.",
                at_most=1,
                source="our question",
            )
        )
    return verdicts


def _present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    from equitangents.studies.forces.page import present  # which imports from here

    return present(settings, results, verdicts, folder)


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, _present, (EQUIVARIANT_KERNELS,))
