"""Learning from energies, forces or both: predicted forces are always minus the gradient of the predicted energy.

Beyond the source: the kernel's derivative in the positions is the covariance of forces, so that an infinitely wide
network learns from energies, from forces or from both; and dipoles and polarisabilities of water from equivariant
readouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from equitangents import nn
from equitangents.extending import require
from equitangents.groups import so3
from equitangents.molecules import AtomSignals, MoleculeRegressor, Molecules, TensorRegressor
from equitangents.report import Figure, palette
from equitangents.statistics import Estimate, bootstrap, exactly
from equitangents_studies import data
from equitangents_studies.common.molecule_kernels import mean_square, so3_network
from equitangents_studies.common.scores import largest
from equitangents_studies.data.molecules import TRAJECTORIES, WATER
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EQUIVARIANT_KERNELS
from equitangents_studies.framework.claims import Claim, claim, exact, identity, ours, theirs
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets


@dataclass(frozen=True)
class ForcesSettings:
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
    rotations: int = 3
    water: str = "monomer"
    water_sizes: tuple[int, ...] = (5, 10, 20, 40)
    water_test: int = 30
    seed: int = 0


PRESETS = presets(
    ForcesSettings(),
    desk="molecule=ethanol sizes=5,10,20 test=20 tolerance=1e-7 rotations=8 water_sizes=10,25,50,100 water_test=100",
    paper="molecule=ethanol sizes=5,10,20,50,100 test=100 bandlimit=4 tolerance=1e-7 ridge=1e-6 rotations=10 "
    "water_sizes=10,25,50,100,250 water_test=200",
)


KINDS = {"dipoles": "dipole", "polarizabilities": "polarisability"}
TARGETS = ("energies", "forces", "both")


@dataclass(frozen=True, eq=False)
class WaterTensors:
    """Absolute errors of test molecules in atomic units, mean over components, (sizes, test).

    `guess` (test,) are those of the simplest equivariant model: dipoles of one charge per element, and the mean
    polarisability times the identity. `rotated`: largest equivariance error max |f(Rx) − R f(x)| over some molecules,
    relative to the largest prediction.
    """

    errors: np.ndarray
    guess: np.ndarray
    rotated: np.ndarray

    def ratio(self) -> Estimate:
        """Mean error with all molecules over that of the simplest model, paired over test molecules."""
        return bootstrap(np.stack([self.errors[-1], self.guess], axis=1), lambda m: m[:, 0] / m[:, 1])


class ForcesResults(Results):
    """Absolute errors on test frames by target: `energies` in eV, `forces` in eV/Å, mean over components. `gradient`,
    `curl`, `rotated_energies`, `rotated_forces`: relative violations of identities, the last two for every rotation.
    `water` has errors of water's dipoles and polarisabilities, and is empty without a file. `deviation` is the mean
    absolute deviation of (energies, force components) from their mean.
    """

    energies: Keyed[np.ndarray] = by("target", "size frame")
    forces: Keyed[np.ndarray] = by("target", "size frame")
    gradient: float = by("")
    curl: float = by("")
    rotated_energies: np.ndarray = by("", "rotation", of="laws.energies")
    rotated_forces: np.ndarray = by("", "rotation", of="laws.forces")
    deviation: tuple[float, float]
    water: dict[str, WaterTensors]


def error_ratio(a: np.ndarray, b: np.ndarray) -> Estimate:
    """Mean of a over mean of b, paired over test frames."""
    return bootstrap(np.stack([a, b], axis=1), lambda m: m[:, 0] / m[:, 1])


def check_settings(settings: ForcesSettings, data_dir: Path | None) -> None:
    """Require a known molecule, enough frames, and readable files."""
    known = ("methanol", *TRAJECTORIES)
    check(settings.molecule in known, "molecule", settings.molecule, list(known))
    increasing = list(settings.sizes) == sorted(set(settings.sizes)) and len(settings.sizes) >= 2
    check(increasing and settings.sizes[0] >= 2, "sizes", settings.sizes, "two or more, increasing from 2 or more")
    at_least(settings, test=2, rotations=1)
    if settings.molecule == "methanol":
        toy_frames(1, settings.displacement, np.random.default_rng(0))
    else:
        train, test = data.load_trajectory(settings.molecule, data_dir)
        check(settings.sizes[-1] <= len(train), "sizes", settings.sizes, f"at most {len(train)}")
        check(settings.test <= len(test), "test", settings.test, f"at most {len(test)}")
    if _has_water(settings, data_dir):
        check_water(settings, data_dir)


def _has_water(settings: ForcesSettings, data_dir: Path | None) -> bool:
    return bool(settings.water_sizes) and data.available("water_tensors", data_dir)


def measure(settings: ForcesSettings, folder: RunFolder) -> ForcesResults:
    """Train on three targets at every size; check identities at the largest; learn tensors of water."""
    train, test = frames(settings, folder)
    water = partial(learn_water, settings, folder.data_dir)
    found = measured(
        folder,
        Stages("{target}-{size}", "From {target}, {size} frames", partial(_learn, settings, train, test)),
        Stages("laws", "Laws of forces", partial(_laws, settings, train[: settings.sizes[-1]], test)),
        Stages("water-{tensor}", lambda kind: f"{KINDS[kind].capitalize()} of water", water),
        levels={
            "target": TARGETS,
            "size": settings.sizes,
            "tensor": tuple(KINDS) if _has_water(settings, folder.data_dir) else (),
        },
    )
    tensors = {at["tensor"]: WaterTensors(**arrays) for at, arrays in found.parts["water"]}
    energies, forces = (float(np.abs(v - v.mean()).mean()) for v in (test.energies, _forces(test)))
    return ForcesResults.read(found, deviation=(energies, forces), water=tensors)


def frames(settings: ForcesSettings, folder: RunFolder) -> tuple[data.MoleculeSet, data.MoleculeSet]:
    """(Training, test) frames in random order."""
    rng = np.random.default_rng(settings.seed)
    if settings.molecule == "methanol":
        whole = toy_frames(settings.sizes[-1] + settings.test, settings.displacement, rng)
        return whole[: settings.sizes[-1]], whole[settings.sizes[-1] :]
    train, test = data.load_trajectory(settings.molecule, folder.data_dir)
    return (part[rng.permutation(len(part))[:n]] for part, n in ((train, settings.sizes[-1]), (test, settings.test)))  # type: ignore[return-value]


def toy_frames(count: int, displacement: float, rng: np.random.Generator) -> data.MoleculeSet:
    """Displaced methanol with energies and forces of ASE's EMT: smooth, but not realistic."""
    molecule = require("ase.build", "studies", "the study forces").molecule
    EMT = require("ase.calculators.emt", "studies", "the study forces").EMT
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


