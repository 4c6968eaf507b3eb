"""A continuous group sampled by finite ones: SO(2) after augmentation with C_k.

Claimed (Lemma 6.2): the mean changes by at most κ C(x) under any rotation, κ the distance of the group from C_k. Images
are rotated in two ways: on rings, where rotation by any angle is exact, and by resampling pixels, which has a floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from equitangents import actions, data
from equitangents.report.verdict import Verdict
from equitangents.statistics import (
    Estimate,
    bootstrap,
    exactly,
    power_law,
    shared_level,
    squared_mean,
)
from equitangents.studies.common.images import standardise
from equitangents.studies.common.infinite import gradient_descent, orbit_means
from equitangents.studies.common.networks import mlp
from equitangents.studies.common.orbits import by_element, orbit_batch
from equitangents.studies.common.rotation_bound import coarseness, largest_gradients, representation
from equitangents.studies.common.training import train_recorded
from equitangents.studies.framework.citations import EMERGENT_EQUIVARIANCE
from equitangents.studies.framework.compatibility import Presentation, Study, judge
from equitangents.studies.framework.folder import Arrays, RunFolder
from equitangents.studies.framework.progress import Task
from equitangents.studies.framework.settings import check

STATED = "stated in arXiv 2403.03103"
WAYS = ("rings", "pixels")


@dataclass(frozen=True)
class Settings:
    """Models are augmented with C_k for every k of `orders` and tested at `angles` angles, a multiple of each k.

    `rings` × `samples` (odd) read an image along circles; `points`² places on every chord are searched for the largest
    gradient; `trained` are orders k at which finite ensembles are trained too. `rate` is a fraction of the largest
    stable learning rate. Sizes are our choice.
    """

    data: str = "digits"
    train_images: int = 40
    test_images: int = 24
    orders: tuple[int, ...] = (2, 4, 8, 16, 32)
    angles: int = 128
    rings: int = 4
    samples: int = 15
    points: int = 5
    steps: tuple[int, ...] = (1, 10, 100)
    trained: tuple[int, ...] = (2, 4)
    members: int = 60
    width: int = 256
    hidden_layers: int = 2
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "paper": Settings(
        data="fashion_mnist",
        train_images=100,
        test_images=100,
        rings=14,
        samples=45,
        points=3,
        steps=(1, 10, 100, 1000),
        trained=(2, 4, 8),
        members=500,
        width=512,
    ),
}


@dataclass(frozen=True, eq=False)
class Results:
    """By way ("rings", "pixels"): `kappa[way]` (orders,), `profile[way]` (orders, T, angles, N), |f̄(ρ(g)x) − f̄(x)|,
    `floor` (orders, T, angles, N), |f̄(ρ(g)⁻¹ρ(g)x) − f̄(x)| by resampling pixels, `round_trip` (angles,) the relative
    change of the images themselves, `constant` (orders, T, N), C(x) on rings, `size[way]` (orders, T), the root mean
    square prediction. `members[k]` (M, angles, N, K), finite ensembles on rings after the last step.
    """

    steps: np.ndarray
    kappa: dict[str, np.ndarray]
    profile: dict[str, np.ndarray]
    size: dict[str, np.ndarray]
    floor: np.ndarray
    round_trip: np.ndarray
    constant: np.ndarray
    members: dict[int, np.ndarray]

    def relative(self, way: str) -> np.ndarray:
        """Mean square violation over angles, relative to the mean square prediction: (orders, T, N)."""
        return (self.profile[way] ** 2).mean(axis=2) / self.size[way][..., None] ** 2

    def relative_floor(self) -> np.ndarray:
        """The same for the floor, over the angles that resample: (orders, T, N)."""
        return (self.floor[:, :, self.round_trip > 0] ** 2).mean(axis=2) / self.size["pixels"][..., None] ** 2


def _images(
    settings: Settings, folder: RunFolder | None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
    """Training inputs, test inputs, each by way, and targets."""
    source = data.load(settings.data, None if folder is None else folder.data_dir)
    source = source.subset(settings.train_images, settings.test_images, seed=settings.seed)
    train, test = (standardise(x).astype(np.float64) for x in (source.train_x, source.test_x))
    rings = lambda x: actions.to_rings(x, settings.rings, settings.samples)
    # outside the disc nothing comes back after a turn: the mask leaves out the corners
    cut = lambda x: np.asarray(_action("pixels", 4)(0, x))
    targets = np.eye(source.classes)[source.train_y] - 1 / source.classes
    return {"rings": rings(train), "pixels": cut(train)}, {"rings": rings(test), "pixels": cut(test)}, targets


def _action(way: str, n: int) -> actions.Action:
    return actions.ring_rotations(n) if way == "rings" else actions.image_rotations(n, mask="circle")


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Both ways in closed form for every k, then finite ensembles on rings."""
    check(all(settings.angles % k == 0 for k in settings.orders), "angles", settings.angles, "a multiple of each order")
    check(len(settings.orders) >= 2 and list(settings.orders) == sorted(set(settings.orders)), "orders",
          settings.orders, "at least two orders, increasing")  # fmt: skip
    check(settings.samples % 2 == 1, "samples", settings.samples, "odd")
    check(set(settings.trained) <= set(settings.orders), "trained", settings.trained, "among orders")
    check(settings.members >= 3, "members", settings.members, "at least 3")
    kappa = folder.stage("kappa", "Distance of C_k from SO(2)", lambda task: _kappa(settings, folder, task))
    closed = {
        (way, k): folder.stage(f"{way}-{k}", f"C{k} on {way}, closed form", partial(_closed, settings, folder, way, k))
        for way in WAYS
        for k in settings.orders
    }
    of = lambda way, key: np.stack([closed[way, k][key] for k in settings.orders])
    members = {
        k: folder.stage(f"ensemble-{k}", f"Training {settings.members} members, C{k} on rings",
                        partial(_trained, settings, folder, k, float(closed["rings", k]["rate"])))["members"]
        for k in settings.trained
    }  # fmt: skip
    return Results(
        steps=_steps(settings),
        kappa={way: kappa[way] for way in WAYS},
        profile={way: of(way, "profile") for way in WAYS},
        size={way: of(way, "size") for way in WAYS},
        floor=of("pixels", "floor"),
        round_trip=kappa["round_trip"],
        constant=of("rings", "constant"),
        members=members,
    )


