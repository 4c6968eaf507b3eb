"""How to spend a budget of augmented samples: complete, partial, random and importance-sampled group elements.

The source leaves open what becomes of emergent invariance when the augmentation is not complete. Here the infinitely
wide ensemble is trained on b of |G| elements of every input, chosen in six ways, and compared with the complete one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.linalg

from equitangents import actions, data
from equitangents.inference import augment_inputs
from equitangents.report.verdict import Verdict
from equitangents.statistics import Estimate, bootstrap, exactly, log_ratio, power_law, shared_level
from equitangents.studies.common.images import standardise
from equitangents.studies.common.networks import mlp
from equitangents.studies.common.orbits import by_element, orbit_batch
from equitangents.studies.common.sampled_groups import RANDOM, STRATEGIES, importance, sample, trained_means
from equitangents.studies.framework.citations import EMERGENT_EQUIVARIANCE
from equitangents.studies.framework.compatibility import Presentation, Study, judge
from equitangents.studies.framework.drawing import name_of
from equitangents.studies.framework.folder import Arrays, RunFolder
from equitangents.studies.framework.progress import Task
from equitangents.studies.framework.settings import check

OPEN = "open question of arXiv 2403.03103"
SETS = ("test", "noise")


@dataclass(frozen=True)
class Settings:
    """C_n, n = `order`, on rings of 8×8 digits, exact for every n; `budgets` are divisors of n; `draws` of every
    random choice; `times` in units of N/(η λ_max). Sizes are our choice.
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
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "paper": Settings(order=32, budgets=(1, 2, 4, 8, 16), draws=300, train_images=100, test_images=64),
}


@dataclass(frozen=True, eq=False)
class Results:
    """By strategy, arrays (budgets, draws, times, sets): `violation`, root mean square change over orbits relative to
    the prediction, and `distance` from the complete ensemble's mean, relative to it. `complete` (times, sets) is the
    violation of the complete one; `order` and `budgets` are the settings'.
    """

    times: np.ndarray
    violation: dict[str, np.ndarray]
    distance: dict[str, np.ndarray]
    complete: np.ndarray


def measure(settings: Settings, folder: RunFolder) -> Results:
    """The kernel on all pairs once, then one small problem for every choice of elements."""
    check(settings.draws >= 3, "draws", settings.draws, "at least 3")
    ok = all(0 < b < settings.order and settings.order % b == 0 for b in settings.budgets)
    check(ok and len(settings.budgets) >= 2, "budgets", settings.budgets, "at least two divisors of order below it")
    check(settings.samples % 2 == 1, "samples", settings.samples, "odd")
    complete = _Complete(settings)
    whole = folder.stage("complete", "Complete augmentation", lambda task: complete.violation())["complete"]
    found = {
        (strategy, j): folder.stage(
            f"{strategy}-{budget}",
            f"{STRATEGIES[strategy].capitalize()}, {budget} of {settings.order}",
            partial(_choices, settings, complete, strategy, budget),
        )
        for strategy in STRATEGIES
        for j, budget in enumerate(settings.budgets)
    }
    table = lambda key: {s: np.stack([found[s, j][key] for j in range(len(settings.budgets))]) for s in STRATEGIES}
    return Results(np.array(settings.times), table("violation"), table("distance"), whole)


def _inputs(settings: Settings) -> tuple[dict[str, np.ndarray], np.ndarray]:
    source = data.digits().subset(settings.train_images, settings.test_images, seed=settings.seed)
    noise = data.gaussian_noise(settings.test_images, (8, 8, 1), seed=settings.seed)
    images = {"training": source.train_x, "test": source.test_x, "noise": noise}
    rings = lambda x: actions.to_rings(standardise(x).astype(np.float64), settings.rings, settings.samples)
    return {name: rings(x) for name, x in images.items()}, np.eye(source.classes)[source.train_y] - 1 / source.classes


