"""Beyond plain averaging: which ensembles are invariant, in expectation and as they grow.

With augmented data the law of a trained network is invariant, f(g·) ~ f, as long as everything random in its training
is. Then so is the expectation. Whether one ensemble comes close to it is another question: independent members do as
1/√M, members of one run need not.

Posteriors of fully connected networks are made symmetric in three ways (Dong, Flinth & Gerken 2026, arXiv 2606.26273,
whose networks are convolutional). T_g moves weights so that f(x; T_g ω) = f(ρ(g)⁻¹x; ω): those of the first layer with
the inputs that they read, and hidden units either not at all or in blocks of |G|, by k → g⁻¹k. If T_g q = q for all g,
E_q f is invariant.

averaged    the geometric mean of all T_g q, units unmoved: 1/σ̄² = mean 1/σ_g², μ̄ = σ̄² mean μ_g/σ_g²
projected   means of T_g μ and of T_g log σ, units moved in blocks: the nearest weights of a group-convolutional network
expanded    a network of width n/|G| before training, each unit in all |G| orientations
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from equitangents import actions, ensembles, nn
from equitangents.actions import Action
from equitangents.extending import ArrayLike, DType, FiniteNetwork, Params, precision
from equitangents.statistics import Estimate, power_law, surviving_share
from equitangents_studies.baselines.variational import MeanField, MeanFieldPosterior, Posterior, outputs_of_draws
from equitangents_studies.common.infinite import largest_difference, squares_of_means, unit_times
from equitangents_studies.common.ising_lattice import energy_task
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.orbits import by_element, deviations, orbit_batch
from equitangents_studies.common.training import train_to_last, trained
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Task, at_least, check, presets

INDEPENDENT = {
    "plain": "plain averaging",
    "nngp": "Bayesian posterior (last layer)",
    "ntk": "random prior (NTK posterior)",
    "bagged": "bagging of inputs",
    "bagged-copies": "bagging of augmented copies",
}
CONTROL = {"unaugmented": "plain averaging, not augmented"}
TITLES = {**INDEPENDENT, **CONTROL}
POSTERIORS = {
    "variational": "variational posteriors, a draw of each",
    "draws": "draws of one posterior",
    "averaged": "draws of one averaged over the group",
    "projected": "draws of one projected",
    "expanded": "draws of one that began as an orbit",
}
_DRAWS = tuple(kind for kind in POSTERIORS if kind != "variational")
BAGGED = {kind: TITLES[kind] for kind in ("bagged", "bagged-copies")}
CLOSED = {"posterior": "Bayesian posterior", "random-prior": "random prior", **BAGGED}


@dataclass(frozen=True)
class Settings:
    """Energies of the Ising model on a torus under turns by 90°, all four in the data of all kinds but the control's.

    `noise` is the variance of the posteriors' noise; `sizes` are numbers of members or draws; `members` are
    independent ones of each kind. Each of `runs` variational posteriors is of a network of `posterior_width`, has
    noise of variance `posterior_noise` and scales that begin at `posterior_scale`, and takes `posterior_steps` of Adam
    at the rate `posterior_rate`.
    """

    lattice: int = 4
    train_spins: int = 12
    test_spins: int = 24
    width: int = 128
    hidden_layers: int = 2
    members: int = 256
    runs: int = 128
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16)
    steps: int = 100
    noise: float = 0.05
    rate: float = 0.5
    resamples: int = 40
    posterior_width: int = 32
    posterior_noise: float = 0.002
    posterior_scale: float = 0.1
    posterior_steps: int = 300
    posterior_rate: float = 0.02
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0


PRESETS = presets(
    Settings(),
    desk="lattice=6 train_spins=16 test_spins=32 members=1024 runs=256 sizes=1,2,4,8,16,32 resamples=100",
    paper="lattice=8 train_spins=64 test_spins=64 width=512 members=2048 runs=512 sizes=1,2,4,8,16,32,64 steps=300 "
    "resamples=200",
)


SETS = 10  # independent sets of resampled copies


def nested_means(
    d: Float[np.ndarray, "members runs values"], sizes: tuple[int, ...]
) -> Float[np.ndarray, "runs sizes"]:
    """Mean square of means over M members of one run, evenly spaced among all of them, the last included."""
    count = len(d)
    chosen = [np.unique(np.round(np.linspace(count - 1, -1, m, endpoint=False)).astype(int)) for m in sizes]
    return np.stack([(d[rows].mean(axis=0) ** 2).mean(axis=-1) for rows in chosen], axis=1)


@dataclass(frozen=True, eq=False)
class Results:
    """`closed[kind]` is the largest relative change of (mean, covariance) over orbits, in closed form; `changes[kind]`
    are f(gx) − f(x): (M, values) of independent members, (draws, runs, values) of draws of one posterior.
    `broken` is that of the mean for `SETS` independent sets of resampled copies.
    """

    closed: dict[str, np.ndarray]
    changes: dict[str, np.ndarray]
    broken: np.ndarray


def squares(settings: Settings, results: Results, kind: str) -> np.ndarray:
    """Mean square change of ensembles of every size of `sizes`, one row per independent batch or run."""
    changes = results.changes[kind].astype(np.float64)
    if kind in _DRAWS:
        return nested_means(changes, settings.sizes)
    return squares_of_means(changes, settings.sizes)


def share(results: Results, kind: str, level: float = 0.95) -> Estimate:
    """Share of the mean square change that averaging ever more independent members or posteriors would leave."""
    changes = results.changes[kind].astype(np.float64)
    if kind in _DRAWS:
        changes = changes.mean(axis=0)
    return surviving_share(changes, confidence=level)


def exponent(settings: Settings, results: Results, kind: str, level: float = 0.95) -> Estimate:
    """The exponent of the root mean square change against the size of one ensemble."""
    return power_law(np.array(settings.sizes), squares(settings, results, kind), confidence=level)


_FEW = 8  # test inputs of the closed forms
_SEEDS = {  # added to the seed of the settings
    **{kind: i for i, kind in enumerate(INDEPENDENT)},
    **dict.fromkeys(CONTROL, 7),
    **{kind: 8 + i for i, kind in enumerate(POSTERIORS)},
}


@dataclass(frozen=True)
class CopyBootstrap(ensembles.Variation):
    """Bagging of the augmented data: N|G| of the N|G| pairs (g, i), drawn with replacement for every member."""

    gathers = True

    def rows(self, key: jax.Array, samples: int, copies: int) -> np.ndarray:
        """Any rows."""
        drawn = jax.random.randint(key, (samples * copies,), 0, samples * copies, dtype="int32")
        return np.asarray(drawn, np.int32)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Sizes that fit into one another, and enough members and runs; the study reads no data."""
    largest = max(settings.sizes)
    check(len(settings.sizes) >= 3, "sizes", settings.sizes, "at least three")
    check(all(largest % m == 0 for m in settings.sizes), "sizes", settings.sizes, "divisors of the largest")
    for name in ("members", "runs"):
        count = getattr(settings, name)
        check(count >= 3 * largest, name, count, f"at least 3 times the largest size, {largest}")
    at_least(settings, resamples=2)
    check(settings.posterior_width % 4 == 0, "posterior_width", settings.posterior_width, "a multiple of 4")


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Closed forms, ensembles of independent members, and draws of posteriors."""
    problem = _Problem(settings)
    independent = (*INDEPENDENT, *CONTROL)
    found = folder.stages(
        {
            "closed-forms": Stage("closed-forms", "Closed forms", partial(_closed, problem)),
            "copies": Stage("copies", "Bagging of augmented copies", partial(_copies, problem)),
            **{kind: _trained(problem, folder, kind) for kind in independent},
            **{kind: _posterior(problem, folder, kind) for kind in ("variational", "expanded")},
        }
    )
    changes = {kind: found[kind]["changes"] for kind in independent}
    drawn = found["variational"] | found["expanded"]
    changes |= {kind: drawn[f"{kind}-changes"] for kind in POSTERIORS}
    return Results(found["closed-forms"], changes, found["copies"]["changes"])


class _Problem:
    """Spins to learn from and to test on, the group, the network, and how fast and how long it trains."""

    def __init__(self, settings: Settings) -> None:
        s = self.settings = settings
        self.train, self.y, self.test = energy_task(s.lattice, s.train_spins, s.test_spins, s.seed)
        self.few = self.test[:_FEW]
        self.action = actions.image_rotations(4)
        self.net = mlp(s.width, s.hidden_layers, W_std=s.W_std, b_std=s.b_std, flatten=True)

    @cached_property
    def plain(self) -> ensembles.InfiniteEnsemble:
        """The infinitely wide ensemble, which nothing but its initialisation makes random."""
        return ensembles.InfiniteEnsemble(self.net, augmentation=self.action, time=0.0).fit(self.train, self.y)

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.settings.rate * float(self.plain.max_learning_rate_)

    @property
    def late(self) -> float:
        """The time of the infinitely wide ensemble that corresponds to the end of training."""
        return float(unit_times(self.plain, [self.settings.steps])[0])

    def bagged_copies(self, seed: int) -> ensembles.BaggedInfiniteEnsemble:
        """Over resamples of the augmented copies: each is incomplete, and so is the mean over finitely many."""
        model = ensembles.InfiniteEnsemble(self.net, time=self.late)
        bagged = ensembles.BaggedInfiniteEnsemble(model, resamples=self.settings.resamples, seed=seed)
        return bagged.fit(orbit_batch(self.action, self.train), np.tile(self.y, self.action.group.order))

    def changes(self, outputs: np.ndarray) -> np.ndarray:
        """f(gx) − f(x) from outputs (times, members, |G|, n): (times, members, values)."""
        found = deviations(self.action, outputs)
        return found.reshape(*found.shape[:2], -1)


def _closed(problem: _Problem, task: Task) -> Arrays:
    """Largest change over orbits of mean and covariance, at the end of training (bagging: at a late time)."""
    s, net, action = problem.settings, problem.net, problem.action
    k = net.kernel(problem.train)
    ridge = lambda kernel: s.noise / float(np.mean(np.diagonal(np.asarray(kernel))))
    posterior = lambda net, kernel: ensembles.InfiniteEnsemble(
        net, augmentation=action, kernel="nngp", ridge=ridge(kernel)
    )
    late = ensembles.InfiniteEnsemble(net, augmentation=action, time=problem.late)
    models: dict[str, Any] = {
        "posterior": posterior(net, k.nngp),
        "random-prior": posterior(ensembles.TangentPrior(net), k.ntk),
        "bagged": ensembles.BaggedInfiniteEnsemble(late, resamples=s.resamples, seed=s.seed),
    }
    fitted = {kind: model.fit(problem.train, problem.y) for kind, model in models.items()}
    fitted["bagged-copies"] = problem.bagged_copies(s.seed)
    arrays: Arrays = {}
    for i, (kind, model) in enumerate(fitted.items()):
        mean, covariance = model.predict(orbit_batch(action, problem.few), return_cov=True)
        orbit = mean.reshape(action.group.order, -1)
        same = np.einsum("gigj->gij", covariance.reshape(orbit.shape * 2))
        arrays[kind] = np.array([largest_difference(orbit, orbit[:1]), largest_difference(same, same[:1])])
        task.step(i + 1, len(fitted))
    return arrays


def _copies(problem: _Problem, task: Task) -> Arrays:
    """Largest relative change of the mean over orbits, for independent sets of resamples."""
    changes = []
    for draw in range(SETS):
        seed = int(np.random.SeedSequence((problem.settings.seed, draw)).generate_state(1)[0])
        mean = problem.bagged_copies(seed).predict(orbit_batch(problem.action, problem.few))
        orbit = mean.reshape(problem.action.group.order, -1)
        changes.append(largest_difference(orbit, orbit[:1]))
        task.step(draw + 1, SETS)
    return {"changes": np.array(changes)}


def _trained(problem: _Problem, folder: RunFolder, kind: str) -> Stage:
    """Independent members after training."""
    s = problem.settings
    variations: dict[str, ensembles.Variation] = {
        "nngp": ensembles.NNGPPosterior(s.noise),
        "ntk": ensembles.NTKPosterior(s.noise),
        "bagged": ensembles.Bootstrap(),
        "bagged-copies": CopyBootstrap(),
    }
    options: dict[str, Any] = {"members": s.members, "learning_rate": problem.rate, "record_at": [s.steps]}

    def changes(recorded: Arrays) -> Arrays:
        return {"changes": problem.changes(recorded["test"][..., 0])[0]}

    train = partial(
        train_to_last,
        folder.checkpoints(kind),
        problem.net,
        problem.train,
        problem.y,
        augmentation=None if kind in CONTROL else problem.action,
        record={"test": problem.test},
        orbits=problem.action,
        keep=changes,
        variation=variations.get(kind),
        seed=s.seed + _SEEDS[kind],
        **options,
    )
    return Stage(kind, f"Training: {TITLES[kind]}", train)


Change = Callable[[jax.Array], jax.Array]


@dataclass(frozen=True, eq=False)
class Symmetry:
    """How a group acts on the parameters of networks `nn.Flatten(), nn.Dense(n), …, nn.Dense(outputs)` for one signal.

    `input_shape` is (*positions, channels); the action permutes its numbers.
    """

    action: Action
    input_shape: tuple[int, ...]

    @cached_property
    def places(self) -> Int[np.ndarray, "order inputs"]:
        """Where ρ(g)x reads x: (ρ(g)x)_p = x_{places[g, p]}."""
        numbers = np.arange(np.prod(self.input_shape), dtype=np.float64).reshape((1, *self.input_shape))
        orbit = [np.asarray(self.action(g, numbers)).ravel() for g in range(self.order)]
        return np.stack(orbit).astype(np.int32)

    @property
    def order(self) -> int:
        """|G|."""
        return int(self.action.group.order)

    def moved(self, params: Params, g: int, *, units: bool) -> Params:
        """T_g of parameters; `units`: whether hidden units are moved in blocks, |G| neighbours each."""
        G = self.action.group
        block = np.array([G.compose(G.inverse(g), k) for k in range(G.order)])

        def order(n: int) -> np.ndarray:
            return np.arange(n).reshape(-1, G.order)[:, block].ravel() if units else np.arange(n)

        return _by_layer(
            params,
            first=lambda w: w[self.places[g]],
            inputs=lambda w: w[order(len(w))],
            outputs=lambda a: a[..., order(a.shape[-1])],
        )

    @property
    def ways(self) -> dict[str, Callable[[Posterior], Posterior]]:
        """What makes a posterior symmetric, by name."""
        return {"averaged": self.averaged, "projected": self.projected}

    def averaged(self, q: Posterior) -> Posterior:
        """The normalised geometric mean of all T_g q, units unmoved."""
        means = [self.moved(q["mean"], g, units=False) for g in range(self.order)]
        precisions = [
            jax.tree.map(lambda s: jnp.exp(-2 * s), self.moved(q["log_scale"], g, units=False))
            for g in range(self.order)
        ]
        precision = _mean(precisions)
        weighted = _mean([jax.tree.map(jnp.multiply, m, p) for m, p in zip(means, precisions, strict=True)])
        return {
            "mean": jax.tree.map(jnp.divide, weighted, precision),
            "log_scale": jax.tree.map(lambda p: -0.5 * jnp.log(p), precision),
        }

    def projected(self, q: Posterior) -> Posterior:
        """Means of T_g μ and T_g log σ over the group, units moved: fixed points of every T_g."""
        mean, log_scale = (
            _mean([self.moved(part, g, units=True) for g in range(self.order)]) for part in (q["mean"], q["log_scale"])
        )
        return {"mean": mean, "log_scale": log_scale}

    def expanded(self, params: Params) -> Params:
        """Parameters of width |G|n from those of width n, fixed points of every T_g.

        First layer: unit (c, k) reads in orientation k what unit c reads. Then every block is the weights of before,
        and the last layer's are divided by √|G|: with the fan-in's factor 1/√|G| it is a mean over blocks.
        """
        G = self.order

        def turned(w: jax.Array) -> jax.Array:
            units = np.arange(w.shape[1])
            return w[self.places[units % G].T, units]

        return _by_layer(
            params,
            first=turned,
            inputs=lambda w: jnp.repeat(w, G, axis=0),
            outputs=lambda a: jnp.repeat(a, G, axis=-1),
            last=lambda w: w / G**0.5,
        )


def _by_layer(
    params: Params, first: Change, inputs: Change, outputs: Change, last: Change = lambda w: w
) -> tuple[Params, ...]:
    """`outputs` of all layers that have parameters but the last, then `inputs` of the weights, `first` of the first."""
    filled = [i for i, layer in enumerate(params) if layer]
    changed = list(params)
    for i in filled:
        layer = params[i] if i == filled[-1] else {name: outputs(a) for name, a in params[i].items()}
        w = (first if i == filled[0] else inputs)(layer["w"])
        changed[i] = {**layer, "w": last(w) if i == filled[-1] else w}
    return tuple(changed)


def _mean(trees: list[Params]) -> Params:
    return jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *trees)


@dataclass(frozen=True, eq=False)
class Expanded:
    """`wide`, which starts as `narrow` in all orientations: `narrow` has 1/|G| of its hidden units."""

    narrow: nn.Sequential
    wide: nn.Sequential
    symmetry: Symmetry

    def init(self, key: jax.Array, input_shape: tuple[int, ...], dtype: DType = "float32") -> Params:
        """Parameters of `wide` that the group leaves as they are."""
        return self.symmetry.expanded(self.narrow.init(key, input_shape, dtype))

    def apply(self, params: Params, x: ArrayLike) -> jax.Array:
        """Outputs (N, outputs) of `wide`."""
        return self.wide.apply(params, x)


def _posterior(problem: _Problem, folder: RunFolder, kind: str) -> Stage:
    """Changes under the group of one draw of every posterior, of many draws of each, and of what symmetry makes of it.

    Of those that began as an orbit ("expanded") many draws alone.
    """
    s, action = problem.settings, problem.action
    symmetry = Symmetry(action, problem.train.shape[1:])
    net, narrow = (
        mlp(width, s.hidden_layers, W_std=s.W_std, b_std=s.b_std, flatten=True)
        for width in (s.posterior_width, s.posterior_width // action.group.order)
    )
    points = orbit_batch(action, problem.test)
    expanded = kind == "expanded"
    made = {"expanded": lambda q: q} if expanded else {"draws": lambda q: q, **symmetry.ways}

    def compute(task: Task) -> Arrays:
        model = trained(
            MeanField(Expanded(narrow, net, symmetry) if expanded else net, s.posterior_scale),
            problem.train,
            problem.y,
            epochs=s.posterior_steps,
            record={"test": points},
            record_at=[s.posterior_steps],
            checkpoints=folder.checkpoints(kind),
            task=task,
            members=s.runs,
            augmentation=action,
            optimizer="adam",
            learning_rate=s.posterior_rate,
            batch_size=action.group.order * len(problem.train),
            variation=MeanFieldPosterior(s.posterior_noise),
            seed=s.seed + _SEEDS[kind],
        )
        arrays: Arrays = {} if expanded else {f"{kind}-changes": changes(model.recorded_["test"][0])}
        for name, change in made.items():
            outputs = _draws(net, change, model.params_["params"], points, max(s.sizes), s.seed)
            arrays[f"{name}-changes"] = changes(outputs)
        return arrays

    def changes(outputs: np.ndarray) -> np.ndarray:
        found = deviations(action, by_element(action, outputs)[..., 0])
        return found.reshape(*found.shape[:-2], -1)

    return Stage(kind, f"Training: {POSTERIORS[kind]}", compute)


def _draws(
    net: FiniteNetwork, change: Callable[[Posterior], Posterior], q: Posterior, x: np.ndarray, count: int, seed: int
) -> Float[np.ndarray, "count runs n outputs"]:
    """Outputs on x of networks drawn from every posterior, stacked over runs, after it was changed."""

    @jax.jit
    def every(q: Posterior, keys: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.map(lambda run: outputs_of_draws(net, change(run[0]), run[1], x, count), (q, keys))

    with precision.scope(np.float32):
        q = jax.tree.map(jnp.asarray, q)
        keys = jax.random.split(jax.random.key(seed), len(jax.tree.leaves(q)[0]))
        return np.asarray(every(q, keys, jnp.asarray(x, jnp.float32))).swapaxes(0, 1)
