"""The cost of spurious symmetries, which an algorithm has and the data lack, in accuracy and in samples.

Images moved by a random element of a group are learnt as if the algorithm had that symmetry. We measure accuracies of
six architectures, as NTK and as networks (NN, NN+), under five groups; for infinitely wide networks also with the
largest training sets that a desk computer allows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from equitangents.scale import GramStore
from equitangents.statistics import Estimate, no_interval, t_interval
from equitangents_studies.common.system_runs import (
    SystemSettings,
    by_key,
    counted_runs,
    counting,
    doubling_in_two_steps,
    draw_accuracies,
    load_system_images,
    predicted,
    repeated_images,
)
from equitangents_studies.data import Dataset
from equitangents_studies.framework.measured import Stages, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Task, at_least, check, check_some, presets
from equitangents_studies.systems import ARCHITECTURES, architecture, inference, rotate, transformation
from equitangents_studies.systems.descent import GradientInference
from equitangents_studies.systems.grams import PoolKernel
from equitangents_studies.systems.symmetry_tests import relative
from equitangents_studies.systems.transformations import NAMES as GROUPS
from equitangents_studies.systems.transformations import data_group, expected_symmetry

Pairs = Sequence[tuple[int, int]]
ORDER = "I ⊂ O(3)⊗I ⊂ O(3)^d ⊂ O(3d) and I ⊂ P(3d) ⊂ O(3d)"
_SHAPE = (8, 8, 3)  # inclusions are the same for all


def within(one: str, other: str) -> bool:
    """Whether `one` is a proper subgroup of `other`.

    >>> within("P(3d)", "O(3d)"), within("O(3)^d", "P(3d)")
    (True, False)
    """
    return one != other and data_group(other, _SHAPE).holds(data_group(one, _SHAPE))


def own_group(architecture: str, inference: str) -> str:
    """The largest group, permutations excluded, under which the algorithm is symmetric by Theorem 4.1.

    >>> own_group("VEC", "NTK"), own_group("VEC", "NN+")
    ('O(3)^d', 'O(3)xI')
    """
    held = [g for g in GROUPS if g != "P(3d)" and expected_symmetry(architecture, g, _SHAPE, finite=inference != "NTK")]
    return held[-1]


def by_data(groups: Sequence[str] = GROUPS) -> Pairs:
    """Pairs of indices into `groups`, the smaller group first."""
    return [(i, j) for i, a in enumerate(groups) for j, b in enumerate(groups) if within(a, b)]


def by_model(inference: str, architectures: Sequence[str] = ARCHITECTURES) -> Pairs:
    """Pairs of indices into `architectures`, the one with the smaller group first."""
    return by_data([own_group(name, inference) for name in architectures])


def spurious(architecture: str, group: str) -> bool:
    """Whether data moved by the group hide neighbourhoods from a trained network."""
    return any(within("O(3)xI", g) or g == "P(3d)" for g in (own_group(architecture, "NN"), group))


POOLED = ("GAP", "LAP4", "LAP8")  # whose kernels need all pairs of positions
_TILE, _POOLED_TILE = 500, 50


@dataclass(frozen=True, eq=False)
class PoolErrors:
    """`errors` (sizes, folds), classification errors on upright images; `equal` (groups,): largest difference between
    kernels of moved and of upright images, relative to the largest entry.
    """

    groups: tuple[str, ...]
    sizes: np.ndarray
    errors: np.ndarray
    equal: np.ndarray

    @property
    def most(self) -> int:
        """Images of the largest training sets."""
        return int(self.sizes[-1])

    @property
    def accuracies(self) -> np.ndarray:
        """Accuracies in percent after the largest training set, (folds,)."""
        return 100 - 100 * self.errors[-1]

    def size_for(self, errors: np.ndarray) -> np.ndarray:
        """Interpolated training size at which each fold reaches these errors; an end of the range if never."""
        logs = np.log(self.sizes)
        found = []
        for fold, error in enumerate(errors):
            falling = np.minimum.accumulate(self.errors[:, fold])[::-1]
            found.append(np.exp(np.interp(error, falling, logs[::-1])))
        return np.array(found)


def lead(better: PoolErrors, worse: PoolErrors, level: float = 0.95) -> Estimate:
    """Accuracy of `better` minus `worse` after the largest training sets, paired by fold, in percentage points."""
    return t_interval(better.accuracies - worse.accuracies, level, (-100, 100))


def extra(better: PoolErrors, worse: PoolErrors) -> Estimate:
    """Additional images that `worse` needs for the error that it reaches with its largest training sets."""
    return t_interval(worse.most - better.size_for(worse.errors[-1]))


def folds_of(count: int, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(training images in random order, test images) of every fold; all test parts have the same size."""
    order = np.random.default_rng((seed, count)).permutation(count)
    size = count // folds
    found = []
    for k in range(folds):
        test = order[k * size : (k + 1) * size]
        rest = np.setdiff1d(order, test)
        found.append((np.random.default_rng((seed, count, k)).permutation(rest), test))
    return found