def _steps(settings: Settings) -> np.ndarray:
    return np.array(sorted(set(settings.steps)))


def _kappa(settings: Settings, folder: RunFolder, task: Task) -> Arrays:
    _, test, _ = _images(settings, folder)
    arrays: Arrays = {}
    for i, way in enumerate(WAYS):
        # every ring turns alike, so that one is enough
        shape = (1, settings.samples, 1) if way == "rings" else (*test["pixels"].shape[1:-1], 1)
        matrices = representation(_action(way, settings.angles), shape)
        arrays[way] = np.array([coarseness(matrices, k) for k in settings.orders])
        task.step(i + 1, len(WAYS))
    arrays["round_trip"] = _action("pixels", settings.angles).resampling_error(test["pixels"]).values.mean(axis=1)
    arrays["round_trip"][arrays["round_trip"] < 1e-12] = 0
    return arrays


def _closed(settings: Settings, folder: RunFolder, way: str, k: int, task: Task) -> Arrays:
    train, test, y = _images(settings, folder)
    x, fine = test[way], _action(way, settings.angles)
    net = mlp(1, settings.hidden_layers, y.shape[1], W_std=settings.W_std, b_std=settings.b_std, flatten=True)
    model = gradient_descent(net, train[way], y, settings.rate, augmentation=_action(way, k))
    times = _steps(settings)
    means = orbit_means(model, fine, x, times)
    arrays: Arrays = {
        "rate": np.array(model.learning_rate),
        "profile": np.linalg.norm(means - means[:, :1], axis=-1),
        "size": np.sqrt((means[:, 0] ** 2).sum(axis=-1).mean(axis=-1)),
    }
    if way == "pixels":
        back = np.concatenate([np.asarray(fine(fine.group.inverse(g), fine(g, x))) for g in fine.group])
        returned = by_element(fine, model.predict(back, time=times))
        arrays["floor"] = np.linalg.norm(returned - means[:, :1], axis=-1)
    else:
        predict = lambda z: model.predict(z, time=times)
        turn = lambda z, angle: np.asarray(actions.turn_rings(z, np.array([angle])))[0]
        gradients = largest_gradients(predict, turn, x, k, settings.points)
        arrays["constant"] = gradients * np.sqrt((x**2).sum(axis=(1, 2, 3)))
    return arrays


def _trained(settings: Settings, folder: RunFolder, k: int, rate: float, task: Task) -> Arrays:
    train, test, y = _images(settings, folder)
    fine, last = _action("rings", settings.angles), int(_steps(settings)[-1])
    net = mlp(
        settings.width, settings.hidden_layers, y.shape[1], W_std=settings.W_std, b_std=settings.b_std, flatten=True
    )
    recorded = train_recorded(
        net,
        train["rings"],
        y,
        augmentation=_action("rings", k),
        members=settings.members,
        optimizer="gd",
        learning_rate=rate,
        epochs=last,
        record={"test": orbit_batch(fine, test["rings"])},
        record_at=[last],
        checkpoints=folder.checkpoints(f"ensemble-{k}"),
        task=task,
        seed=settings.seed,
    )
    return {"members": by_element(fine, recorded["test"][0]).astype(np.float32)}


