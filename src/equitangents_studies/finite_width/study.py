"""How large the violation of a finite ensemble is, and which part of it comes from what.

The mean square change over orbits of a mean of M members of width n is B(n) + A(n)/M. The finite number of members
leaves A(∞)/M, finite width A(n) − A(∞) and B(n) − B(∞), and incomplete augmentation B(∞), which is 0 if it is complete.
Of group-convolutional networks all parts are 0 at any width: they are invariant by architecture.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents import actions, nn
from equitangents.statistics import Estimate, squared_mean
from equitangents_studies.common import networks
from equitangents_studies.common.images import Chosen, is_own, load_images
from equitangents_studies.common.infinite import gradient_descent, predicted_parts
from equitangents_studies.common.ising_lattice import energy_task
from equitangents_studies.common.orbits import deviations
from equitangents_studies.common.training import train_to_last
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Task, at_least, check, presets

KINDS = ("complete", "partial")
TITLES = {"complete": "all four turns", "partial": "half turns alone"}
ARCHITECTURES = ("mlp", "cnn")
NOUNS = {"mlp": "MLPs", "cnn": "CNNs", "gcnn": "group-convolutional networks"}


@dataclass(frozen=True)
class Settings:
    """`tasks` are "ising" (energies of hot spins on a torus) and data sets (odd or even class, ±1, on images averaged
    down to `pixels`), under turns by 90°: `complete` augmentation shows all four, `partial` those by 0° and 180°.

    `widths` and `members` are those of MLPs, `channels` and `cnn_members` of CNNs, `group_channels` and `group_members`
    of group-convolutional networks, which see no turned copies. `sizes` are numbers of members M, powers of 2; `rate`
    is a fraction of the largest stable learning rate. Sizes are our choice.
    """

    tasks: tuple[str, ...] = ("ising", "digits")
    lattice: int = 4
    train_spins: int = 12
    test_spins: int = 24
    pixels: int = 8
    train_images: int = 12
    test_images: int = 24
    widths: tuple[int, ...] = (16, 32, 64, 128, 256)
    channels: tuple[int, ...] = (4, 8, 16)
    group_channels: tuple[int, ...] = (4, 16)
    hidden_layers: int = 2
    members: int = 512
    cnn_members: int = 96
    group_members: int = 8
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    steps: tuple[int, ...] = (1, 10, 50)
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0

    def widths_of(self, architecture: str) -> list[int]:
        """Widths or channels, in order."""
        of = {"mlp": self.widths, "cnn": self.channels, "gcnn": self.group_channels}
        return sorted(of[architecture])

    def members_of(self, architecture: str) -> int:
        """How many networks of each width."""
        return {"mlp": self.members, "cnn": self.cnn_members, "gcnn": self.group_members}[architecture]

    def sizes_of(self, architecture: str) -> tuple[int, ...]:
        """The sizes M of which there are as many disjoint ensembles as MLPs have of the largest."""
        batches = self.members // max(self.sizes)
        return tuple(m for m in self.sizes if self.members_of(architecture) // m >= batches)


PRESETS = presets(
    Settings(),
    desk="tasks=ising,fashion_mnist lattice=6 train_spins=24 test_spins=48 train_images=24 test_images=48 "
    "widths=16,32,64,128,256,512 channels=4,8,16,32 group_channels=4,8,16 members=1024 cnn_members=384 "
    "group_members=16 steps=1,10,100",
    paper="tasks=ising,fashion_mnist lattice=8 train_spins=64 test_spins=128 pixels=14 train_images=64 "
    "test_images=128 widths=16,32,64,128,256,512,1024 channels=8,16,32,64,128 group_channels=4,8,16,32 members=2048 "
    "cnn_members=1024 group_members=32 sizes=1,2,4,8,16,32,64,128 steps=1,10,100,1000",
)


def width_name(architecture: str, width: int) -> str:
    """A width in a sentence: "width 16" of an MLP, "16 channels" of networks that have those."""
    return f"width {width}" if architecture == "mlp" else f"{width} channels"


ISING = "ising"


@dataclass(frozen=True, eq=False)
class Problem:
    """Images to learn from with their targets, which turns leave alone, and images to test on."""

    title: str
    train: Float[np.ndarray, "n size size 1"]
    y: Float[np.ndarray, " n"]
    test: Float[np.ndarray, "m size size 1"]


def load_problem(settings: Settings, name: str, data_dir: Path | None) -> Problem:
    """Raises DataNotFoundError or InvalidArgumentError where images are missing or do not fit."""
    if name == ISING:
        arrays = energy_task(settings.lattice, settings.train_spins, settings.test_spins, settings.seed)
        return Problem("Ising energies", *arrays)
    s = settings
    images = load_images(Chosen(name, (), s.train_images, s.test_images, 0, s.pixels, s.seed), data_dir)
    wide = lambda x: x.astype(np.float64)
    return Problem(
        images.titles["test"], wide(images.train_x), np.where(images.train_y % 2, 1.0, -1.0), wide(images.sets["test"])
    )


@dataclass(frozen=True, eq=False)
class Cell:
    """One architecture on one task. By kind of augmentation: `fluctuation[kind]` and `bias[kind]` (T,) at infinite
    width, A and B; `changes[kind][width]` (T, M, values) f(gx) − f(x) of every member.
    """

    steps: np.ndarray
    fluctuation: dict[str, np.ndarray]
    bias: dict[str, np.ndarray]
    changes: dict[str, dict[int, np.ndarray]]

    def changes_of(self, kind: str, width: int, time: int) -> Float[np.ndarray, "members values"]:
        """f(gx) − f(x) of every member."""
        return self.changes[kind][width][time].astype(np.float64)

    def fluctuations(self, kind: str, width: int, time: int) -> Float[np.ndarray, " members"]:
        """Mean square change of every member less the square of their expected change: A(n), one sample a member."""
        d = self.changes_of(kind, width, time)
        return (d**2).mean(axis=1) - squared_mean(d).value

    def bias_of(self, kind: str, width: int, time: int, level: float = 0.95) -> Estimate:
        """B(n), unbiased, with a jackknife interval over members."""
        return squared_mean(self.changes_of(kind, width, time), confidence=level)


@dataclass(frozen=True, eq=False)
class Results:
    """`cells[architecture, task]`; `group[task][width]` (T, M, values) the changes of group-convolutional networks,
    which train on no turned copies; `titles[task]` name tasks.
    """

    titles: dict[str, str]
    cells: dict[tuple[str, str], Cell]
    group: dict[str, dict[int, np.ndarray]]

    @property
    def steps(self) -> np.ndarray:
        """When changes were recorded."""
        return next(iter(self.cells.values())).steps

    def of(self, architecture: str) -> dict[str, Cell]:
        """The cells of one architecture, by task."""
        return {task: cell for (name, task), cell in self.cells.items() if name == architecture}


_NETWORKS: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    *((a, tuple(KINDS)) for a in ARCHITECTURES),
    ("gcnn", (None,)),
)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Members enough for batches of the largest size, widths enough for a rate, and images that are there."""
    largest, tasks = max(settings.sizes), settings.tasks
    at_least(settings, lattice=3, pixels=4, hidden_layers=1, group_members=1)
    check(all(largest % m == 0 for m in settings.sizes), "sizes", settings.sizes, "divisors of the largest")
    check(settings.members >= 3 * largest, "members", settings.members, f"at least 3 times the largest size, {largest}")
    enough = len(settings.sizes_of("cnn")) >= 2
    check(enough, "cnn_members", settings.cnn_members, "enough for as many ensembles of two sizes as MLPs have")
    for name in ("widths", "channels"):
        value = getattr(settings, name)
        check(len(set(value)) >= 3, name, value, "at least three different widths")
    check(len(settings.group_channels) >= 1, "group_channels", settings.group_channels, "a list of at least one width")
    distinct = len(tasks) == len(set(tasks)) >= 1 and not any(map(is_own, tasks))
    check(distinct, "tasks", tasks, 'a list of "ising" and known data sets, without repetitions')
    for name in tasks:
        load_problem(settings, name, data_dir)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Task by task: closed form for both kinds of augmentation, then an ensemble per architecture, width and kind."""
    problems = {name: load_problem(settings, name, folder.data_dir) for name in settings.tasks}
    closed = folder.stages(
        {
            (architecture, name, kind): _closed(settings, architecture, name, problem, kind)
            for name, problem in problems.items()
            for architecture, kinds in _NETWORKS
            for kind in kinds
        }
    )
    trained = folder.stages(
        {
            (*key, width): _ensemble(settings, folder, *key, problems[key[1]], width, float(found["rate"]))
            for key, found in closed.items()
            for width in settings.widths_of(key[0])
        }
    )

    def changes(architecture: str, name: str, kind: str | None) -> dict[int, np.ndarray]:
        found = {
            width: trained[architecture, name, kind, width]["changes"] for width in settings.widths_of(architecture)
        }
        return {width: y.reshape(*y.shape[:2], -1) for width, y in found.items()}

    def cell(architecture: str, name: str) -> Cell:
        by_kind = lambda key: {kind: closed[architecture, name, kind][key] for kind in KINDS}
        every = {kind: changes(architecture, name, kind) for kind in KINDS}
        return Cell(recorded_steps(settings), by_kind("fluctuation"), by_kind("bias"), every)

    cells = {(architecture, name): cell(architecture, name) for name in problems for architecture in ARCHITECTURES}
    group = {name: changes("gcnn", name, None) for name in problems}
    return Results({name: problem.title for name, problem in problems.items()}, cells, group)


def _closed(settings: Settings, architecture: str, name: str, problem: Problem, kind: str | None) -> Stage:
    """Infinite width; group-convolutional networks, of no kind, see no turned copy."""
    said = f", {TITLES[kind]}" if kind else ""
    return Stage(
        "-".join(filter(None, (name, architecture, "infinite", kind))),
        f"Infinite width, {NOUNS[architecture]}, {problem.title}{said}",
        partial(_infinite, settings, architecture, problem, _augmentation(kind) if kind else None),
    )


def recorded_steps(settings: Settings) -> np.ndarray:
    """When changes are recorded."""
    return np.array(sorted(set(settings.steps)))


def network(settings: Settings, architecture: str, width: int, problem: Problem) -> nn.Sequential:
    """An MLP, a CNN on the torus that is flattened at the end, or a p4 network that is pooled at the end."""
    scales: dict[str, Any] = {"W_std": settings.W_std, "b_std": settings.b_std}
    if architecture == "mlp":
        return networks.mlp(width, settings.hidden_layers, flatten=True, **scales)
    if architecture == "cnn":
        return networks.cnn(width, settings.hidden_layers, pooled=False, **scales)
    return networks.wallpaper_gcnn(problem.train.shape[1], width, settings.hidden_layers, **scales)


def _augmentation(kind: str) -> actions.Action:
    return actions.image_rotations(4 if kind == "complete" else 2)


def _infinite(
    settings: Settings, architecture: str, problem: Problem, augmentation: actions.Action | None, task: Task
) -> Arrays:
    net = network(settings, architecture, 1, problem)
    model = gradient_descent(net, problem.train, problem.y, settings.rate, augmentation=augmentation)
    a, b = predicted_parts(model, actions.image_rotations(4), problem.test, recorded_steps(settings))
    return {"fluctuation": a, "bias": b, "rate": np.array(model.learning_rate)}


def _ensemble(
    settings: Settings,
    folder: RunFolder,
    architecture: str,
    name: str,
    kind: str | None,
    problem: Problem,
    width: int,
    rate: float,
) -> Stage:
    """`changes` of every member of a trained ensemble, (T, M, |G|, n)."""
    action, members = actions.image_rotations(4), settings.members_of(architecture)
    said = f", {TITLES[kind]}" if kind else ""
    stage = "-".join(filter(None, (name, architecture, kind, str(width))))
    train = partial(
        train_to_last,
        folder.checkpoints(stage),
        network(settings, architecture, width, problem),
        problem.train,
        problem.y,
        augmentation=_augmentation(kind) if kind else None,
        members=members,
        learning_rate=rate,
        record={"test": problem.test},
        record_at=recorded_steps(settings),
        orbits=action,
        keep=lambda recorded: {"changes": deviations(action, recorded["test"][..., 0])},
        seed=_seed(settings, architecture, name, width, kind),
    )
    title = f"Training {members} {NOUNS[architecture]}, {width_name(architecture, width)}, {problem.title}{said}"
    return Stage(stage, title, train)


def _seed(settings: Settings, architecture: str, name: str, width: int, kind: str | None) -> int:
    """A seed for each ensemble; that of MLPs on energies depends on width and kind alone."""
    entropy = [settings.seed, width, KINDS.index(kind) if kind else len(KINDS)]
    if (architecture, name) != ("mlp", ISING):
        entropy += [1 + [*ARCHITECTURES, "gcnn"].index(architecture), *name.encode()]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])
