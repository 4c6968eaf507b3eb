"""Few images: kernels of infinitely wide convolutional networks against a trained CNN and a random forest.

Claimed for CIFAR-10: with 10 to 640 training images the tangent kernel of a convolutional network classifies 1 to 3
percentage points more of the test images rightly than a trained network. Every kernel is averaged exactly over flips.

Kernels averaged over horizontal flips: Θ̄(x, x′) = (Θ(x, x′) + Θ(x, Fx′))/2, as Θ(Fx, Fx′) = Θ(x, x′). With
ridge λ they predict what training on both copies does with 2λ.

The networks, by name: 3×3 convolutions with zero padding and no biases, ReLU or the normalised exponential.

Myrtle-5  C C pool C pool C, then the mean over positions and a dense layer      (2 × 2 pools)
Myrtle-7  C C pool C C pool C C, then the same
GAP, VEC  convolutions, then the mean over positions (GAP) or all of them (VEC) into a dense layer
FCN       dense layers on all pixels

Source of Myrtle and of the normalised exponential kernel: arXiv 2003.02237. There three pools follow each other after
the last convolution, which on 32 × 32 pixels is the mean over all positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from sklearn.ensemble import RandomForestClassifier

from equitangents import actions, nn
from equitangents.ensembles import DeepEnsemble
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import KeptKernel, KernelStore, kernel_invariance_error
from equitangents.solvers import solve
from equitangents.statistics import Estimate
from equitangents_studies import data
from equitangents_studies.common import kernel_classification
from equitangents_studies.common.image_ensembles import Chosen
from equitangents_studies.common.images import Images, load_images, stands_for
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.common.scores import table_mean
from equitangents_studies.data.dataset import balanced
from equitangents_studies.framework.measured import Keyed, Measured, Part, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Task, at_least, check, presets

KINDS = ("ntk", "nngp")
_FALLBACK = "digits"


@dataclass(frozen=True)
class Settings:
    """From a pool of `pool` training images, `draws` training sets of every size in `sizes`, classes in proportion;
    all are tested on the same `test_images`.

    `data` is a data set, or "auto": CIFAR-10 where the data folder has it, otherwise digits. Images are averaged down
    to at most `pixels`. GAP, VEC and FCN have `hidden_layers`. The trained CNN has `width` channels and takes `steps`
    steps of `batch` images by Adam; of `rates` it has the one that classifies best images of the pool that the first
    `tuned` draws leave. The random forest has `trees`. `checked` images compare averaged kernels with training on both
    copies. Sizes of images, networks and pools are our choice.
    """

    data: str = "auto"
    pixels: int = 12
    pool: int = 240
    test_images: int = 300
    sizes: tuple[int, ...] = (10, 20, 40, 80, 160)
    draws: int = 20
    hidden_layers: int = 4
    width: int = 32
    steps: int = 200
    batch: int = 32
    rates: tuple[float, ...] = (0.003, 0.01, 0.03)
    tuned: int = 2
    trees: int = 100
    checked: int = 6
    seed: int = 0

    def passes(self, size: int) -> int:
        """How often the CNN sees each of `size` training images: the whole passes that have `steps` steps or more."""
        return -(-self.steps // -(-size // self.batch))


_ALL_SIZES = (10, 20, 40, 80, 160, 320, 640, 1280)
PRESETS = presets(
    Settings(),
    desk="pool=1600 test_images=800 sizes=10,20,40,80,160,320,640,1280 width=64 steps=500 tuned=4 checked=12",
    paper="data=cifar10 pixels=32 pool=12800 test_images=10000 sizes=10,20,40,80,160,320,640,1280 hidden_layers=8 "
    "width=128 steps=5000 tuned=20 trees=500 checked=16",
)


def source(settings: Settings, data_dir: Path | None) -> str:
    """The data set that is used."""
    return stands_for(settings.data, data_dir, _FALLBACK)


def load(settings: Settings, data_dir: Path | None) -> Images:
    """The pool as training images, and the test images."""
    name = source(settings, data_dir)
    pixels = settings.pixels
    if name == _FALLBACK:
        pixels = min(pixels, data.digits().shape[0])
    chosen = Chosen(name, (), settings.pool, settings.test_images, 0, pixels, settings.seed)
    return load_images(chosen, data_dir)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Training sets that the pool can give, with images left to choose the learning rate on."""
    s = settings
    at_least(s, draws=2, hidden_layers=1, width=1, steps=1, batch=1, trees=1, checked=2, pixels=4, tuned=1)
    check(s.tuned <= s.draws, "tuned", s.tuned, f"at most draws, {s.draws}")
    check(len(s.rates) >= 1 and min(s.rates) > 0, "rates", s.rates, "a list of positive numbers")
    check(len(s.sizes) >= 1 and list(s.sizes) == sorted(set(s.sizes)), "sizes", s.sizes, "increasing")
    images = load(s, data_dir)
    check(s.sizes[0] >= images.classes, "sizes", s.sizes, f"at least the number of classes, {images.classes}, each")
    pool, side = len(images.train_x), images.train_x.shape[1]
    check(pool > s.sizes[-1] + 1, "pool", pool, f"larger than the largest size, {s.sizes[-1]}, by 2 at least")
    check(side % 4 == 0, "pixels", side, "a multiple of 4, for two pools of 2×2")


