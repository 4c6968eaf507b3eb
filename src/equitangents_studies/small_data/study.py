"""Few images: kernels of infinitely wide convolutional networks against a trained CNN and a random forest.

Claimed for CIFAR-10: with 10 to 640 training images the tangent kernel of a convolutional network classifies 1 to 3
percentage points more of the test images rightly than a trained network. Every kernel is averaged exactly over flips.

Kernels averaged over horizontal flips: Θ̄(x, x′) = (Θ(x, x′) + Θ(x, Fx′))/2, as Θ(Fx, Fx′) = Θ(x, x′).

The same predictor as from training on both copies: with ridge λ here, 2λ there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from jaxtyping import Float
from sklearn.ensemble import RandomForestClassifier

from equitangents import actions, nn
from equitangents.ensembles import DeepEnsemble
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import KeptKernel, KernelStore, kernel_invariance_error
from equitangents.solvers import solve
from equitangents_studies.common import kernel_classification
from equitangents_studies.common.images import Images
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.data.dataset import balanced
from equitangents_studies.framework.measured import Part, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Study, Task
from equitangents_studies.framework.works import SMALL_DATA, WITHOUT_TANGENTS
from equitangents_studies.small_data.claims import claims
from equitangents_studies.small_data.settings import (
    CNN,
    FOREST,
    KERNELS,
    KINDS,
    NETWORKS,
    NONLINEARITIES,
    PRESETS,
    Results,
    Settings,
    check_settings,
    kernel_name,
    load,
    network,
    source,
)

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


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (SMALL_DATA, WITHOUT_TANGENTS), check_settings)
