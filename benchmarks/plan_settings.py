"""Settings in which plans are held against trained ensembles: network, width, data, group, times, measure.

A pool of members is trained for each; the first of them are pilots, the others make ensembles that no plan has seen.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import equitangents as et
from equitangents.ensembles.orbits.law import orbit_batch
from equitangents_studies.common.ising_lattice import energy, hot_spins

PILOT, PILOTS, ENSEMBLES = 20, 3, 144
INPUTS = 24
nn = et.nn


@dataclass(frozen=True, eq=False)
class Data:
    """Training inputs and targets (labels: whole numbers), and the inputs on whose orbits ensembles are measured."""

    name: str
    x: np.ndarray
    y: np.ndarray
    new: np.ndarray
    new_y: np.ndarray

    @property
    def labels(self) -> bool:
        return self.y.dtype.kind in "iu"


def _digits() -> Data:
    d = et.data.digits().subset(train=40, test=INPUTS)
    return Data("digits 8×8", d.train_x.astype(float), d.train_y, d.test_x.astype(float), d.test_y)


def _parity() -> Data:
    d = et.data.digits().subset(train=20, test=INPUTS)
    of = lambda labels: np.where(labels % 2, 1.0, -1.0)
    return Data("digits, odd or even", d.train_x.astype(float), of(d.train_y), d.test_x.astype(float), of(d.test_y))


def _ising() -> Data:
    rng = np.random.default_rng(3)
    spins = hot_spins(20 + INPUTS, 4, rng)
    x, y = spins[..., None], energy(spins, 1.0) / (2**0.5 * 4)
    return Data("Ising spins 4×4", x[:20], y[:20], x[20:], y[20:])


def _images() -> Data:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(20 + INPUTS, 4, 4, 1))
    y = 2 + 0.5 * np.sin(x.sum(axis=(1, 2, 3)))
    return Data("random images 4×4", x[:20], y[:20], x[20:], y[20:])


def _vectors() -> Data:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(30 + INPUTS, 3))
    y = np.digitize((x**2).sum(axis=1), (1.5, 4.0))
    return Data("random 3-vectors", x[:30], y[:30], x[30:], y[30:])


def _plane() -> Data:
    rng = np.random.default_rng(9)
    x = rng.normal(size=(24 + INPUTS, 2))
    y = x * np.linalg.norm(x, axis=1, keepdims=True)
    return Data("vectors of the plane", x[:24], y[:24], x[24:], y[24:])


DATA = {"digits": _digits, "parity": _parity, "ising": _ising, "images": _images, "vectors": _vectors, "plane": _plane}


def mlp(width: int, outputs: int, depth: int = 1) -> nn.Sequential:
    hidden = depth * [nn.Dense(width, W_std=2**0.5, b_std=0.1), nn.Relu()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Dense(outputs, W_std=2**0.5))


def cnn(width: int, outputs: int, depth: int = 1) -> nn.Sequential:
    hidden = depth * [nn.Conv(width, (3, 3), W_std=2**0.5, b_std=0.1), nn.Relu()]
    return nn.Sequential(*hidden, nn.Flatten(), nn.Dense(outputs, W_std=2**0.5))


def gcnn(width: int, outputs: int, rotations: int, shape: tuple[int, int], pool: bool = True) -> nn.Sequential:
    group = et.groups.wallpaper(rotations=rotations, reflections=False, shape=shape)
    settings: dict[str, Any] = {"window": (3, 3), "W_std": 2**0.5, "b_std": 0.1}
    hidden = [nn.Lift(group, width, **settings), nn.Relu(), nn.GroupConv(width, **settings), nn.Relu()]
    return nn.Sequential(*hidden, nn.GroupPool() if pool else nn.Flatten(), nn.Dense(outputs, W_std=2**0.5))


def turns() -> Any:
    """Quarter turns of 2-vectors."""
    quarter = np.array([[0.0, -1.0], [1.0, 0.0]])
    return et.actions.linear(et.groups.cyclic(4), np.stack([np.linalg.matrix_power(quarter, g) for g in range(4)]))


def mixes() -> Any:
    """All orders of three features."""
    group = et.groups.symmetric(3)
    return et.actions.linear(group, np.eye(3)[np.array(group.labels)].transpose(0, 2, 1))


@dataclass(frozen=True, eq=False)
class Setting:
    """One training, measured after `epochs`. `rate`: learning rate, as a share of the largest stable one of theory if
    `relative`; `augmented`: on all transformed copies, or not at all.
    """

    network: str
    net: Any
    data_name: str
    group: str
    action: Any
    epochs: tuple[int, ...]
    measures: tuple[tuple[str, str], ...]
    rate: float = 0.5
    relative: bool = True
    augmented: bool = True
    output_action: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def data(self) -> Data:
        return DATA[self.data_name]()

    @property
    def training(self) -> str:
        how = self.options.get("optimizer", "gd")
        how += "" if self.options.get("loss", "mse") == "mse" else ", cross entropy"
        return (
            how
            + ("" if self.augmented else ", no augmentation")
            + (", random copies" if self.options.get("augmentation_mode") == "random" else "")
        )

    @property
    def actions(self) -> dict[str, Any]:
        return {"augmentation": self.action, "label_action": self.output_action} if self.augmented else {}

    def theory(self, time: float = 0.0, rate: float | None = None) -> Any:
        """Infinitely wide networks, trained in steps; None where training is not gradient descent on the square."""
        if not self.relative:
            return None
        kind = et.InfiniteEnsembleClassifier if self.data.labels else et.InfiniteEnsemble
        settings = {"time": time, "dynamics": "discrete", **self.actions}
        if rate is not None:
            settings["learning_rate"] = rate
        return kind(self.net, **settings).fit(self.data.x, self.data.y)

    @cached_property
    def learning_rate(self) -> float:
        return self.rate * float(self.theory().max_learning_rate_) if self.relative else self.rate

    def ensemble(self, members: int, seed: int, epochs: int | None = None) -> Any:
        """Not yet trained."""
        kind = et.DeepEnsembleClassifier if self.data.labels else et.DeepEnsemble
        options = {"optimizer": "gd", "loss": "mse", **self.options}
        return kind(
            self.net,
            members=members,
            learning_rate=self.learning_rate,
            epochs=self.epochs[-1] if epochs is None else epochs,
            seed=seed,
            **self.actions,
            **options,
        )

    def pool(self, members: int, folder: Path | None = None, seed: int = 1) -> np.ndarray:
        """What members predict on the orbits, (epochs, members, n, |G|, K); kept in `folder`."""
        kept = None if folder is None else folder / f"{SETTINGS.index(self)}-{members}-{seed}.npy"
        if kept is not None and kept.is_file():
            return np.load(kept)
        model = self.ensemble(members, seed)
        batch = orbit_batch(self.action, self.data.new)
        model.fit(self.data.x, self.data.y, record={"orbits": batch}, record_at=self.epochs)
        outputs = model.recorded_["orbits"].astype(float)
        if self.options.get("loss") == "cross_entropy":
            outputs = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
            outputs /= outputs.sum(axis=-1, keepdims=True)
        outputs = outputs.reshape(
            len(self.epochs), members, len(batch) // self.action.group.order, -1, outputs.shape[-1]
        )
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            np.save(kept, outputs.astype(np.float32))
        return outputs


_C2, _C4, _D4 = et.actions.image_rotations(2), et.actions.image_rotations(4), et.actions.image_dihedral(4)
_SHIFTS = et.actions.grid(et.groups.translations((4, 4)))
_OSP, _RSD, _MEDIAN = ("osp", "mean"), ("rsd", "mean"), ("rsd", "median")
_ERROR, _SPREAD, _EXCESS = ("equivariance_error", "mean"), ("spread_over_error", "mean"), ("error", "mean")
_ENTROPY = {"loss": "cross_entropy"}

SETTINGS = [
    Setting("MLP, width 16", mlp(16, 1), "images", "C4", _C4, (5, 30), (_RSD, _EXCESS)),
    Setting("MLP, width 64", mlp(64, 10), "digits", "C4", _C4, (5, 30), (_OSP, _MEDIAN)),
    Setting(
        "MLP, 2 layers of 32",
        mlp(32, 10, 2),
        "digits",
        "D4",
        _D4,
        (4, 16),
        (_OSP, _OSP),
        rate=0.3,
        relative=False,
        options={"optimizer": "sgd", **_ENTROPY},
    ),
    Setting("MLP, width 32", mlp(32, 3), "vectors", "S3", mixes(), (10, 60), (_OSP, _OSP)),
    Setting("MLP, width 32", mlp(32, 1), "ising", "C2", _C2, (10, 50), (_SPREAD, _MEDIAN)),
    Setting("MLP, width 16", mlp(16, 10), "digits", "C4", _C4, (5, 30), (_OSP, _MEDIAN), augmented=False),
    Setting(
        "MLP, width 64",
        mlp(64, 1),
        "images",
        "C4",
        _C4,
        (5, 20),
        (_ERROR, _RSD),
        rate=0.01,
        relative=False,
        options={"optimizer": "adam"},
    ),
    Setting(
        "MLP, width 32",
        mlp(32, 2),
        "plane",
        "C4 on vectors",
        turns(),
        (10, 60),
        (_ERROR, _SPREAD),
        output_action=turns(),
    ),
    Setting("CNN, 8 channels", cnn(8, 10), "digits", "C4", _C4, (5, 20), (_OSP, _MEDIAN)),
    Setting("CNN, 32 channels", cnn(32, 10), "digits", "C4", _C4, (3, 12), (_OSP, _OSP)),
    Setting("CNN, 2 layers of 16", cnn(16, 1, 2), "ising", "D4", _D4, (5, 20), (_MEDIAN, _SPREAD)),
    Setting(
        "CNN, 16 channels",
        cnn(16, 1),
        "images",
        "C4",
        _C4,
        (10, 40),
        (_RSD, _ERROR),
        rate=0.05,
        relative=False,
        options={"optimizer": "momentum", "augmentation_mode": "random"},
    ),
    Setting("CNN, 16 channels", cnn(16, 1), "images", "shifts 4×4", _SHIFTS, (5, 20), (_RSD, _ERROR)),
    Setting("GCNN of p2, 8 channels", gcnn(8, 10, 2, (8, 8)), "digits", "C4", _C4, (3, 12), (_OSP, _MEDIAN)),
    Setting(
        "GCNN of p4, not pooled, 8 channels",
        gcnn(8, 1, 4, (4, 4), False),
        "ising",
        "C4",
        _C4,
        (5, 20),
        (_MEDIAN, _SPREAD),
    ),
    Setting("GCNN of p2, 16 channels", gcnn(16, 1, 2, (4, 4)), "images", "D4", _D4, (5, 20), (_ERROR, _RSD)),
]
