"""A continuous group sampled by finite ones: SO(2) after augmentation with C_k.

Claimed (Lemma 6.2): the mean changes by at most κ C(x) under any rotation, κ the distance of the group from C_k. Images
are rotated in two ways: on rings, where rotation by any angle is exact, and by resampling pixels, which has a noise
floor. Ensembles of CNNs are trained on images in k orientations and tested at all angles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from equitangents import actions, nn
from equitangents.report import Figure, palette
from equitangents.statistics import Estimate, bootstrap, exactly, power_law, shared_level, t_interval
from equitangents_studies import data
from equitangents_studies.common.ensembles import (
    AnswersOnOrbits,
    EnsembleRecipe,
    check_images,
    rotations,
    train_on_orbits,
)
from equitangents_studies.common.images import Chosen, load_images, standardise
from equitangents_studies.common.infinite import gradient_descent, orbit_means
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.orbits import by_element, there_and_back
from equitangents_studies.common.rotation_bound import coarseness, largest_gradients, representation
from equitangents_studies.common.scores import covered, table_mean
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EMERGENT_EQUIVARIANCE
from equitangents_studies.framework.claims import Claim, Records, after, claim, exact, ours, proved, theirs, to_rounding
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets


@dataclass(frozen=True)
class ContinuousSettings:
    """Models are augmented with C_k for every k of `orders` and tested at `angles` angles, a multiple of each k.

    `rings` × `samples` (odd) read an image along circles; `points`² places on every chord are searched for the largest
    gradient. `rate` is a fraction of the largest stable learning rate. `pixels` averages images down for the closed
    form. Sizes are our choice.

    Image ensembles are CNNs of `channels`, the first layer of which reads patches of `patch` × `patch` pixels, trained
    with C_k for every k of `image_orders` (none: left out) for as many `epochs`, each of which shows every image in k
    orientations. There are `ensembles` disjoint ensembles of `image_members` members. `foreign` are test sets unlike
    the training data: "photographs", "noise" or data sets.
    """

    data: str = "digits"
    train_images: int = 40
    test_images: int = 24
    pixels: int | None = None
    orders: tuple[int, ...] = (2, 4, 8, 16, 32)
    angles: int = 128
    rings: int = 4
    samples: int = 15
    points: int = 5
    steps: tuple[int, ...] = (1, 10, 100)
    hidden_layers: int = 2
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.1
    image_orders: tuple[int, ...] = (2, 4, 8, 16, 32)
    image_train: int | None = 200
    image_test: int | None = 80
    image_pixels: int | None = None
    foreign: tuple[str, ...] = ("photographs", "noise")
    foreign_images: int = 40
    image_members: int = 4
    ensembles: int = 10
    patch: int = 2
    channels: tuple[int, ...] = (16, 16)
    epochs: int = 4
    batch: int = 32
    learning_rate: float = 0.02
    seed: int = 0

    @property
    def images(self) -> Chosen:
        """The images of the image ensembles."""
        return Chosen(
            self.data, self.foreign, self.image_train, self.image_test, self.foreign_images, self.image_pixels,
            self.seed,
        )  # fmt: skip

    @property
    def recipe(self) -> EnsembleRecipe:
        """Training of the image ensembles."""
        return EnsembleRecipe(
            self.patch, self.channels, self.image_members, self.ensembles, self.batch, self.learning_rate
        )


PRESETS = presets(
    ContinuousSettings(),
    desk="data=fashion_mnist train_images=60 test_images=40 pixels=14 rings=7 samples=25 points=3 "
    "image_train=1600 foreign=mnist,cifar10,noise foreign_images=30 image_members=5 epochs=8",
    paper="data=fashion_mnist train_images=100 test_images=100 rings=14 samples=45 points=3 steps=1,10,100,1000 "
    "image_train=20000 image_test=300 foreign=mnist,cifar10,noise "
    "foreign_images=100 image_members=10 channels=64,64,64 epochs=16 batch=128 learning_rate=0.01",
)


def check_settings(settings: ContinuousSettings, data_dir: Path | None) -> None:
    """Require angles that contain every subgroup, and available images."""
    for name in ("orders", "image_orders"):
        orders = getattr(settings, name)
        check(all(settings.angles % k == 0 for k in orders), "angles", settings.angles, f"a multiple of each of {name}")
        increasing = len(orders) >= 2 and list(orders) == sorted(set(orders))
        check(increasing or (name == "image_orders" and not orders), name, orders, "at least two orders, increasing")
    check(settings.samples % 2 == 1, "samples", settings.samples, "odd")
    at_least(settings, image_members=2, ensembles=1, epochs=1, batch=1, patch=1, foreign_images=1)
    side = data.load(settings.data, data_dir).shape[0]
    fits = settings.pixels is None or 2 <= settings.pixels <= side
    check(fits, "pixels", settings.pixels, f"between 2 and the {side} that images of {settings.data!r} have")
    if settings.image_orders:
        check_images(settings.images, settings.recipe, data_dir)


WAYS = ("rings", "pixels")


class ContinuousResults(Results):
    """By way ("rings", "pixels"): `kappa`, `profile`, |f̄(ρ(g)x) − f̄(x)|, and `size`, the root mean square prediction.
    `noise_floor`, |f̄(ρ(g)⁻¹ρ(g)x) − f̄(x)| by resampling pixels, `round_trip` the relative change of the images
    themselves, `constant`, C(x) on rings. `images` are the image ensembles, None where they were left out.
    """

    steps: np.ndarray
    kappa: Keyed[np.ndarray] = by("way", "k", of="kappa.{way}")
    profile: Keyed[np.ndarray] = by("way", "k step angle image", of="{way}.profile")
    size: Keyed[np.ndarray] = by("way", "k step", of="{way}.size")
    noise_floor: np.ndarray = by("", "k step angle image", of="pixels.noise_floor")
    round_trip: np.ndarray = by("", "angle")
    constant: np.ndarray = by("", "k step image", of="rings.constant")
    images: ImageEnsembles | None = None

    def relative(self, way: str) -> np.ndarray:
        """Mean square violation over angles, relative to the mean square prediction: (orders, T, N)."""
        return (self.profile[way] ** 2).mean(axis=2) / self.size[way][..., None] ** 2

    def relative_noise_floor(self) -> np.ndarray:
        """Mean square noise floor over resampled angles, relative to the mean square prediction: (orders, T, N)."""
        return (self.noise_floor[:, :, self.round_trip > 0] ** 2).mean(axis=2) / self.size["pixels"][..., None] ** 2


def bound_share(results: ContinuousResults) -> np.ndarray:
    """max_g |f̄(ρ(g)x) − f̄(x)| / (κ C(x)) on rings: (orders, T, N)."""
    return results.profile["rings"].max(axis=2) / (results.kappa["rings"][:, None, None] * results.constant)


@dataclass(frozen=True, eq=False)
class ImageEnsembles(AnswersOnOrbits):
    """Predictions of ensembles trained with C_k, by k, after the last epoch: (R, angles, N).

    Agreement is the share of all angles at which the predicted class is that of the upright image.
    """

    epochs: int

    SHARES = True

    @property
    def orders(self) -> tuple[int, ...]:
        """Every k."""
        return tuple(self.answers)

    def mean_difference(self, off: np.ndarray, level: float = 0.95) -> Estimate:
        """Mean of paired differences of shares (R, N), with its interval."""
        return table_mean(off, (-1.0, 1.0), level)


def _images(
    settings: ContinuousSettings, data_dir: Path | None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
    """Training inputs and test inputs, both by way, and targets."""
    source = data.load(settings.data, data_dir).subset(settings.train_images, settings.test_images, seed=settings.seed)
    side = source.shape[0] if settings.pixels is None else settings.pixels
    sized = (data.resize(x, (side, side)) for x in (source.train_x, source.test_x))
    train, test = (standardise(x).astype(np.float64) for x in sized)
    rings = lambda x: actions.to_rings(x, settings.rings, settings.samples)
    # the corners outside the disc are lost by a rotation: the mask leaves them out
    cut = lambda x: np.asarray(_action("pixels", 4)(0, x))
    targets = np.eye(source.classes)[source.train_y] - 1 / source.classes
    return {"rings": rings(train), "pixels": cut(train)}, {"rings": rings(test), "pixels": cut(test)}, targets


def _action(way: str, n: int) -> actions.Action:
    return actions.ring_rotations(n) if way == "rings" else actions.image_rotations(n, mask="circle")


def measure(settings: ContinuousSettings, folder: RunFolder) -> ContinuousResults:
    """Solve both ways in closed form for every k, then train image ensembles."""
    train, test, y = _images(settings, folder.data_dir)
    levels = {"way": WAYS, "k": settings.orders, "step": _steps(settings)}
    closed = [
        Stages(
            f"{way}-{{k}}", f"C{{k}} on {way}, closed form", partial(_closed, settings, way, train[way], y, test[way])
        )
        for way in WAYS
    ]
    found = measured(
        folder,
        Stages("kappa", "Distance of C_k from SO(2)", partial(_kappa, settings, test["pixels"])),
        *closed,
        levels=levels,
    )
    images = _image_ensembles(settings, folder) if settings.image_orders else None
    return ContinuousResults.read(found, steps=_steps(settings), images=images)


def _image_ensembles(settings: ContinuousSettings, folder: RunFolder) -> ImageEnsembles:
    """Train all networks for every k; each k is one stage."""
    images, recipe = load_images(settings.images, folder.data_dir), settings.recipe
    fine = rotations(settings.angles)
    trained = {
        k: train_on_orbits(
            folder,
            f"images-{k}",
            f"Training {recipe.networks} CNNs, images in {k} orientations",
            recipe,
            images,
            fine,
            [settings.epochs],
            augmentation=rotations(k),
            seed=settings.seed,
        )
        for k in settings.image_orders
    }
    found = {k: {key: of[0] for key, of in arrays.items()} for k, arrays in folder.stages(trained).items()}
    return ImageEnsembles(images, fine, recipe, found, settings.epochs)


def _steps(settings: ContinuousSettings) -> np.ndarray:
    return np.array(sorted(set(settings.steps)))


def _network(settings: ContinuousSettings, outputs: int) -> nn.Sequential:
    return mlp(1, settings.hidden_layers, outputs, W_std=settings.W_std, b_std=settings.b_std, flatten=True)


def _kappa(settings: ContinuousSettings, images: np.ndarray, task: Task) -> Arrays:
    # all rings rotate alike, so one is enough
    shapes = {"rings": (1, settings.samples, 1), "pixels": (*images.shape[1:-1], 1)}
    arrays: Arrays = {}
    for i, (way, shape) in enumerate(shapes.items()):
        matrices = representation(_action(way, settings.angles), shape)
        arrays[way] = np.array([coarseness(matrices, k) for k in settings.orders])
        task.step(i + 1, len(shapes))
    changes = _action("pixels", settings.angles).resampling_error(images).mean(axis=1)
    return {**arrays, "round_trip": np.where(changes < 1e-12, 0, changes)}


def _closed(
    settings: ContinuousSettings, way: str, train: np.ndarray, y: np.ndarray, x: np.ndarray, k: int, task: Task
) -> Arrays:
    fine, times = _action(way, settings.angles), _steps(settings)
    model = gradient_descent(_network(settings, y.shape[1]), train, y, settings.rate, augmentation=_action(way, k))
    predict = lambda z: model.predict(z, time=times)
    means = orbit_means(model, fine, x, times)
    arrays: Arrays = {
        "profile": np.linalg.norm(means - means[:, :1], axis=-1),
        "size": np.sqrt((means[:, 0] ** 2).sum(axis=-1).mean(axis=-1)),
    }
    if way == "pixels":
        back = predict(there_and_back(fine, x))
        arrays["noise_floor"] = np.linalg.norm(by_element(fine, back) - means[:, :1], axis=-1)
    else:
        rotate = lambda z, angle: np.asarray(actions.rotate_rings(z, np.array([angle])))[0]
        gradients = largest_gradients(predict, rotate, x, k, settings.points)
        arrays["constant"] = gradients * np.sqrt((x**2).sum(axis=(1, 2, 3)))
    return arrays


def claims(settings: ContinuousSettings, results: ContinuousResults) -> Sequence[Claim]:
    """The lemma, invariance under C_k itself, the slope, the noise floor of resampling, image ensembles."""
    times, orders, finest = range(len(results.steps)), settings.orders, settings.orders[-1]
    when = lambda t: after(int(results.steps[t]))
    label = lambda k, t: f"C{k}, {when(t)}"
    share, noise_floor, each = bound_share(results), results.relative_noise_floor()[-1], shared_level(len(times))
    over_inputs, chosen = partial(claim, covers="inputs"), ours("our question; the bound is our choice")

    def own(k: int, t: int) -> Estimate:
        i = orders.index(k)
        return exactly(results.profile["rings"][i, t, :: settings.angles // k].max() / results.size["rings"][i, t])

    def over_noise_floor(way: str) -> Records:
        both = [np.stack([results.relative(way)[-1, t], noise_floor[t]], axis=1) for t in times]
        root = lambda m: np.sqrt(m[:, 0] / m[:, 1])
        return Records.over(lambda t: bootstrap(both[t], root, confidence=each), when, t=times)

    slope = lambda t: power_law(results.kappa["rings"], results.relative("rings")[:, t].T, confidence=each)
    found = [
        exact(
            "On the test images the mean changes by at most κ C(x) under any rotation tried",
            Records.over(lambda k, t: exactly(share[orders.index(k), t].max()), label, k=orders, t=times),
            measure="On rings: largest change over angles divided by κ C(x), for the worst input. C(x) = |x| times "
            f"the largest gradient of the closed-form mean at {settings.points}² places on the chords, by central "
            "differences.",
            at_most=1,
            by=proved(EMERGENT_EQUIVARIANCE, "Lemma 6.2", "at most 1"),
        ),
        to_rounding(
            "On the test images the mean does not change under the rotations of C_k, to rounding",
            Records.over(own, label, k=orders, t=times),
            measure="On rings: largest change under C_k, relative to the root mean square prediction.",
            by=proved(EMERGENT_EQUIVARIANCE, "main theorem", "0"),
        ),
        over_inputs(
            "The change under all rotations falls at least in proportion to κ",
            Records.over(slope, when, t=times),
            measure="On rings: exponent of the root mean square change against κ.",
            at_least=1,
            by=ours("expected from the lemma, which bounds the change by κ", stated="at least 1"),
        ),
        over_inputs(
            f"After augmentation with C{finest} the change on pixels is at most twice the error of resampling",
            over_noise_floor("pixels"),
            measure="Root mean square change when pixels are rotated, over that when they are rotated there and back.",
            at_most=2,
            by=chosen,
        ),
        over_inputs(
            f"After augmentation with C{finest} exact rotations of rings change the mean by at most half of what "
            "resampling pixels does",
            over_noise_floor("rings"),
            measure="Root mean square relative change on rings over the noise floor of resampled pixels.",
            at_most=0.5,
            by=chosen,
        ),
    ]
    return found if results.images is None else [*found, *image_claims(results.images)]


_PLACE = "experiments on rotated FashionMNIST: emergent continuous invariance"
_OF_FLOOR, _GAIN = 0.02, 0.01  # shares of the angles


def image_claims(found: ImageEnsembles) -> Sequence[Claim]:
    """The gain from larger k in C_k, against the members and the noise floor of resampling."""
    first, before, last = found.orders[0], found.orders[-2], found.orders[-1]
    sets, titles, epochs, ensembles = found.sets, found.images.titles, found.epochs, found.recipe.ensembles
    each, over = shared_level(len(sets)), covered(ensembles, "ensembles")
    agreement = f"Agreement: share of {found.order} angles at which the predicted class is that of the upright image"
    end, members, noise_floor = found.agreement, found.of_members, found.noise_floor
    chosen = ours("our question; the bound is our choice")

    def on_sets(of: Callable[[str], np.ndarray]) -> Records:
        return Records.over(lambda name: found.mean_difference(of(name), each), lambda name: titles[name], name=sets)

    def ahead(k: int, name: str) -> Estimate:
        return found.mean_difference(end(k, name) - members(k, name), shared_level(len(sets) * len(found.orders)))

    rises = lambda name: end(last, name) - end(first, name)
    leads = [end(k, name) - members(k, name) for k in found.orders for name in sets]
    over_sets = lambda tables: t_interval(np.mean([one.mean(axis=-1) for one in tables], axis=0), 0.95, (-1.0, 1.0))
    return [
        claim(
            f"Over all angles image ensembles trained with C{last} agree with themselves more often than with C{first}",
            on_sets(rises),
            covers=over,
            measure=f"{agreement}; C{last} minus C{first}, after {epochs} epochs each.",
            at_least=0,
            aggregate=(f"the mean over {len(sets)} sets of inputs", over_sets([rises(name) for name in sets])),
            by=theirs(EMERGENT_EQUIVARIANCE, _PLACE, "emergent invariance under SO(2), up to the discretisation"),
        ),
        claim(
            "Over all angles image ensembles agree with themselves more often than their members do",
            Records.over(ahead, lambda k, name: f"C{k}, {titles[name]}", k=found.orders, name=sets),
            covers=over,
            measure=f"{agreement}; the mean of {found.recipe.members} networks minus its members’ mean.",
            at_least=0,
            aggregate=(f"the mean over {len(found.orders)} groups and {len(sets)} sets of inputs", over_sets(leads)),
            by=theirs(EMERGENT_EQUIVARIANCE, _PLACE),
        ),
        claim(
            f"Over all angles image ensembles trained with C{last} err less often than with C{first}",
            {"test": found.mean_difference(found.accuracy(last) - found.accuracy(first))},
            covers=over,
            measure=f"Share of {found.order} angles at which test images are given a wrong class; C{first} minus "
            f"C{last}, after {epochs} epochs each.",
            at_least=0,
            by=ours("ours: the error over all angles"),
        ),
        claim(
            f"After training with C{last} image ensembles agree with themselves at all angles as often as resampling "
            "allows, to within 2 % of the angles",
            on_sets(lambda name: noise_floor(last, name) - end(last, name)),
            covers=over,
            measure=f"{agreement}; that of images rotated there and back, the noise floor of resampling, minus that of "
            "images rotated once.",
            at_most=_OF_FLOOR,
            by=chosen,
        ),
        claim(
            f"From C{before} to C{last} agreement over all angles gains at most 1 % of the angles",
            on_sets(lambda name: end(last, name) - end(before, name)),
            covers=over,
            measure=f"{agreement}; C{last} minus C{before}, after {epochs} epochs each.",
            at_most=_GAIN,
            by=chosen,
        ),
    ]


def present(settings: ContinuousSettings, results: ContinuousResults, folder: RunFolder) -> list[Shown]:
    """Agreement of image ensembles over angles; nothing where they were left out."""
    found = results.images
    return [] if found is None else [_images_over_angles(found, folder)]


_DASHED = (0, (3, 3))
_NOISE_FLOOR = "noise floor of resampling"


def _at_angles(found: ImageEnsembles, k: int, name: str) -> np.ndarray:
    """Share of inputs and ensembles, after the last epoch, whose class is that of the upright image: (angles,)."""
    labels = found.labels(k, name)
    share: np.ndarray = (labels == labels[:, :1]).mean(axis=(0, 2))
    return share


def _images_over_angles(found: ImageEnsembles, folder: RunFolder) -> Figure:
    degrees = 360 * np.arange(found.order) / found.order
    half, last = degrees <= 180, found.orders[-1]
    titles = [found.images.titles[name] for name in found.sets]
    with drawing.panels(
        folder,
        "agreement-over-angles",
        titles=[drawing.heading(title) for title in titles],
        xlabel="angle, degrees",
        ylabel="agreement, % of inputs",
        size=(8.6, 3.2),
        sharey=True,
        caption=(
            "Share of inputs whose predicted class at an angle is that of the upright image, after the "
            "last epoch: the mean over ensembles of CNNs. Dashed: the noise floor of resampling for the largest"
            " group: images rotated by the angle and back."
        ),
        alt="Agreement of image ensembles against the angle of rotation, for every k",
    ) as drawn:
        for axes, name in zip(drawn, found.sets, strict=True):
            for k, colour in drawing.shades_of(found.orders):
                axes.plot(degrees[half], 100 * _at_angles(found, k, name)[half], color=colour, lw=1.2, label=f"C{k}")
            noise_floor = found.answers[last][f"noise_floor_{name}"] == found.labels(last, name)[:, :1]
            axes.plot(
                degrees[half],
                100 * noise_floor.mean(axis=(0, 2))[half],
                color=palette.MUTED.light,
                lw=1,
                ls=_DASHED,
                label=_NOISE_FLOOR,
            )
            axes.set_xticks([0, 45, 90, 135, 180])
            axes.set_ylim(0, 101)
    return drawn.figure


STUDY = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