def network(settings: ForcesSettings, signals: AtomSignals, molecules: Molecules) -> nn.Sequential:
    """The invariant network, its first layer scaled to these molecules."""
    scale = settings.scale / mean_square(signals, molecules) ** 0.5
    return so3_network(settings.bandlimit, scale, settings.tolerance)


def _fitted(settings: ForcesSettings, train: data.MoleculeSet, target: str) -> MoleculeRegressor:
    signals = AtomSignals(settings.bandlimit, elements=train.molecules.elements)
    net = network(settings, signals, train.molecules)
    model = MoleculeRegressor(net, signals=signals, ridge=settings.ridge)
    energies = None if target == "forces" else train.energies
    return model.fit(train.molecules, energies, None if target == "energies" else train.forces)


def _forces(frames: data.MoleculeSet) -> np.ndarray:
    assert frames.forces is not None
    return frames.forces


def _learn(
    settings: ForcesSettings, whole: data.MoleculeSet, test: data.MoleculeSet, target: str, size: int, task: Task
) -> Arrays:
    """Errors on test frames; if trained on forces only, energies are shifted to their mean on the training frames."""
    train = whole[:size]
    model = _fitted(settings, train, target)
    found = model.predict(test.molecules)
    energies = found.energies
    if target == "forces":
        energies = energies + (train.energies - model.predict(train.molecules).energies).mean()
    return {
        "energies": np.abs(energies - test.energies),
        "forces": np.abs(found.forces - _forces(test)).mean(axis=(1, 2)),
    }


def _laws(settings: ForcesSettings, train: data.MoleculeSet, test: data.MoleculeSet, task: Task) -> Arrays:
    """Forces against differences of energies, the asymmetry of their derivatives, and errors of invariance and
    equivariance under rotations.
    """
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
    rotations = so3(1).random(settings.rotations, seed=settings.seed)
    rotated = model.predict(
        Molecules(np.repeat(one.atomic_numbers, settings.rotations, 0), one.positions @ rotations.swapaxes(1, 2))
    )
    expected = found.forces @ rotations.swapaxes(1, 2)
    return {
        "gradient": np.array(gradient),
        "curl": np.array(curl),
        "energies": np.abs(rotated.energies - found.energies) / test.energies.std(),
        "forces": np.abs(rotated.forces - expected).max(axis=(1, 2)) / np.abs(force).max(),
    }