class _Complete:
    """The kernel on all pairs (g, i), and the mean after complete augmentation; computed when first wanted."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.action = settings, actions.ring_rotations(settings.order)

    @cached_property
    def problem(self) -> dict[str, np.ndarray]:
        """Gram matrix, kernel across, targets, times, and what importance sampling draws from."""
        sets, y = _inputs(self.settings)
        s, x = self.settings, sets["training"]
        net = mlp(1, s.hidden_layers, W_std=s.W_std, b_std=s.b_std, flatten=True)
        everything = augment_inputs(self.action, x)
        gram = np.asarray(net.kernel(everything).ntk)
        points = np.concatenate([orbit_batch(self.action, sets[name]) for name in SETS])
        return {
            "gram": gram,
            "cross": np.asarray(net.kernel(points, everything).ntk),
            "targets": np.tile(y, (s.order, 1)),
            "times": np.array(s.times)
            * len(gram)
            / scipy.linalg.eigvalsh(gram, subset_by_index=[len(gram) - 1] * 2)[0],
            "probabilities": importance(np.sqrt(((np.asarray(self.action.orbit(x)) - x) ** 2).sum(axis=(2, 3, 4)))),
        }

    def means(self, rows: np.ndarray, weights: np.ndarray, samples: int) -> list[np.ndarray]:
        """μ_t on the orbits of every set after training on some rows: (T, |G|, N, K)."""
        p = self.problem
        found = trained_means(
            p["gram"][np.ix_(rows, rows)], p["cross"][:, rows], p["targets"][rows], weights, samples, p["times"]
        )
        return [by_element(self.action, part) for part in np.split(found, len(SETS), axis=1)]

    @cached_property
    def reference(self) -> list[np.ndarray]:
        """The means of complete augmentation."""
        rows = np.arange(len(self.problem["gram"]))
        return self.means(rows, np.ones(len(rows)), len(rows))

    def violation(self) -> Arrays:
        """Of complete augmentation, (T, sets)."""
        return {"complete": np.stack([_violation(part) for part in self.reference], axis=-1)}


def _choices(settings: Settings, complete: _Complete, strategy: str, budget: int, task: Task) -> Arrays:
    """Violation and distance of every draw: (draws, T, sets)."""
    probabilities = complete.problem["probabilities"]
    _, n = probabilities.shape
    draws = settings.draws if strategy in RANDOM else 1
    found = np.zeros((2, draws, len(settings.times), len(SETS)))
    for d in range(draws):
        rng = np.random.default_rng((settings.seed, list(STRATEGIES).index(strategy), budget, d))
        chosen = sample(strategy, budget, probabilities, rng)
        means = complete.means(chosen.rows, chosen.weights, n * budget)
        for s, (part, whole) in enumerate(zip(means, complete.reference, strict=True)):
            found[0, d, :, s] = _violation(part)
            off = ((part - whole) ** 2).sum(axis=(1, 2, 3)) / (whole**2).sum(axis=(1, 2, 3))
            found[1, d, :, s] = np.sqrt(off)
        task.step(d + 1, draws)
    return {"violation": found[0], "distance": found[1]}


def _violation(means: np.ndarray) -> np.ndarray:
    """Root mean square of μ(gx) − μ(x), g ≠ e, relative to that of μ: (T, |G|, N, K) → (T,)."""
    off = ((means[:, 1:] - means[:, :1]) ** 2).sum(axis=-1).mean(axis=(1, 2))
    return np.sqrt(off / (means**2).sum(axis=-1).mean(axis=(1, 2)))


def compared(results: Results, a: str, b: str, budget: int, time: int, name: int, level: float = 0.95) -> Estimate:
    """Violation of one way over that of another: geometric means over draws (one value where nothing is drawn)."""
    first, second = (results.violation[s][budget, :, time, name] for s in (a, b))
    if len(first) == 1:
        return bootstrap(np.log(second), lambda m: first[0] / np.exp(m), level=level)
    return log_ratio(first, second, level=level)


def claims(settings: Settings, results: Results) -> Sequence[Verdict]:
    """What the complete ensemble does, and which way of choosing does better than which."""
    label = lambda j, t, s: f"{settings.budgets[j]} of {settings.order}, {name_of(results.times[t])}, {SETS[s]}"
    times, sets = range(len(results.times)), range(len(SETS))
    complete = {f"{name_of(results.times[t])}, {SETS[s]}": exactly(results.complete[t, s]) for t in times for s in sets}

    def family(a: str, b: str, budgets: Sequence[int]) -> dict[str, Estimate]:
        cells = [(j, t, s) for j in budgets for t in times for s in sets]
        return {label(*cell): compared(results, a, b, *cell, shared_level(len(cells))) for cell in cells}

    several = [j for j, b in enumerate(settings.budgets) if b > 1]
    level = shared_level(len(SETS))
    budgets = np.array(settings.budgets)
    early = {
        name: power_law(budgets, results.distance["uniform"][:, :, 0, s].T ** 2, level=level)
        for s, name in enumerate(SETS)
    }
    late = len(results.times) - 1
    growth = {
        f"{b} of {settings.order}, {name}": log_ratio(
            results.violation["own"][j, :, late, s], results.violation["own"][j, :, 0, s],
            level=shared_level(len(SETS) * len(budgets)),
        )
        for j, b in enumerate(settings.budgets) for s, name in enumerate(SETS)
    }  # fmt: skip
    ratio = "Root mean square violation of the first way over that of the second; geometric means over draws."
    return [
        judge(
            "Complete augmentation is exactly invariant at all times",
            complete,
            measure="Root mean square change over orbits, relative to the prediction.",
            at_most=1e-8,
            source="stated in arXiv 2403.03103",
        ),
        judge(
            "Elements of each input’s own do better than as many that all inputs share",
            family("own", "shared", several),
            measure=ratio,
            at_most=1,
            source=OPEN,
        ),
        judge(
            f"A subgroup of order {settings.budgets[-1]} does better than as many random elements",
            family("subgroup", "own", [len(settings.budgets) - 1]),
            measure=ratio,
            at_most=1,
            source=OPEN,
        ),
        judge(
            "Sampling elements by how far they move the input does better than sampling them uniformly",
            family("important", "uniform", several),
            measure=ratio + " Both with replacement, the first with weights that make the loss unbiased.",
            at_most=1,
            source=OPEN,
        ),
        judge(
            "Early in training the distance from the complete ensemble falls as the square root of the budget",
            early,
            measure=f"Exponent of the root mean square distance of the means against the budget at time "
            f"{results.times[0]:g}, elements drawn with replacement.",
            at_least=-0.6,
            at_most=-0.4,
            source="expected of an unbiased estimate of the gradient; the bounds are our choice",
        ),
        judge(
            "The violation grows during training",
            growth,
            measure=f"Violation {name_of(results.times[late])} over that {name_of(results.times[0])}, random elements "
            "of each input’s own.",
            at_least=1,
            source=OPEN,
        ),
    ]


def _present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    from equitangents.studies.sampling.page import present  # which imports from here

    return present(settings, results, verdicts, folder)


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, _present, (EMERGENT_EQUIVARIANCE,))
