"""How to spend a budget of augmented samples: complete, partial, random and importance-sampled group elements.

The source leaves open what becomes of emergent invariance when the augmentation is not complete. Here the infinitely
wide ensemble is trained on b of |G| elements of every input, chosen in six ways, and compared with the complete one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import scipy.linalg

from equitangents import actions, data
from equitangents.inference import augment_inputs
from equitangents.statistics import Estimate, bootstrap, exactly, log_ratio, power_law, shared_level
from equitangents.studies.common.images import standardise
from equitangents.studies.common.networks import mlp
from equitangents.studies.common.orbits import by_element, orbit_batch
from equitangents.studies.common.sampled_groups import RANDOM, STRATEGIES, importance, sample, trained_means
from equitangents.studies.framework.citations import EMERGENT_EQUIVARIANCE
from equitangents.studies.framework.claims import EXACT, Claim, Records, claim
from equitangents.studies.framework.drawing import name_of
from equitangents.studies.framework.study import Arrays, RunFolder, Study, Task, at_least, check

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


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Budgets that a subgroup can meet, draws enough for an interval; the images ship with a dependency."""
    at_least(settings, draws=3)
    ok = all(0 < b < settings.order and settings.order % b == 0 for b in settings.budgets)
    check(ok and len(settings.budgets) >= 2, "budgets", settings.budgets, "at least two divisors of order below it")
    check(settings.samples % 2 == 1, "samples", settings.samples, "odd")


def measure(settings: Settings, folder: RunFolder) -> Results:
    """The kernel on all pairs once, then one small problem for every choice of elements."""
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


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What the complete ensemble does, and which way of choosing does better than which."""
    times, sets, late = range(len(results.times)), range(len(SETS)), len(results.times) - 1
    several = [j for j, b in enumerate(settings.budgets) if b > 1]
    largest, when = settings.budgets[-1], [name_of(t) for t in results.times]
    each = shared_level(len(SETS))

    def words(s: int, t: int | None = None, j: int | None = None) -> str:
        parts = ["" if j is None else f"{settings.budgets[j]} of {settings.order}", "" if t is None else when[t]]
        return ", ".join([part for part in parts if part] + [SETS[s]])

    def family(a: str, b: str, budgets: Sequence[int]) -> Records:
        level = shared_level(len(budgets) * len(times) * len(sets))
        of = lambda j, t, s: compared(results, a, b, j, t, s, level)
        return Records.over(of, words, j=budgets, t=times, s=sets)

    def growing(j: int, s: int) -> Estimate:
        values = results.violation["own"][j]
        return log_ratio(values[:, late, s], values[:, 0, s], level=shared_level(len(SETS) * len(settings.budgets)))

    exponent = lambda s: power_law(
        np.array(settings.budgets), results.distance["uniform"][:, :, 0, s].T ** 2, level=each
    )
    own, subgroup = family("own", "shared", several), family("subgroup", "own", [len(settings.budgets) - 1])
    important = family("important", "uniform", several)
    growth = Records.over(growing, words, j=range(len(settings.budgets)), s=sets)
    ratio = "Root mean square violation of the first way over that of the second; geometric means over draws."
    return [
        claim(
            "Complete augmentation leaves the mean invariant at all times, to rounding",
            Records.over(lambda t, s: exactly(float(results.complete[t, s])), words, t=times, s=sets),
            measure="Root mean square change over orbits, relative to the prediction.",
            covers=EXACT,
            at_most=1e-8,
            source="arXiv 2403.03103",
            stated="exactly invariant",
            holds="Where every rotation can be shown, show every rotation: the mean is then invariant whatever the "
            "training time.",
            fails="The closed form of complete augmentation is not invariant to rounding here: find out why before "
            "comparing incomplete ones with it.",
        ),
        claim(
            "Random elements of each input’s own violate the symmetry less than as many that all inputs share, at "
            "every budget and time",
            own,
            measure=ratio,
            covers="draws of elements",
            at_most=1,
            source=OPEN,
            holds=f"Draw elements anew for every input, not once for all: the violation is {own.span()} times as "
            "large.",
            fails="Elements drawn anew for every input do not beat shared ones at every budget and time: the "
            f"violation is {own.span()} times as large. Look at the budget and time that are to be used.",
            undecided="Whether drawing elements anew for every input always helps is not decided (the violation "
            f"is {own.span()} times as large): more draws would tell.",
        ),
        claim(
            f"A subgroup of order {largest} violates the symmetry less than {largest} random elements of each input’s "
            "own, at every time",
            subgroup,
            measure=ratio + " The subgroup is not random.",
            covers="draws of elements",
            at_most=1,
            source="arXiv 2403.03103, on systematic and random elements",
            stated="no notable difference",
            holds=f"With {largest} of {settings.order} elements to spend, take evenly spaced ones: the violation "
            f"is {subgroup.span()} times that of random ones.",
            fails=f"{largest} evenly spaced elements are not better than random ones at every time: the violation "
            f"is {subgroup.span()} times as large. Choose by the time at which training stops.",
            undecided=f"Whether {largest} evenly spaced elements always beat random ones is not decided (the "
            f"violation is {subgroup.span()} times as large): more draws would tell.",
        ),
        claim(
            "Elements drawn by how far they move the input violate the symmetry less than those drawn uniformly, at "
            "every budget and time",
            important,
            measure=ratio + " Both with replacement, the first with weights that make the loss unbiased.",
            covers="draws of elements",
            at_most=1,
            source=OPEN,
            holds="Importance sampling by distance pays at all budgets and times tried: the violation is "
            f"{important.span()} times that of uniform sampling.",
            fails="Importance sampling by distance does not pay at every budget and time: the violation is "
            f"{important.span()} times that of uniform sampling.",
            undecided="Whether importance sampling by distance always pays is not decided (the violation is "
            f"{important.span()} times that of uniform sampling): more draws would tell.",
        ),
        claim(
            "Early in training the distance from the complete ensemble falls as one over the square root of the budget",
            Records.over(exponent, words, s=sets),
            measure=f"Exponent of the root mean square distance of the means against the budget {when[0]}, elements "
            "drawn with replacement.",
            covers="draws of elements",
            at_least=-0.6,
            at_most=-0.4,
            source="theory of unbiased estimates of the gradient; the bounds are our choice",
            stated="−1/2",
            holds="Early in training four times the budget roughly halves the distance from complete augmentation.",
            fails="Even early in training four times the budget does not roughly halve the distance from complete "
            "augmentation: measure it at the budget that is to be used.",
            undecided="How fast the distance from complete augmentation falls with the budget is not measured "
            "well enough to extrapolate it: take more draws.",
        ),
        claim(
            f"With random elements of each input’s own the violation is larger {when[late]} than {when[0]}, at every "
            "budget",
            growth,
            measure=f"Violation {when[late]} over that {when[0]}; geometric means over draws.",
            covers="draws of elements",
            at_least=1,
            source=OPEN,
            holds="Where augmentation is incomplete, stopping early keeps the violation smaller: from the first to "
            f"the last time it grows {growth.span()} times.",
            fails="Stopping early is no remedy for incomplete augmentation at every budget: from the first to the "
            f"last time the violation becomes {growth.span()} times as large.",
            undecided="Whether training always makes the violation larger is not decided (from the first to the "
            f"last time it becomes {growth.span()} times as large): more draws would tell.",
        ),
    ]


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