NETWORKS = ("Myrtle-5", "Myrtle-7", "GAP", "VEC", "FCN")
NONLINEARITIES = {"relu": "ReLU", "exponential": "normalised exponential"}
_BLOCKS = {"Myrtle-5": (2, 1, 1), "Myrtle-7": (2, 2, 2)}


def network(name: str, nonlinearity: str, hidden_layers: int, width: int = 1, outputs: int = 1) -> nn.Sequential:
    """The network `name`; its kernel does not depend on `width` and `outputs`."""
    W_std = 2**0.5 if nonlinearity == "relu" else 1.0  # either way the variance stays what it was
    act: nn.Layer = nn.Relu() if nonlinearity == "relu" else nn.Exponential()
    convolution: tuple[nn.Layer, ...] = (nn.Conv(width, (3, 3), padding="zero", W_std=W_std), act)
    layers: list[nn.Layer] = []
    if name in _BLOCKS:
        for i, count in enumerate(_BLOCKS[name]):
            layers += [*([nn.AvgPool(2)] if i else []), *convolution * count]
        layers.append(nn.GlobalAvgPool())
    elif name == "FCN":
        layers += [nn.Flatten(), *(nn.Dense(width, W_std=W_std), act) * hidden_layers]
    else:
        layers += [*convolution * hidden_layers, nn.GlobalAvgPool() if name == "GAP" else nn.Flatten()]
    return nn.Sequential(*layers, nn.Dense(outputs))


CNN, FOREST = "trained CNN", "random forest"


def kernel_name(network: str, nonlinearity: str, kind: str) -> str:
    """Such as "Myrtle-5 NTK", "GAP NNGP, exponential"."""
    return f"{network} {kind.upper()}" + (", exponential" if nonlinearity == "exponential" else "")


KERNELS = {
    kernel_name(network, phi, kind): (network, phi, kind)
    for network in NETWORKS
    for phi in NONLINEARITIES
    for kind in KINDS
}
MODELS = (*KERNELS, CNN, FOREST)