def measure_pool(
    name: str,
    depth: int,
    x: np.ndarray,
    y: np.ndarray,
    groups: Sequence[str],
    sizes: np.ndarray,
    folds: int,
    ridge: float,
    seed: int,
    kept: Path,
    step: Callable[[float, float], None],
) -> Arrays:
    """The arrays of a `PoolErrors` of the images x with the classes y; `groups` begin with "I". Tiles are in `kept`."""
    tile = _POOLED_TILE if name in POOLED else _TILE
    net = architecture(name, depth)
    targets = np.eye(int(y.max()) + 1)[y] - 1 / (int(y.max()) + 1)
    splits = folds_of(len(x), folds, seed)
    equal: list[float] = []
    first: np.ndarray | None = None
    for i, group in enumerate(groups):
        at = lambda done, total, left, i=i: step(i + 0.9 * done / total, len(groups))
        moved = np.asarray(rotate(x, group, seed=seed), x.dtype)
        K = np.asarray(GramStore(kept / str(i), net, moved, tile=tile).compute(progress=at).ntk[:])
        if first is None:
            first, pool = K, PoolKernel(K)
            errors = [_wrong(pool.curve(targets, order, test, sizes, ridge), y[test]) for order, test in splits]
        equal.append(_relative(K, first))
        step(i + 1, len(groups))
    return {"equal": np.array(equal), "errors": np.stack(errors, axis=1)}