def check_water(settings: ForcesSettings, data_dir: Path | None) -> None:
    """Require a known system with enough molecules in its file."""
    s = settings
    check(s.water in WATER, "water", s.water, f"one of {', '.join(WATER)}")
    check(len(s.water_sizes) >= 2 and min(s.water_sizes) >= 2, "water_sizes", s.water_sizes, "two, of 2 or more")
    at_least(s, water_test=2)
    most = len(data.load_water(s.water, data_dir)) - s.water_test
    check(max(s.water_sizes) <= most, "water_sizes", s.water_sizes, f"at most {most}")


def rotate_tensors(tensors: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    """Rotate vectors (N, 3) or matrices (N, 3, 3) by one rotation each (N, 3, 3), or all by one (1, 3, 3)."""
    return (
        (rotations @ tensors[..., None])[..., 0]
        if tensors.ndim == 2
        else rotations @ tensors @ rotations.swapaxes(1, 2)
    )


def learn_water(settings: ForcesSettings, data_dir: Path | None, kind: str, task: Task) -> Arrays:
    """The fields of `WaterTensors` for one kind of tensor.

    Each molecule is rotated at random, so that a model that is not equivariant gains nothing from the data's frame.
    """
    whole = data.load_water(settings.water, data_dir)
    order = np.random.default_rng(settings.seed).permutation(len(whole))
    rotations = so3(1).random(len(whole), seed=settings.seed)
    molecules = whole.molecules.with_positions(whole.molecules.positions @ rotations.swapaxes(1, 2))
    y = rotate_tensors(getattr(whole, kind), rotations)
    test = order[-settings.water_test :]
    signals = AtomSignals(settings.bandlimit, elements=molecules.elements)
    errors = []
    for i, size in enumerate(settings.water_sizes):
        train = order[:size]
        net = network(settings, signals, molecules[train])
        model = TensorRegressor(net, signals=signals, ridge=10 * settings.tolerance)
        found = model.fit(molecules[train], y[train]).predict(molecules[test]).values
        errors.append(_error(found - y[test]))
        task.step(i + 1, len(settings.water_sizes))
    few = molecules[test[: min(5, len(test))]]
    rotation = so3(1).random(1, seed=settings.seed + 1)
    again = model.predict(few.with_positions(few.positions @ rotation[0].T)).values
    off = np.abs(again - rotate_tensors(found[: len(few)], rotation)).reshape(len(few), -1).max(axis=1)
    guess = _error(simplest(molecules[train], y[train], molecules[test]) - y[test])
    return {"errors": np.stack(errors), "guess": guess, "rotated": off / np.abs(found).max()}


def simplest(train: Molecules, tensors: np.ndarray, test: Molecules) -> np.ndarray:
    """Predictions of the simplest equivariant models for the test molecules."""
    if tensors.ndim == 3:
        return np.trace(tensors, axis1=1, axis2=2).mean() / 3 * np.broadcast_to(np.eye(3), (len(test), 3, 3))
    charges = np.linalg.lstsq(_arms(train).reshape(-1, len(train.elements)), tensors.ravel(), rcond=None)[0]
    return _arms(test) @ charges


def _arms(molecules: Molecules) -> np.ndarray:
    """Sum over the atoms of each element of positions relative to the mean of all, (N, 3, elements)."""
    x = molecules.positions - molecules.positions.mean(axis=1, keepdims=True)
    of_element = molecules.atomic_numbers[:, :, None] == np.array(molecules.elements)
    return np.einsum("nai,nae->nie", x, of_element.astype(float))


def _error(difference: np.ndarray) -> np.ndarray:
    return np.abs(difference).reshape(len(difference), -1).mean(axis=1)


_THEORY = "by construction"
_REVIEW = "question of a reviewer of arXiv 2406.06504"


def claims(settings: ForcesSettings, results: ForcesResults) -> Sequence[Claim]:
    """Gain from training on forces, and identities that hold by construction."""
    most = settings.sizes[-1]
    of_both = {
        "forces": error_ratio(results.forces["both"][-1], results.forces["energies"][-1]),
        "energies": error_ratio(results.energies["both"][-1], results.energies["energies"][-1]),
    }
    rotated = {"energies": largest(results.rotated_energies), "forces": largest(results.rotated_forces)}
    rotated |= {f"{kind} of water": largest(found.rotated) for kind, found in results.water.items()}
    judged = [_learnt(results, most), *(_helped(what, ratio, most) for what, ratio in of_both.items())]
    judged += [
        exact(
            "Predicted forces are minus the gradient of predicted energies",
            {"": exactly(results.gradient)},
            measure="Largest difference from central differences, relative to the largest force, for the first test "
            "frame.",
            at_most=1e-6,
            by=identity(_THEORY),
        ),
        exact(
            "Predicted forces are free of curl",
            {"": exactly(results.curl)},
            measure="Largest asymmetry of ∂F/∂x, by central differences, relative to the largest derivative, for the "
            "first test frame.",
            at_most=1e-6,
            by=identity(_THEORY),
        ),
        claim(
            "Rotating a molecule keeps its energy and rotates its forces and tensors, to within 1 %",
            rotated,
            measure="Largest deviation, relative to the energies’ standard deviation, the largest force or tensor. The "
            "interval reaches from the largest that was seen to where a further one may lie.",
            covers="rotations and molecules",
            at_most=0.01,
            by=theirs(
                EQUIVARIANT_KERNELS, "review", "the extension to equivariant outputs is exact; the bound is our choice"
            ),
        ),
    ]
    if results.water:
        ratios = {kind: found.ratio() for kind, found in results.water.items()}
        judged.append(
            claim(
                f"With {settings.water_sizes[-1]} molecules, tensors of water are predicted better than by fixed "
                "charges and a constant",
                ratios,
                measure="Mean absolute error over that of the simplest equivariant model: dipoles of one "
                "charge for each element, the mean polarisability times the identity; paired over test molecules.",
                covers="test molecules",
                at_most=1,
                by=ours("our question"),
            )
        )
    return judged


def _learnt(results: ForcesResults, frames: int) -> Claim:
    """Whether forces are predicted better than by 0, for each training target."""
    least = lambda target: bootstrap(results.forces[target][-1]).times(1 / results.deviation[1])
    ratios = {f"from {target}": least(target) for target in TARGETS}
    return claim(
        f"With {frames} frames the kernel predicts forces: their error is below that of guessing their mean",
        ratios,
        aggregate=("from both", ratios["from both"]),
        measure="Mean absolute error of force components over their mean absolute deviation on the test frames, by "
        "what was trained on.",
        covers="test frames",
        at_most=1,
        by=ours(_REVIEW, place="review"),
    )


def _helped(what: str, ratio: Estimate, frames: int) -> Claim:
    """Whether `what` is predicted better after training on energies and forces than on energies only."""
    return claim(
        f"With {frames} frames, {what} are predicted better after training on both than on energies",
        {"": ratio},
        measure="Mean absolute error after training on both over that after training on energies, paired over test "
        "frames.",
        covers="test frames",
        at_most=1,
        by=ours(_REVIEW, place="review"),
    )


_COLOURS = dict(zip(TARGETS, (palette.VERMILLION, palette.GREEN, palette.BLUE), strict=True))


def present(settings: ForcesSettings, results: ForcesResults, folder: RunFolder) -> list[Shown]:
    """Learning curves, and tensors of water if they were learnt."""
    tensors = [_tensors(settings, results, folder)] if results.water else []
    return [_curves(settings, results, folder), *tensors]


def _curves(settings: ForcesSettings, results: ForcesResults, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "learning-curves",
        titles=("energies, meV", "force components, meV/Å"),
        xlabel="training frames",
        ylabel="mean absolute error",
        caption="Mean absolute errors with 95 % intervals over test frames. Dotted: the error of always guessing the "
        "mean of the test frames.",
        alt="Errors of energies and forces against training frames",
    ) as drawn:
        for axes, table, deviation in zip(drawn, (results.energies, results.forces), results.deviation, strict=True):
            drawing.logarithmic(axes, "both", settings.sizes, fine=True)
            for shift, target in zip((0.98, 1.0, 1.02), TARGETS, strict=True):
                values = [bootstrap(1000 * row) for row in table[target]]
                drawing.estimates(
                    axes, shift * np.array(settings.sizes), values, _COLOURS[target].light, label=f"from {target}"
                )
            drawing.power(axes, settings.sizes, 1000 * deviation, 0, label="mean of the test frames")
    return drawn.figure


def _tensors(settings: ForcesSettings, results: ForcesResults, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "tensors",
        titles=tuple(f"{KINDS[kind]}, a.u." for kind in results.water),
        xlabel="training molecules",
        ylabel="mean absolute error",
        caption="Mean absolute errors of components with 95 % intervals over test molecules. Dotted: the simplest "
        "equivariant models, dipoles of one charge for each element and the mean polarisability times the "
        "identity.",
        alt="Errors of dipoles and polarisabilities against training molecules",
    ) as drawn:
        for axes, found in zip(drawn, results.water.values(), strict=True):
            drawing.logarithmic(axes, "both", settings.water_sizes, fine=True)
            values = [bootstrap(row) for row in found.errors]
            drawing.estimates(axes, settings.water_sizes, values, palette.PURPLE.light, label="equivariant readout")
            drawing.power(axes, settings.water_sizes, found.guess.mean(), 0, label="simplest model")
    return drawn.figure


STUDY = Study(PRESETS, measure, claims, (EQUIVARIANT_KERNELS,), check_settings)