class Results(Measured):
    """By model, whether test images are classified `right`; `rates` of the trained CNN; `equal`: how far averaged
    kernels are from training on both copies. `data` is what was classified, `shape` of an image, `pool` how many images
    the draws are from.
    """

    right: dict[str, Bool[np.ndarray, "sizes draws n"]]
    rates: np.ndarray = by("", "size", of="networks.rate")
    equal: Keyed[float] = by("kernel", of="equal.differences")
    data: str
    shape: tuple[int, ...]
    pool: int

    def accuracy(self, model: str, size: int) -> Estimate:
        """Percent of the test images, mean over draws, at the given place in the sizes."""
        return table_mean(self.right[model][size].astype(float), (0, 1)).times(100)

    def lead(self, one: str, other: str, size: int, level: float = 0.95) -> Estimate:
        """Accuracy of `one` minus that of `other` in percentage points, paired by draw and test image."""
        difference = self.right[one][size].astype(float) - self.right[other][size]
        return table_mean(difference, (-1, 1), level).times(100)

    def mean_lead(self, one: str, other: str, sizes: int) -> Estimate:
        """Accuracy of `one` minus that of `other` in percentage points, mean over so many of the smallest sizes."""
        difference = self.right[one][:sizes].astype(float) - self.right[other][:sizes]
        return table_mean(difference.mean(axis=0), (-1, 1)).times(100)


_INVARIANT = 1e-5  # relative: float32 rounds kernels to about 1e-6
_RIDGE = 1e-3  # of the comparison with both copies, relative to the kernel's mean diagonal


def flip(x: Float[np.ndarray, "n height width channels"]) -> Float[np.ndarray, "n height width channels"]:
    """Every image with left and right exchanged."""
    return np.ascontiguousarray(x[:, :, ::-1])