def _wrong(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Classification errors of outputs (sizes, inputs, classes); outputs that are not finite count as wrong."""
    right = (outputs.argmax(axis=2) == labels) & np.isfinite(outputs).all(axis=2)
    return np.asarray(1 - right.mean(axis=1))


def _relative(K: np.ndarray, first: np.ndarray) -> float:
    """Largest difference relative to the largest entry, computed in blocks of rows; NaN if an entry is not finite."""
    rows = [slice(a, a + _TILE) for a in range(0, len(K), _TILE)]
    finite = lambda part: np.isfinite(part).all()
    differences = [np.abs(K[a].astype(np.float64) - first[a]).max() if finite(K[a]) else np.nan for a in rows]
    return float(np.max(differences) / np.max([np.abs(first[a]).max() for a in rows]))


INFERENCES = ("NTK", "NN", "NN+")
SMALL_MODELS = ("FCN", "VEC", "GAP")
SMALL_GROUPS = ("I", "O(3)^d", "P(3d)", "O(3d)")  # that move the images of GAP; it is symmetric under O(3)xI


@dataclass(frozen=True)
class SpuriousSettings(SystemSettings):
    """Figure 2: in each of `repetitions` all six architectures of `depth` hidden layers
    and `width` channels (FCN 8 times as many, LCN a quarter) see `train_images` and `test_images` of their own,
    averaged down to `pixels`; networks are trained for at most `epochs`.

    Infinite width, `kernel_depth` layers: each of `models` gets its number of `images` at `kernel_pixels`, each tested
    once in `folds` parts; models in `moved` also get data moved by every group. FCN, VEC and GAP also on `small_images`
    of `small_pixels`, GAP on moved ones, too. `ridge`: relative to the mean diagonal of kernels.
    """

    train_images: int = 60
    test_images: int = 200
    depth: int = 1
    width: int = 32
    epochs: int = 300
    repetitions: int = 3
    models: tuple[str, ...] = ("FCN", "VEC", "LAP4", "LAP8")
    images: tuple[int, ...] = (1200, 1200, 400, 240)
    moved: tuple[str, ...] = ("FCN", "VEC")
    kernel_pixels: int = 16
    kernel_depth: int = 8
    small_images: int = 240
    small_pixels: int = 16
    folds: int = 6
    smallest: int = 20
    ridge: float = 1e-4


PRESETS = presets(
    SpuriousSettings(),
    desk="train_images=120 test_images=400 depth=2 epochs=1500 repetitions=4 models=FCN,VEC,LAP4,LAP8,GAP "
    "images=12000,12000,1200,720,540 kernel_pixels=32 small_images=960",
    paper="data=cifar10 train_images=45000 test_images=5000 pixels=32 depth=8 width=128 epochs=900 repetitions=5 "
    "models=FCN,VEC,LAP4,LAP8,GAP images=50000,50000,50000,50000,50000 kernel_pixels=32 small_images=6000 folds=10",
)


def check_settings(settings: SpuriousSettings, data_dir: Path | None) -> None:
    """Require an image side divisible by 8, and enough images for a curve."""
    s = settings
    at_least(s, train_images=10, test_images=5, pixels=8, depth=1, width=4, epochs=1, repetitions=2, folds=2)
    at_least(s, kernel_pixels=8, kernel_depth=1, small_pixels=8, smallest=10)
    check(s.ridge > 0, "ridge", s.ridge, "positive")
    for name in ("pixels", "kernel_pixels", "small_pixels"):
        check(getattr(s, name) % 8 == 0, name, getattr(s, name), "a multiple of 8, which LAP8 pools over")
    check_some("models", s.models, ARCHITECTURES)
    check(len(s.models) >= 1, "models", s.models, "one model or more")
    check(len(s.images) == len(s.models), "images", s.images, f"as many numbers as there are models, {len(s.models)}")
    check(set(s.moved) <= set(s.models), "moved", s.moved, f"of the models, {', '.join(s.models)}")
    for name, count in (*(("images", n) for n in s.images), ("small_images", s.small_images)):
        check(len(sizes_of(count, s.folds, s.smallest)) >= 3, name, count, f"enough for 3 sizes from {s.smallest} on")
    repeated_images(s, data_dir, s.repetitions)
    pool_images(s, data_dir, max(s.images), s.kernel_pixels)


def architectures_of(settings: SpuriousSettings) -> tuple[str, ...]:
    """The different architectures of figure 2: with 8 pixels a side LAP8 is GAP."""
    return tuple(name for name in ARCHITECTURES if name != "LAP8" or settings.pixels > 8)


def sizes_of(count: int, folds: int, smallest: int) -> np.ndarray:
    """Training sizes of a pool: from `smallest` by factors of about √2 to all images outside of the largest fold."""
    return doubling_in_two_steps(smallest, count - -(-count // folds))


def pool_images(
    settings: SpuriousSettings, data_dir: Path | None, count: int, pixels: int
) -> tuple[np.ndarray, np.ndarray]:
    """`count` images in float32 and their classes: training images, then test images if those are too few, since every
    image of a pool is tested once.
    """
    s = settings
    found = load_system_images(s.data, data_dir, train=count, test=1, pixels=pixels, seed=s.seed)
    x, y = found.train_x, found.train_y
    if len(x) < count:
        found = load_system_images(s.data, data_dir, train=count, test=count - len(x), pixels=pixels, seed=s.seed)
        x, y = np.concatenate([found.train_x, found.test_x]), np.concatenate([found.train_y, found.test_y])
    check(count <= len(x), "images", count, f"at most {len(x)}, which {found.name} has")
    return x[:count].astype(np.float32), y[:count]


Key = tuple[str, str]


@dataclass(frozen=True, eq=False)
class SpuriousResults:
    """By (architecture, inference): `best` and `last` accuracies on test images and `learnt` on training images,
    (groups, repetitions); kernels have only one accuracy. `equal` (groups, repetitions) by architecture: relative
    change of its kernel when images are moved. `pools` by model, `small` by (model, group); `vec_on_gap`: VEC on the
    images of GAP’s pool, where there is one. `draws` (groups, repetitions, draws) by architecture: accuracies of single
    infinitely wide networks.
    """

    best: dict[Key, np.ndarray]
    last: dict[Key, np.ndarray]
    learnt: dict[Key, np.ndarray]
    equal: dict[str, np.ndarray]
    pools: dict[str, PoolErrors]
    small: dict[Key, PoolErrors]
    vec_on_gap: PoolErrors | None
    draws: dict[str, np.ndarray]

    @property
    def architectures(self) -> tuple[str, ...]:
        """Trained architectures, without duplicates: with few pixels some coincide."""
        return tuple(name for name in ARCHITECTURES if name in self.draws)

    def counted(self, architecture: str, inference: str) -> np.ndarray:
        """Best accuracies in percent, (groups, repetitions); NaN for runs that do not count."""
        key = architecture, inference
        return counting(self.best[key], self.learnt[key])

    def accuracy(self, architecture: str, inference: str, group: str) -> Estimate:
        """The mean over repetitions that count, in percent."""
        values = self.counted(architecture, inference)[GROUPS.index(group)]
        values = values[np.isfinite(values)]
        if len(values) == 0:
            return no_interval(np.nan)
        return t_interval(values, bounds=(0, 100))

    def falls_through_data(self) -> Estimate:
        """Accuracy minus that under a larger group, mean over systems and comparable pairs, by repetition."""
        return self._falls([(self.counted(a, how).T, by_data()) for a in self.architectures for how in INFERENCES])

    def falls_through_model(self) -> Estimate:
        """Accuracy minus that of an algorithm with a larger group of its own, on upright images, by repetition."""
        return self._falls([(self._first(how), by_model(how, self.architectures)) for how in INFERENCES])

    def _first(self, inference: str) -> np.ndarray:
        return np.stack([self.counted(a, inference)[0] for a in self.architectures], axis=1)

    def _falls(self, systems: Sequence[tuple[np.ndarray, Pairs]]) -> Estimate:
        falls = np.concatenate([values[:, i] - values[:, j] for values, pairs in systems for i, j in pairs])
        return _over_repetitions(lambda: np.nanmean(falls.reshape(-1, len(systems[0][0])), axis=0))

    def pool_falls(self) -> dict[str, Estimate]:
        """Accuracy of infinitely wide GAP minus that on images moved by each group, same folds, in points."""
        return {g: lead(self.small["GAP", "I"], pool) for g, pool in self._moved_gap().items()}

    def mean_pool_fall(self) -> Estimate:
        """Mean of `pool_falls` over groups, by fold."""
        moved = np.mean([pool.accuracies for pool in self._moved_gap().values()], axis=0)
        return t_interval(self.small["GAP", "I"].accuracies - moved, bounds=(-100, 100))

    def _moved_gap(self) -> dict[str, PoolErrors]:
        return {g: pool for (name, g), pool in self.small.items() if name == "GAP" and g != "I"}

    def kernel_ahead(self, inferences: Sequence[str], under: bool, of: Literal["mean", "draws"] = "mean") -> Estimate:
        """Accuracy of the NTK, or of single infinitely wide networks, minus that of trained ones, mean over inferences.

        Mean over the pairs (architecture, group) that are spurious (`under`), or over the others, of runs that count,
        paired by repetition. As in the source networks are taken at their best, but for a comparison with draws at the
        end.
        """
        cells = [(a, i) for a in self.architectures for i, g in enumerate(GROUPS) if spurious(a, g) == under]
        ahead = np.array([self._wide(a, of)[i] - self._trained(a, how, of)[i] for how in inferences for a, i in cells])
        return _over_repetitions(lambda: np.nanmean(ahead, axis=0))

    def _wide(self, architecture: str, of: str) -> np.ndarray:
        return self.counted(architecture, "NTK") if of == "mean" else 100 * self.draws[architecture].mean(axis=2)

    def _trained(self, architecture: str, inference: str, of: str) -> np.ndarray:
        key = architecture, inference
        return counting((self.best if of == "mean" else self.last)[key], self.learnt[key])


def _over_repetitions(compute: Callable[[], np.ndarray]) -> Estimate:
    """Mean over the repetitions that are not NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a repetition in which no run counts
        values = compute()
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return no_interval(np.nan)
    return t_interval(values, bounds=(-100, 100))


_EIGENVALUE_INPUTS = 64


def kernel_accuracies(settings: SpuriousSettings, images: Sequence[Dataset], name: str, task: Task) -> Arrays:
    """Accuracies of the NTK, (groups, repetitions), and relative changes of kernels when images move.

    Repetition r moves its images by elements drawn with seed + r.
    """
    net = architecture(name, settings.depth)
    best, equal = np.zeros((2, len(GROUPS), len(images)))
    for r, one in enumerate(images):
        first: np.ndarray | None = None
        for i, group in enumerate(GROUPS):
            tau = transformation(group, one.train_x.shape[1:], seed=settings.seed + r)
            x, test = (np.asarray(tau(part), np.float32) for part in (one.train_x, one.test_x))
            K = np.concatenate([net.kernel(x).ntk, net.kernel(test, x).ntk])
            outputs = predicted(K[: len(x)], K[len(x) :], one.targets, settings.ridge)
            first = K if first is None else first
            best[i, r] = np.mean((outputs.argmax(axis=1) == one.test_y) & np.isfinite(outputs).all(axis=1))
            equal[i, r] = relative(K, first)
            task.step(r * len(GROUPS) + i + 1, len(GROUPS) * len(images))
    return {"best": best, "equal": equal}


def network_accuracies(
    settings: SpuriousSettings, images: Sequence[Dataset], name: str, how: str, task: Task
) -> Arrays:
    """Accuracies of networks, (groups, repetitions), by the keys of `counted_runs`."""
    learning = inference(how, epochs=settings.epochs, eigenvalue_inputs=_EIGENVALUE_INPUTS)
    assert isinstance(learning, GradientInference)
    net = architecture(name, settings.depth, width_of(name, settings.width))
    rows = []
    for i, group in enumerate(GROUPS):
        rows.append(counted_runs(group, net, learning, settings.seed, images, first_alone=i == 0))
        task.step(i + 1, len(GROUPS))
    return by_key(rows)


def width_of(name: str, width: int) -> int:
    """Channels of an architecture in the source's proportions, 1024 / 32 / 128 for FCN / LCN / the others."""
    return {"FCN": 8 * width, "LCN": max(width // 4, 1)}.get(name, width)


def measure(settings: SpuriousSettings, folder: RunFolder) -> SpuriousResults:
    """Figure 2 architecture by architecture, then the pools of infinite width: a stage each."""
    s, images = settings, repeated_images(settings, folder.data_dir, settings.repetitions)
    large = {name: (name, "I", count, s.kernel_pixels) for name, count in zip(s.models, s.images, strict=True)}
    vec_on_gap = [("VEC", *large["GAP"][1:])] if "GAP" in large else []  # VEC on the images of GAP
    before = lambda name: SMALL_GROUPS if name == "GAP" else ("I",)
    small = {
        (name, group): (name, group, s.small_images, s.small_pixels) for name in SMALL_MODELS for group in before(name)
    }
    cells = list(dict.fromkeys([*small.values(), *large.values(), *vec_on_gap]))
    found = measured(
        folder,
        Stages("draws-{architecture}", "{architecture}, draws", partial(_draws, s, images)),
        Stages("NTK-{architecture}", "{architecture}, NTK", partial(kernel_accuracies, s, images)),
        Stages(
            "networks-{architecture}-{inference}", "{architecture}, {inference}", partial(network_accuracies, s, images)
        ),
        Stages(
            "pool-{model}-{before}-{count}-{pixels}",
            "{model}, {count:,} images of {pixels} pixels, {before}",
            partial(_measured_pool, s, folder),
        ),
        levels={
            "architecture": architectures_of(s),
            "inference": INFERENCES[1:],
            "model before count pixels": cells,
        },
    )
    of = lambda what, axes="group repetition": found.by("architecture", what, axes)
    networks = lambda what: found.by("architecture inference", f"networks.{what}", "group repetition")
    kernel = {(name, "NTK"): accuracies for name, accuracies in of("NTK.best").items()}
    errors = found.by("model before count pixels", "errors", "size fold")
    equal = found.by("model before count pixels", "pool.equal", "moved")
    pools = {
        at: PoolErrors(_groups_of(s, at), sizes_of(at[2], s.folds, s.smallest), errors[at], equal[at]) for at in cells
    }
    return SpuriousResults(
        best=kernel | networks("best"),
        last=kernel | networks("last"),
        learnt={key: np.ones_like(accuracies) for key, accuracies in kernel.items()} | networks("learnt"),
        equal=of("NTK.equal"),
        pools={name: pools[at] for name, at in large.items()},
        small={key: pools[at] for key, at in small.items()},
        vec_on_gap=pools[vec_on_gap[0]] if vec_on_gap else None,
        draws=of("draws.draws", "group repetition draw"),
    )


Cell = tuple[str, str, int, int]
"""(architecture, group that moved all images before, images, pixels)"""


def _groups_of(s: SpuriousSettings, at: Cell) -> tuple[str, ...]:
    """The groups that move the images of a pool."""
    return (
        GROUPS if at in [(name, "I", s.images[s.models.index(name)], s.kernel_pixels) for name in s.moved] else ("I",)
    )


def _measured_pool(
    s: SpuriousSettings, folder: RunFolder, name: str, before: str, count: int, pixels: int, task: Task
) -> Arrays:
    x, y = pool_images(s, folder.data_dir, count, pixels)
    x = np.asarray(rotate(x, before, seed=s.seed), x.dtype)
    groups, sizes = _groups_of(s, (name, before, count, pixels)), sizes_of(count, s.folds, s.smallest)
    kept = folder.checkpoints(f"pool-{name}-{before}-{count}-{pixels}")
    return measure_pool(name, s.kernel_depth, x, y, groups, sizes, s.folds, s.ridge, s.seed, kept, task.step)


def _draws(settings: SpuriousSettings, images: Sequence[Dataset], name: str, task: Task) -> Arrays:
    return draw_accuracies(architecture(name, settings.depth), images, GROUPS, settings.ridge, settings.seed, task)
