"""Ways to spend a budget of augmented samples: complete, partial, random and importance-sampled group elements.

The source leaves open how emergent invariance changes when the augmentation is incomplete. Here the infinitely wide
ensemble is trained on b of |G| elements of every input, chosen in six ways, and compared with the complete one; and
ensembles of CNNs are trained on systematic and on random elements, for which it saw no notable difference, with equally
many steps:

complete   every epoch shows all |G| elements of every image
random     each member draws a random element at every visit of an image
spaced     b equally spaced elements, the subgroup of order b, of every image
drawn      b random elements, drawn once for each image, the same for all members
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from equitangents import actions
from equitangents.actions import subset
from equitangents.inference import Flow, augment_inputs, decompose
from equitangents.report import Figure, palette
from equitangents.statistics import Estimate, bootstrap, exactly, log_ratio, power_law, shared_level, t_interval
from equitangents_studies import data
from equitangents_studies.common.ensembles import (
    AnswersOnOrbits,
    EnsembleRecipe,
    check_images,
    rotations,
    train_on_orbits,
)
from equitangents_studies.common.images import Chosen, Images, load_images, standardise
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.orbits import by_element, orbit_batch
from equitangents_studies.common.scores import covered, table_mean
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EMERGENT_EQUIVARIANCE
from equitangents_studies.framework.claims import Claim, Records, claim, ours, proved, theirs, to_rounding
from equitangents_studies.framework.drawing import name_of
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import (
    Arrays,
    NamedStage,
    RunFolder,
    Shown,
    Study,
    Task,
    at_least,
    check,
    presets,
)

STRATEGIES = {
    "subgroup": "a subgroup",
    "nearby": "neighbouring elements",
    "shared": "random elements that all inputs share",
    "own": "random elements of each input’s own",
    "uniform": "random elements drawn with replacement",
    "important": "importance-sampled elements, with replacement",
}
RANDOM = ("shared", "own", "uniform", "important")


class OrbitSample(NamedTuple):
    """Rows of the complete data, g·N + i, without repetitions, and their weights, of mean 1 on average."""

    rows: Int[np.ndarray, " m"]
    weights: Float[np.ndarray, " m"]


def importance(distances: Float[np.ndarray, "order n"]) -> Float[np.ndarray, "order n"]:
    """P(g | x_i): half uniform, half in proportion to |ρ(g)x_i − x_i|."""
    total = distances.sum(axis=0)
    share = np.divide(distances, total, where=total > 0, out=np.full(distances.shape, 1 / len(distances)))
    return 0.5 / len(distances) + 0.5 * share


def sample(
    strategy: str, budget: int, probabilities: Float[np.ndarray, "order n"], rng: np.random.Generator
) -> OrbitSample:
    """Choose `budget` elements of a cyclic group for each of N inputs; "important" draws by `probabilities`."""
    order, n = probabilities.shape
    if strategy in ("subgroup", "nearby"):
        chosen = np.arange(budget) * (order // budget if strategy == "subgroup" else 1)
        elements = np.tile(chosen[:, None], n)
    elif strategy == "shared":
        elements = np.tile(rng.permutation(order)[:budget, None], n)
    elif strategy == "own":
        elements = np.argsort(rng.random((order, n)), axis=0)[:budget]
    else:
        p = probabilities if strategy == "important" else np.full((order, n), 1 / order)
        uniform = rng.random((budget, 1, n))
        elements = np.minimum((uniform > np.cumsum(p, axis=0)[None]).sum(axis=1), order - 1)
    weights = 1 / (order * probabilities) if strategy == "important" else np.ones((order, n))
    rows = (elements * n + np.arange(n)).ravel()
    distinct, copies = np.unique(rows, return_counts=True)
    return OrbitSample(distinct, copies * weights.ravel()[distinct])


@dataclass(frozen=True)
class SamplingSettings:
    """C_n, n = `order`, on rings of 8×8 digits, exact for every n; `budgets` are divisors of n; `draws` of every
    random choice; `times` in units of N/(η λ_max). Sizes are our choice.

    Trained ensembles are CNNs of `channels` on images of `data`, with patches of `patch` × `patch` pixels in the first
    layer, under C_n, n = `image_order`; partial augmentation shows `image_budget` elements of every image, a divisor of
    n. Complete augmentation takes `epochs`, the other ways as many steps. Each of the `repetitions` (0: no training)
    has its own initial weights, random elements and, if there are more than `image_train`, training images. `foreign`
    are other test sets: "photographs", "noise" or data sets.
    """

    order: int = 16
    budgets: tuple[int, ...] = (1, 2, 4, 8)
    draws: int = 100
    times: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, float("inf"))
    train_images: int = 24
    test_images: int = 16
    rings: int = 4
    samples: int = 15
    hidden_layers: int = 2
    W_std: float = 2**0.5
    b_std: float = 0.1
    data: str = "digits"
    image_train: int | None = 200
    image_test: int | None = 400
    image_pixels: int | None = None
    foreign: tuple[str, ...] = ("photographs", "noise")
    foreign_images: int = 150
    image_order: int = 8
    image_budget: int = 4
    repetitions: int = 10
    members: int = 10
    patch: int = 2
    channels: tuple[int, ...] = (16, 16)
    epochs: int = 6
    batch: int = 32
    learning_rate: float = 0.02
    seed: int = 0

    @property
    def images(self) -> Chosen:
        """The images of the trained ensembles."""
        return Chosen(
            self.data, self.foreign, self.image_train, self.image_test, self.foreign_images, self.image_pixels,
            self.seed,
        )  # fmt: skip

    @property
    def recipe(self) -> EnsembleRecipe:
        """Training of the ensembles, one at a time."""
        return EnsembleRecipe(self.patch, self.channels, self.members, 1, self.batch, self.learning_rate)


PRESETS = presets(
    SamplingSettings(),
    desk="draws=200 train_images=40 test_images=32 data=fashion_mnist image_train=2000 image_test=500 "
    "foreign=mnist,cifar10,noise foreign_images=200 epochs=8",
    paper="order=32 budgets=1,2,4,8,16 draws=300 train_images=100 test_images=64 data=fashion_mnist "
    "image_train=20000 image_test=1000 foreign=mnist,cifar10,noise foreign_images=500 image_order=16 image_budget=8 "
    "members=50 channels=64,64,64 epochs=10 batch=128 learning_rate=0.01",
)


def check_settings(settings: SamplingSettings, data_dir: Path | None) -> None:
    """Require budgets that are orders of subgroups, enough draws for an interval, and available images."""
    at_least(settings, draws=3)
    ok = all(0 < b < settings.order and settings.order % b == 0 for b in settings.budgets)
    check(ok and len(settings.budgets) >= 2, "budgets", settings.budgets, "at least two divisors of order below it")
    check(settings.samples % 2 == 1, "samples", settings.samples, "odd")
    if settings.repetitions:
        at_least(settings, repetitions=1, members=2, epochs=1, batch=1, patch=1, foreign_images=1)
        ok = 0 < settings.image_budget < settings.image_order and settings.image_order % settings.image_budget == 0
        check(ok, "image_budget", settings.image_budget, "a divisor of image_order below it")
        check_images(settings.images, settings.recipe, data_dir)


SETS = ("test", "noise")


class SamplingResults(Results):
    """`violation`, root mean square change over orbits relative to the prediction, and `distance` from the complete
    ensemble's mean, relative to it. `complete` is the violation of the complete one. `trained` are the trained
    ensembles, None where they were left out.
    """

    times: np.ndarray
    violation: Keyed[np.ndarray] = by("strategy", "budget draw time inputs")
    distance: Keyed[np.ndarray] = by("strategy", "budget draw time inputs")
    complete: np.ndarray = by("", "time inputs")
    trained: TrainedEnsembles | None = None


def compared(
    results: SamplingResults, a: str, b: str, budget: int, time: int, name: int, level: float = 0.95
) -> Estimate:
    """Violation of strategy a over that of b: geometric means over draws (a single value if nothing is drawn)."""
    first, second = (results.violation[s][budget, :, time, name] for s in (a, b))
    if len(first) == 1:
        return bootstrap(np.log(second), lambda m: first[0] / np.exp(m), confidence=level)
    return log_ratio(first, second, confidence=level)


def titles(order: int, budget: int) -> dict[str, str]:
    """Title of each way of choosing elements."""
    return {
        "complete": f"all {order} elements",
        "random": "a random element at every visit",
        "spaced": f"{budget} equally spaced elements",
        "drawn": f"{budget} random elements of each image’s own",
    }


@dataclass(frozen=True, eq=False)
class TrainedEnsembles(AnswersOnOrbits):
    """Predictions of ensembles, by the way of choosing elements, after the last epoch: (R, |G|, N)."""

    budget: int

    @property
    def repetitions(self) -> int:
        """Number of repetitions R."""
        return len(self.answers["complete"]["labels_test"])

    @property
    def titles(self) -> dict[str, str]:
        """Titles of the ways of choosing elements."""
        return titles(self.order, self.budget)


def trained_means(
    gram: Float[np.ndarray, "m m"],
    cross: Float[np.ndarray, "points m"],
    targets: Float[np.ndarray, "m outputs"],
    weights: Float[np.ndarray, " m"],
    samples: int,
    times: np.ndarray,
) -> Float[np.ndarray, "times points outputs"]:
    """μ_t of gradient flow at rate 1 on (1/2·samples) Σ w |f − y|², from kernels `gram` and `cross`."""
    root = np.sqrt(weights)
    spectrum = decompose(gram * np.outer(root, root))
    flow, pull = Flow(1.0, samples), spectrum.vectors.T @ (root[:, None] * targets)
    projected = (cross * root) @ spectrum.vectors
    return np.stack([projected @ (flow.response(spectrum.eigenvalues, t)[:, None] * pull) for t in times])


def measure(settings: SamplingSettings, folder: RunFolder) -> SamplingResults:
    """Compute the kernel on all pairs once, solve a small problem per choice of elements, then train ensembles."""
    title = lambda strategy, budget: f"{STRATEGIES[strategy].capitalize()}, {budget} of {settings.order}"
    found = measured(
        folder,
        Stages("complete", "Complete augmentation", lambda task: {"complete": _violations(_reference(settings))}),
        Stages("{strategy}-{budget}", title, partial(_choices, settings)),
        levels={"strategy": STRATEGIES, "budget": settings.budgets, "time": settings.times, "inputs": SETS},
    )
    trained = trained_ensembles(settings, folder) if settings.repetitions else None
    return SamplingResults.read(found, times=np.array(settings.times), trained=trained)


def _inputs(settings: SamplingSettings) -> tuple[dict[str, np.ndarray], np.ndarray]:
    source = data.digits().subset(settings.train_images, settings.test_images, seed=settings.seed)
    noise = data.gaussian_noise(settings.test_images, (8, 8, 1), seed=settings.seed)
    images = {"training": source.train_x, "test": source.test_x, "noise": noise}
    rings = lambda x: actions.to_rings(standardise(x).astype(np.float64), settings.rings, settings.samples)
    return {name: rings(x) for name, x in images.items()}, np.eye(source.classes)[source.train_y] - 1 / source.classes


class _SamplingProblem(NamedTuple):
    """NTK on all pairs (g, i) (`gram`) and to the orbits of every set (`cross`), targets, times, and P(g | x_i)."""

    gram: np.ndarray
    cross: np.ndarray
    targets: np.ndarray
    times: np.ndarray
    probabilities: np.ndarray


@lru_cache(maxsize=1)
def _problem(s: SamplingSettings) -> _SamplingProblem:
    (sets, y), action = _inputs(s), actions.ring_rotations(s.order)
    x = sets["training"]
    net = mlp(1, s.hidden_layers, W_std=s.W_std, b_std=s.b_std, flatten=True)
    everything = augment_inputs(action, x)
    gram = np.asarray(net.kernel(everything).ntk)
    points = np.concatenate([orbit_batch(action, sets[name]) for name in SETS])
    largest = scipy.linalg.eigvalsh(gram, subset_by_index=[len(gram) - 1] * 2)[0]
    moved = np.sqrt(((np.asarray(action.orbit(x)) - x) ** 2).sum(axis=(2, 3, 4)))
    cross, times = np.asarray(net.kernel(points, everything).ntk), np.array(s.times) * len(gram) / largest
    return _SamplingProblem(gram, cross, np.tile(y, (s.order, 1)), times, importance(moved))


def _means(s: SamplingSettings, rows: np.ndarray, weights: np.ndarray, samples: int) -> list[np.ndarray]:
    """μ_t on the orbits of every set after training on some rows: (T, |G|, N, K)."""
    p = _problem(s)
    gram, cross = p.gram[np.ix_(rows, rows)], p.cross[:, rows]
    found = trained_means(gram, cross, p.targets[rows], weights, samples, p.times)
    return [by_element(actions.ring_rotations(s.order), part) for part in np.split(found, len(SETS), axis=1)]


@lru_cache(maxsize=1)
def _reference(s: SamplingSettings) -> list[np.ndarray]:
    """The means after complete augmentation."""
    count = len(_problem(s).gram)
    return _means(s, np.arange(count), np.ones(count), count)


def _choices(settings: SamplingSettings, strategy: str, budget: int, task: Task) -> Arrays:
    """Violation and distance of every draw: (draws, T, sets)."""
    probabilities, whole = _problem(settings).probabilities, _reference(settings)
    draws, squares = settings.draws if strategy in RANDOM else 1, lambda y: (y**2).sum(axis=(1, 2, 3))
    violation, distance = [], []
    for d in range(draws):
        rng = np.random.default_rng((settings.seed, list(STRATEGIES).index(strategy), budget, d))
        rows, weights = sample(strategy, budget, probabilities, rng)
        means = _means(settings, rows, weights, probabilities.shape[1] * budget)
        violation.append(_violations(means))
        off = [np.sqrt(squares(part - all_of) / squares(all_of)) for part, all_of in zip(means, whole, strict=True)]
        distance.append(np.stack(off, axis=-1))
        task.step(d + 1, draws)
    return {"violation": np.array(violation), "distance": np.array(distance)}


def _violations(sets: Sequence[np.ndarray]) -> Float[np.ndarray, "times sets"]:
    """Root mean square of μ(gx) − μ(x), g ≠ e, relative to that of μ (T, |G|, N, K), for every set."""
    mean_square = lambda y: (y**2).sum(axis=-1).mean(axis=(1, 2))
    return np.stack([np.sqrt(mean_square(y[:, 1:] - y[:, :1]) / mean_square(y)) for y in sets], axis=-1)


def trained_ensembles(settings: SamplingSettings, folder: RunFolder) -> TrainedEnsembles:
    """Train one ensemble for every way and repetition, each as one stage."""
    images = load_images(settings.images, folder.data_dir)
    ways = titles(settings.image_order, settings.image_budget)
    done = folder.stages(
        {(way, r): _trained(settings, folder, way, r) for way in ways for r in range(settings.repetitions)}
    )
    of = lambda way: [done[way, r] for r in range(settings.repetitions)]
    return TrainedEnsembles(
        images=images,
        action=rotations(settings.image_order),
        recipe=settings.recipe,
        budget=settings.image_budget,
        answers={way: {key: np.stack([one[key][0, 0] for one in of(way)]) for key in of(way)[0]} for way in ways},
    )


def visits(settings: SamplingSettings, way: str, images: int) -> tuple[int, int]:
    """(samples per epoch, epochs): their product is the same for every way."""
    copies = {"complete": settings.image_order, "random": 1}.get(way, settings.image_budget)
    return copies * images, settings.epochs * settings.image_order // copies


def _trained(settings: SamplingSettings, folder: RunFolder, way: str, repetition: int) -> NamedStage:
    images = load_images(settings.images, folder.data_dir, draw=repetition)
    title = titles(settings.image_order, settings.image_budget)[way].capitalize()
    return train_on_orbits(
        folder,
        f"trained-{way}-{repetition}",
        f"{title}, repetition {repetition + 1} of {settings.repetitions}",
        settings.recipe,
        images,
        rotations(settings.image_order),
        [visits(settings, way, len(images.train_x))[1]],
        seed=settings.seed + repetition,
        **shown(settings, way, images, repetition),
    )


def shown(settings: SamplingSettings, way: str, images: Images, repetition: int) -> dict[str, Any]:
    """Arguments of `DeepEnsemble`: the augmentation, or images rotated once."""
    action, budget = rotations(settings.image_order), settings.image_budget
    if way == "complete":
        return {"augmentation": action}
    if way == "random":
        return {"augmentation": action, "augmentation_mode": "random"}
    if way == "spaced":
        return {"augmentation": subset(action, np.arange(budget) * (settings.image_order // budget))}
    rng = np.random.default_rng((settings.seed, repetition))
    alike = np.full((settings.image_order, len(images.train_x)), 1 / settings.image_order)
    rows = sample("own", budget, alike, rng).rows
    return {
        "x": orbit_batch(action, images.train_x)[rows],
        "y": np.tile(images.targets, (settings.image_order, 1))[rows],
    }


OPEN = "open question of arXiv 2403.03103"


def claims(settings: SamplingSettings, results: SamplingResults) -> Sequence[Claim]:
    """Invariance of the complete ensemble, and comparisons between ways of choosing, trained ensembles included."""
    times, sets, late = range(len(results.times)), range(len(SETS)), len(results.times) - 1
    several = [j for j, b in enumerate(settings.budgets) if b > 1]
    largest, when = settings.budgets[-1], [name_of(t) for t in results.times]
    each = shared_level(len(SETS))

    def label(s: int, t: int | None = None, j: int | None = None) -> str:
        parts = ["" if j is None else f"{settings.budgets[j]} of {settings.order}", "" if t is None else when[t]]
        return ", ".join([part for part in parts if part] + [SETS[s]])

    def family(a: str, b: str, budgets: Sequence[int]) -> Records:
        level = shared_level(len(budgets) * len(times) * len(sets))
        of = lambda j, t, s: compared(results, a, b, j, t, s, level)
        return Records.over(of, label, j=budgets, t=times, s=sets)

    def growing(j: int, s: int) -> Estimate:
        values, level = results.violation["own"][j], shared_level(len(SETS) * len(settings.budgets))
        return log_ratio(values[:, late, s], values[:, 0, s], confidence=level)

    def exponent(s: int) -> Estimate:
        return power_law(np.array(settings.budgets), results.distance["uniform"][:, :, 0, s].T ** 2, confidence=each)

    own, subgroup = family("own", "shared", several), family("subgroup", "own", [len(settings.budgets) - 1])
    important = family("important", "uniform", several)
    ratio = "Root mean square violation of the first way over that of the second; geometric means over draws."
    over_draws = partial(claim, covers="draws of elements")
    found = [
        to_rounding(
            "Complete augmentation leaves the mean invariant at all times, to rounding",
            Records.over(lambda t, s: exactly(float(results.complete[t, s])), label, t=times, s=sets),
            measure="Root mean square change over orbits, relative to the prediction.",
            by=proved(EMERGENT_EQUIVARIANCE, "main theorem", "exactly invariant"),
        ),
        over_draws(
            "Random elements of each input’s own violate the symmetry less than as many that all inputs share, at "
            "every budget and time",
            own,
            measure=ratio,
            at_most=1,
            by=ours(OPEN),
        ),
        over_draws(
            f"A subgroup of order {largest} violates the symmetry less than {largest} random elements of each input’s "
            "own, at every time",
            subgroup,
            measure=ratio + " The subgroup is not random.",
            at_most=1,
            by=ours("ours: the source compares random elements with all of them"),
        ),
        over_draws(
            "Elements drawn by how far they move the input violate the symmetry less than those drawn uniformly, at "
            "every budget and time",
            important,
            measure=ratio + " Both with replacement, the first with weights that make the loss unbiased.",
            at_most=1,
            by=ours(OPEN),
        ),
        over_draws(
            "Early in training the distance from the complete ensemble falls as one over the square root of the budget",
            Records.over(exponent, label, s=sets),
            measure=f"Exponent of the root mean square distance of the means against the budget {when[0]}, elements "
            "drawn with replacement.",
            at_least=-0.6,
            at_most=-0.4,
            by=ours("theory of unbiased estimates of the gradient; the bounds are our choice", stated="−1/2"),
        ),
        over_draws(
            f"With random elements of each input’s own the violation is larger {when[late]} than {when[0]}, at every "
            "budget",
            Records.over(growing, label, j=range(len(settings.budgets)), s=sets),
            measure=f"Violation {when[late]} over that {when[0]}; geometric means over draws.",
            at_least=1,
            by=ours(OPEN),
        ),
    ]
    return found if results.trained is None else [*found, *trained_claims(results.trained)]


_ACCURACY, _AGREEMENT = 0.01, 0.02  # of the images, and of the rotations
_SOURCE, _PLACE = "arXiv 2403.03103; the bounds are our choice", "discussion of sampling: systematic or random"
_STATED = "no notable difference"
_SYSTEMATIC, _RANDOM = "complete", "random"


def trained_claims(found: TrainedEnsembles) -> Sequence[Claim]:
    """Accuracy and agreement of all elements and of random ones, after equally many steps.

    In the source every epoch shows all elements of every image, or as many random ones; none is left out for good.
    """
    shown = f"{found.titles[_SYSTEMATIC]} or {found.titles[_RANDOM]}"
    over = covered(found.repetitions, "repetitions")
    bound, bounds = _AGREEMENT * found.order, (1.0 - found.order, found.order - 1.0)
    less = lambda score, *at: score(_SYSTEMATIC, *at) - score(_RANDOM, *at)
    agreement = lambda name: less(found.agreement, name)
    return [
        claim(
            f"Ensembles that are shown {shown} are equally accurate over the orbits of test images, to within 1 "
            "percentage point",
            {found.images.titles["test"]: table_mean(less(found.accuracy), (-1.0, 1.0))},
            measure=f"Accuracy over all {found.order} orientations, systematic minus random elements, after equally "
            "many steps.",
            covers=over,
            at_least=-_ACCURACY,
            at_most=_ACCURACY,
            by=theirs(_SOURCE, _PLACE, _STATED),
        ),
        claim(
            f"Ensembles that are shown {shown} agree with themselves equally often, in and out of distribution, to "
            "within 2 % of the rotations",
            Records.over(
                lambda name: table_mean(agreement(name), bounds),
                lambda name: found.images.titles[name],
                name=found.sets,
            ),
            measure=f"Orbit same predictions out of {found.order}, systematic minus random elements, after equally "
            "many steps.",
            covers=over,
            at_least=-bound,
            at_most=bound,
            aggregate=(
                f"the mean over {len(found.sets)} sets of inputs",
                t_interval(np.mean([agreement(name).mean(axis=1) for name in found.sets], axis=0), bounds=bounds),
            ),
            by=theirs(_SOURCE, _PLACE, _STATED),
        ),
    ]


def present(settings: SamplingSettings, results: SamplingResults, folder: RunFolder) -> list[Shown]:
    """Scores of trained ensembles; nothing where they were left out."""
    found = results.trained
    return [] if found is None else [_figure(found, folder)]


_NOISE_FLOOR = "noise floor of resampling"
_TRAINED_COLOURS = (palette.BLUE, palette.GREEN, palette.PURPLE, palette.ORANGE)


def _figure(found: TrainedEnsembles, folder: RunFolder) -> Figure:
    ways = list(found.answers)
    with drawing.panels(
        folder,
        "systematic-and-random",
        titles=(f"Accuracy, {found.images.titles['test']}, %", f"Orbit same predictions, of {found.order}"),
        size=(8.6, 3.6),
        caption=(
            "Ensembles of CNNs, trained on systematic elements and on random ones for equally many steps,"
            " with 95 % intervals over repetitions. Left: accuracy over all orientations of the test "
            "images. Right: agreement over orbits. Squares: the noise floor of resampling."
        ),
        alt="Accuracy and agreement of ensembles trained on systematic and on random elements",
    ) as drawn:
        left, right = drawn
        accuracy = lambda way: table_mean(100 * found.accuracy(way), (0.0, 100.0))
        _row(left, [accuracy(way) for way in ways], 0.0, palette.BLUE.light, "ensembles")
        noise_floors = [100 * found.noise_floor_accuracy(way).mean() for way in ways]
        left.plot(range(len(ways)), noise_floors, "s", color=palette.MUTED.light, ms=4, mfc="none", label=_NOISE_FLOOR)
        for i, name in enumerate(found.sets):
            colour = _TRAINED_COLOURS[i % len(_TRAINED_COLOURS)]
            shift = 0.14 * (i - (len(found.sets) - 1) / 2)
            scores = [_osp(found, way, name) for way in ways]
            _row(right, scores, shift, colour.light, found.images.titles[name])
            noise_floors = [found.noise_floor(way, name).mean() for way in ways]
            right.plot(np.arange(len(ways)) + shift, noise_floors, "s", color=colour.light, ms=4, mfc="none")
        right.plot([], [], "s", color=palette.MUTED.light, ms=4, mfc="none", label=_NOISE_FLOOR)
        labels = [f"all {found.order}", "random,\nevery visit", f"{found.budget} equally\nspaced",
                  f"{found.budget} random,\neach its own"]  # fmt: skip
        for axes in drawn:
            axes.set_xticks(range(len(ways)), labels, fontsize=8)
            axes.set_xlim(-0.5, len(ways) - 0.5)
        drawn.legend(right)
    return drawn.figure


def _osp(found: TrainedEnsembles, way: str, name: str) -> Estimate:
    return table_mean(found.agreement(way, name), (1.0, float(found.order)))


def _row(axes: Axes, values: list[Estimate], shift: float, colour: str, label: str) -> None:
    drawing.estimates(axes, np.arange(len(values)) + shift, values, colour, fmt="o", label=label)


STUDY = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