def averaged_kernels(
    net: nn.Sequential,
    pool: Float[np.ndarray, "n height width channels"],
    test: Float[np.ndarray, "m height width channels"],
    step: Callable[[float, float], None],
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By kind, NTK and NNGP: (Θ̄ of the pool with itself, (N, N), and of test images with it, (M, N)).

    Tiles are kept on disk by content, so that a run that was killed goes on from its last one.
    """
    error = kernel_invariance_error(net, actions.image_dihedral(1), pool[:3])
    if not error <= _INVARIANT:
        raise InvalidArgumentError(f"the kernel is not invariant under flips: relative error {error:.1e}")
    kernel, flipped = KeptKernel(net, KernelStore()), flip(pool)
    columns = kernel.slices(len(pool))
    within = [(a, b) for i, a in enumerate(columns) for b in columns[i:]]
    across = [(a, b) for a in kernel.slices(len(test)) for b in columns]
    inner = {kind: np.empty((len(pool), len(pool)), np.float32) for kind in KINDS}
    outer = {kind: np.empty((len(test), len(pool)), np.float32) for kind in KINDS}
    total = len(within) + len(across)
    for done, (a, b) in enumerate(within, 1):
        for kind, block in _tile(kernel, pool[a], None if a == b else pool[b], flipped[b]).items():
            inner[kind][a, b] = block
            inner[kind][b, a] = block.T
        step(done, total)
    for done, (a, b) in enumerate(across, len(within) + 1):
        for kind, block in _tile(kernel, test[a], pool[b], flipped[b]).items():
            outer[kind][a, b] = block
        step(done, total)
    return {kind: (inner[kind], outer[kind]) for kind in KINDS}


def _tile(kernel: KeptKernel, x: np.ndarray, other: np.ndarray | None, flipped: np.ndarray) -> dict[str, np.ndarray]:
    """The average of both kernels of x, with `other` (None: itself) and with flipped images."""
    plain, moved = kernel.one_tile(x, other)[0], kernel.one_tile(x, flipped)[0]
    return {kind: (np.asarray(getattr(plain, kind)) + np.asarray(getattr(moved, kind))) / 2 for kind in KINDS}


def both_copies(net: nn.Sequential, x: np.ndarray, targets: np.ndarray, test: np.ndarray) -> Arrays:
    """By kind, how far predictions from Θ̄ are from those from training on both copies, relative to the largest."""
    x, test = x.astype(np.float64), test.astype(np.float64)
    twice = np.concatenate([x, flip(x)])
    n = len(x)
    found: Arrays = {}
    inner, outer = net.kernel(twice), net.kernel(test, twice)
    for kind in KINDS:
        K, k = np.asarray(getattr(inner, kind)), np.asarray(getattr(outer, kind))
        trained = partial(solve, ridge_unit=float(np.diagonal(K).mean()), solver="cholesky")
        copied = k @ trained(K, np.concatenate([targets, targets]), ridge=2 * _RIDGE).coefficients
        mean = (K[:n, :n] + K[:n, n:]) / 2
        averaged = (k[:, :n] + k[:, n:]) / 2 @ trained(mean, targets, ridge=_RIDGE).coefficients
        found[kind] = np.array(largest_difference(averaged, copied))
    return found


Draws = list[np.ndarray]  # rows of the pool, a set for each
Step = Callable[[float, float], None]

_VALIDATION = 500  # images of the pool that a draw leaves, at most, on which the learning rate is chosen


def train(settings: Settings, images: Images, rows: np.ndarray, rate: float, seed: int) -> DeepEnsemble:
    """One network on the squared loss of one-hot targets; every image is flipped or not, anew in each epoch."""
    net = network("Myrtle-5", "relu", settings.hidden_layers, settings.width, images.classes)
    epochs = settings.passes(len(rows))
    model = DeepEnsemble(
        net,
        members=1,
        augmentation=actions.image_dihedral(1),
        augmentation_mode="random",
        optimizer="adam",
        learning_rate=rate,
        epochs=epochs,
        batch_size=settings.batch,
        seed=seed,
    )
    return model.fit(images.train_x[rows], images.targets[rows])


def classified(model: DeepEnsemble, x: np.ndarray) -> np.ndarray:
    """Classes by the mean of the outputs for an image and for its flip; −1, no class, where these are not finite."""
    outputs = np.asarray(model.predict(x) + model.predict(flip(x)))
    return np.where(np.isfinite(outputs).all(axis=1), outputs.argmax(axis=1), -1)


def networks(settings: Settings, images: Images, draws: Draws, step: Step) -> Arrays:
    """`right` (draws, test images), and the learning `rate`: of those allowed, the best on images left in the pool.

    The first `tuned` draws choose it. A rate at which training diverges counts as always wrong.
    """
    total = settings.tuned * len(settings.rates) + len(draws)
    scores = np.zeros((len(settings.rates), settings.tuned))
    for i, rate in enumerate(settings.rates):
        for d in range(settings.tuned):
            left = np.setdiff1d(np.arange(len(images.train_x)), draws[d])
            left = np.random.default_rng((settings.seed, d)).permutation(left)[:_VALIDATION]
            model = train(settings, images, draws[d], rate, settings.seed + d)
            scores[i, d] = np.mean(classified(model, images.train_x[left]) == images.train_y[left])
            step(i * settings.tuned + d + 1, total)
    rate = settings.rates[int(scores.mean(axis=1).argmax())]
    right = []
    for d, rows in enumerate(draws):
        model = train(settings, images, rows, rate, settings.seed + d)
        right.append(classified(model, images.sets["test"]) == images.test_y)
        step(total - len(draws) + d + 1, total)
    return {"right": np.array(right), "rate": np.array(rate)}


def forests(settings: Settings, images: Images, draws: Draws, step: Step) -> Arrays:
    """`right` (draws, test images) of forests that see both copies of every image, in training and in test."""
    flat = lambda x: x.reshape(len(x), -1)
    test, right = images.sets["test"], []
    for d, rows in enumerate(draws):
        x, y = images.train_x[rows], images.train_y[rows]
        forest = RandomForestClassifier(settings.trees, random_state=settings.seed + d)
        forest.fit(flat(np.concatenate([x, flip(x)])), np.concatenate([y, y]))
        chances = forest.predict_proba(flat(test)) + forest.predict_proba(flat(flip(test)))
        right.append(forest.classes_[chances.argmax(axis=1)] == images.test_y)
        step(d + 1, len(draws))
    return {"right": np.array(right)}


_KERNELS_SHARE = 0.8  # of a stage's bar that its kernels take; the rest are fits


def training_sets(settings: Settings, images: Images, size: int) -> list[np.ndarray]:
    """Rows of the pool, a set for each draw, classes in proportion: the same for all models."""
    return [
        balanced(images.train_y, size, np.random.default_rng((settings.seed, size, d)), "images of the pool")
        for d in range(settings.draws)
    ]


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Every kernel once, over all images; then all draws of all sizes out of it. Networks and forests by size."""
    images, draws = load(settings, folder.data_dir), settings.draws
    of_a_size = lambda compute, size, task: compute(settings, images, training_sets(settings, images, size), task.step)
    pairs = f"{len(images.train_x)} + {len(images.test_y)} images, flips averaged"
    found = measured(
        folder,
        Part(
            "{network}-{nonlinearity}",
            lambda name, phi: f"{name}, {NONLINEARITIES[phi]}: kernels of {pairs}",
            partial(_kernel, settings, images),
            file=str.lower,
        ),
        Part("networks-{size}", f"{draws} networks, {{size}} training images", partial(of_a_size, networks)),
        Part("forests-{size}", f"{draws} forests, {{size}} training images", partial(of_a_size, forests)),
        Part("equal", "Training on both copies", partial(_equal, settings, images)),
        levels={
            "network": NETWORKS,
            "nonlinearity": tuple(NONLINEARITIES),
            "kind": KINDS,
            "kernel": tuple(KERNELS),
            "size": settings.sizes,
        },
    )
    tables = found.by("network nonlinearity kind", "{kind}", "size draw image")
    right = {kernel_name(*key): table for key, table in tables.items()}
    for name, label in ((CNN, "networks"), (FOREST, "forests")):
        right[name] = np.stack([table for _, table in found.arrays(f"{label}.right")])
    return Results.read(
        found,
        right=right,
        data=source(settings, folder.data_dir),
        shape=images.train_x.shape[1:],
        pool=len(images.train_x),
    )


def _kernel(settings: Settings, images: Images, name: str, phi: str, task: Task) -> Arrays:
    """By kind, which test images are right: (sizes, draws, test images)."""
    net = network(name, phi, settings.hidden_layers)
    step = lambda done, total: task.step(_KERNELS_SHARE * done / total, 1)
    kernels = averaged_kernels(net, images.train_x, images.sets["test"], step)
    right = {kind: np.zeros((len(settings.sizes), settings.draws, len(images.test_y)), bool) for kind in KINDS}
    for i, size in enumerate(settings.sizes):
        for d, rows in enumerate(training_sets(settings, images, size)):
            for kind, (inner, outer) in kernels.items():
                fit = kernel_classification.fit(inner[np.ix_(rows, rows)], images.train_y[rows], images.classes)
                right[kind][i, d] = fit.predict(outer[:, rows]) == images.test_y
            done = (i + (d + 1) / settings.draws) / len(settings.sizes)
            task.step(_KERNELS_SHARE + (1 - _KERNELS_SHARE) * done, 1)
    return dict(right)


def _equal(settings: Settings, images: Images, task: Task) -> Arrays:
    """Averaged kernels against training on both copies, of every network on a few images."""
    n = settings.checked
    differences: dict[str, float] = {}
    for name in NETWORKS:
        for phi in NONLINEARITIES:
            net = network(name, phi, settings.hidden_layers)
            found = both_copies(net, images.train_x[:n], images.targets[:n], images.sets["test"][:n])
            differences |= {kernel_name(name, phi, kind): float(found[kind]) for kind in KINDS}
            task.step(len(differences), 2 * len(NETWORKS) * len(NONLINEARITIES))
    return {"names": np.array(list(differences)), "differences": np.array(list(differences.values()))}