def finite_violation(settings: Settings, results: Results, k: int, level: float = 0.95) -> Estimate:
    """Mean square violation of the mean of infinitely many members, over that of the closed form, square root."""
    y = results.members[k].astype(np.float64)
    found = squared_mean((y[:, 1:] - y[:, :1]).reshape(len(y), -1), level=level)
    outputs = y.shape[-1]
    expected = (results.profile["rings"][settings.orders.index(k), -1, 1:] ** 2).mean() / outputs
    root = lambda v: float(np.sqrt(max(v, 0) / expected))
    return Estimate(root(found.value), root(found.low), root(found.high), level)


def bound_share(results: Results) -> np.ndarray:
    """max_g |f̄(ρ(g)x) − f̄(x)| / (κ C(x)) on rings: (orders, T, N)."""
    return results.profile["rings"].max(axis=2) / (results.kappa["rings"][:, None, None] * results.constant)


def claims(settings: Settings, results: Results) -> Sequence[Verdict]:
    """The lemma, invariance under C_k itself, the slope, the floor of resampling, and finite ensembles."""
    steps = list(map(int, results.steps))
    after = lambda k, t: f"C{k}, after {steps[t]} step{'s' if steps[t] > 1 else ''}"
    cells = [(i, k, t) for i, k in enumerate(settings.orders) for t in range(len(steps))]
    share = bound_share(results)
    own = {
        after(k, t): exactly(
            results.profile["rings"][i, t, :: settings.angles // k].max() / results.size["rings"][i, t]
        )
        for i, k, t in cells
    }
    level = shared_level(len(steps))
    slopes = {
        f"after {step} steps": power_law(results.kappa["rings"], results.relative("rings")[:, t].T, level=level)
        for t, step in enumerate(steps)
    }
    finest = lambda way: results.relative(way)[-1]
    floor = results.relative_floor()[-1]
    ratio = lambda a, t: bootstrap(
        np.stack([a[t], floor[t]], axis=1), lambda m: np.sqrt(m[:, 0] / m[:, 1]), level=shared_level(len(steps))
    )
    verdicts = [
        judge(
            "Under any rotation the mean changes by at most κ C(x)",
            {after(k, t): exactly(share[i, t].max()) for i, k, t in cells},
            measure="On rings: largest change over angles divided by κ C(x), for the worst input. C(x) = |x| times "
            f"the largest gradient of the closed-form mean at {settings.points}² places on the chords, by central "
            "differences.",
            at_most=1,
            source=STATED + ", Lemma 6.2",
        ),
        judge(
            "Under the rotations of C_k it does not change",
            own,
            measure="On rings: largest change under C_k, relative to the root mean square prediction.",
            at_most=1e-8,
            source=STATED,
        ),
        judge(
            "The change falls at least in proportion to κ",
            slopes,
            measure="On rings: exponent of the root mean square change against κ; intervals over inputs.",
            at_least=1,
            source="expected from the lemma",
        ),
        judge(
            f"After augmentation with C{settings.orders[-1]} what is left on pixels is the error of resampling",
            {f"after {step} steps": ratio(finest("pixels"), t) for t, step in enumerate(steps)},
            measure="Root mean square change under rotations of pixels over that under turning forth and back.",
            at_most=2,
            source="our question; the bound is our choice",
        ),
        judge(
            f"Exact rotations of rings go below that floor with C{settings.orders[-1]}",
            {f"after {step} steps": ratio(finest("rings"), t) for t, step in enumerate(steps)},
            measure="Root mean square relative change on rings over the floor of resampled pixels.",
            at_most=0.5,
            source="our question; the bound is our choice",
        ),
    ]
    if settings.trained:
        level = shared_level(len(settings.trained))
        verdicts.append(
            judge(
                "Trained ensembles, less their sampling error, violate the symmetry as much as the closed form says",
                {f"C{k}": finite_violation(settings, results, k, level) for k in settings.trained},
                measure=f"On rings after {steps[-1]} steps: root mean square change of the mean of members of width "
                f"{settings.width}, without sampling bias, over that of the closed form.",
                at_least=0.5,
                at_most=2,
                source="expected; the bounds are our choice",
            )
        )
    return verdicts


def _present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    from equitangents.studies.continuous.page import present  # which imports from here

    return present(settings, results, verdicts, folder)


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, _present, (EMERGENT_EQUIVARIANCE,))
