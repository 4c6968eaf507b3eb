"""Verdicts of the studies of augmentation on numbers made for the purpose."""

import jax
import numpy as np
import pytest

from equitangents_studies import continuous, finite_width, mlp_to_gcnn, other_ensembles, sampling
from equitangents_studies.continuous import claims as continuous_claims
from equitangents_studies.sampling import RANDOM, STRATEGIES
from equitangents_studies.sampling import claims as sampling_claims
from studies.small import follow


@pytest.mark.slow
@pytest.mark.parametrize("side", [pytest.param(3, marks=pytest.mark.slow), 4])
def test_group_convolutional_networks_of_the_finite_width_study_are_invariant_at_width_2_and_cnns_are_not(side):
    task = finite_width.ImageProblem("", np.zeros((1, side, side, 1)), np.zeros(1), np.zeros((1, side, side, 1)))
    x = np.random.default_rng(0).normal(size=(2, side, side, 1))
    change = {}
    for architecture in ("gcnn", "cnn"):
        net = finite_width.network(finite_width.FiniteWidthSettings(), architecture, 2, task)
        params = net.init(jax.random.key(0), (side, side, 1), "float64")
        outputs = net.apply(params, np.concatenate([x, np.rot90(x, axes=(1, 2))]))
        change[architecture] = np.abs(np.subtract(*np.split(np.asarray(outputs), 2))).max()
    assert change["gcnn"] < 1e-12
    assert change["cnn"] > 1e-2


def test_ensembles_of_the_finite_width_study_have_seeds_of_their_own_and_those_on_energies_theirs_of_old():
    settings = finite_width.FiniteWidthSettings()
    seeds = [
        finite_width._seed(settings, architecture, task, width, kind)
        for architecture in ("mlp", "cnn")
        for task in ("ising", "digits", "fashion_mnist")
        for width in (8, 16)
        for kind in finite_width.KINDS
    ]
    seeds += [finite_width._seed(settings, "gcnn", task, 8, "none") for task in ("ising", "digits")]
    assert len(set(seeds)) == len(seeds)
    old = np.random.SeedSequence((0, 16, 1)).generate_state(1)[0]
    assert finite_width._seed(settings, "mlp", "ising", 16, "partial") == old


CONTINUOUS = continuous.ContinuousSettings(orders=(2, 4), steps=(1,))
FINITE = finite_width.FiniteWidthSettings(
    widths=(8, 16, 32), channels=(8, 16, 32), group_channels=(4,), members=256, cnn_members=256, sizes=(1, 2, 4),
    steps=(1,),
)  # fmt: skip
OTHERS = other_ensembles.OtherEnsemblesSettings(members=256, sizes=(1, 2, 4))
SAMPLING = sampling.SamplingSettings(budgets=(1, 2, 4), times=(0.1, 1.0), draws=60)
_SIXTH = [*["holds"] * 5, "undecided"]  # of three widths with 256 members no second order can be taken out


def continuous_results(*, slope=2.0, constant=10.0, own=0.0, pixels=1.0):
    rng = np.random.default_rng(0)
    kappa = np.array([2.0, 1.0])
    off = kappa[:, None, None, None] ** slope * 1e-3 * (1 + 0.1 * rng.random((2, 1, 128, 20)))
    for i, k in enumerate(CONTINUOUS.orders):
        off[i, :, :: 128 // k] = own
    each = lambda value: dict.fromkeys(continuous.WAYS, value)
    floor = 1 + 0.01 * rng.random((2, 1, 128, 20))
    noise = 1 + 0.01 * rng.random((2, 1, 128, 20))
    return continuous.ContinuousResults(
        steps=np.array([1]), kappa=each(kappa), profile={"rings": off, "pixels": pixels * floor * noise},
        size=each(np.ones((2, 1))), noise_floor=floor, round_trip=np.ones(128),
        constant=np.full((2, 1, 20), constant),
    )  # fmt: skip


def cell(*, excess=lambda n: 1.6 / n, common=0.0, bias=0.7):
    """Deviations by kind and width, with variance 1 + excess(n), `common` to all members or `bias`."""
    rng = np.random.default_rng(0)
    return {
        (kind, n): np.sqrt(1 + excess(n)) * rng.normal(size=(1, 256, 500)) + shift * np.ones(500)
        for kind, shift in (("complete", common), ("partial", bias))
        for n in FINITE.widths
    }


def finite_results(*, change=0.0, **how):
    """Of MLPs that are `cell(**how)` on digits, CNNs as theory says, and exact networks that change by `change`.

    The closed form has the variance 1.
    """
    true = cell()
    cells = {("mlp", "ising"): true, ("mlp", "digits"): cell(**how), ("cnn", "digits"): true}
    changes = {(*key, *at): values for key, of in cells.items() for at, values in of.items()}
    changes["gcnn", "digits", "none", 4] = np.array([[[0.0, 1e-7], [0.0, change]]])
    keys = [*((*key, kind) for key in cells for kind in finite_width.KINDS), ("gcnn", "digits", "none")]
    return finite_width.FiniteWidthResults(
        titles={"ising": "energies", "digits": "digits"}, steps=np.array([1]), changes=changes,
        fluctuation=dict.fromkeys(keys, np.ones(1)),
        bias={key: np.array([0.49 if key[2] == "partial" else 0.0]) for key in keys},
    )  # fmt: skip


def other_results(*, closed=0.0, common=0.0, control=1.0):
    rng = np.random.default_rng(0)
    closed_forms = {kind: np.full(2, closed) for kind in other_ensembles.CLOSED}
    changes = {kind: rng.normal(size=(256, 50)) + common for kind in other_ensembles.INDEPENDENT}
    changes["unaugmented"] = rng.normal(size=(256, 50)) + control * rng.normal(size=50)
    return other_ensembles.OtherEnsemblesResults(closed_forms, changes)


def sampling_results(**factors):
    """Violations b^(−1/2), doubled by training, times a factor by strategy."""
    rng = np.random.default_rng(0)
    base = np.array([1.0, 2**-0.5, 0.5])[:, None, None, None] * np.array([1.0, 2.0])[:, None]
    scale = {"subgroup": 0.3, "own": 0.7, "shared": 1.0, "important": 0.8, "uniform": 1.0, "nearby": 1.0, **factors}
    draw = lambda s: scale[s] * base * np.exp(0.02 * rng.normal(size=(3, 60, 2, 2)))
    tables = {s: draw(s) if s in RANDOM else draw(s)[:, :1] for s in STRATEGIES}
    return sampling.SamplingResults(np.array([0.1, 1.0]), tables, tables, np.zeros((2, 2)))


STUDIES = {
    "continuous": lambda **how: continuous_claims(CONTINUOUS, continuous_results(**how)),
    "finite-width": lambda **how: finite_width.claims(FINITE, finite_results(**how)),
    "mlp": lambda **how: finite_width.architecture_claims(FINITE, finite_results(**how), "mlp"),
    "cnn": lambda **how: finite_width.architecture_claims(FINITE, finite_results(**how), "cnn"),
    "gcnn": lambda **how: [finite_width.group_claim(FINITE, finite_results(**how))],
    "others": lambda **how: other_ensembles.claims(OTHERS, other_results(**how)),
    "sampling": lambda **how: sampling_claims(SAMPLING, sampling_results(**how)),
}
LATER = [  # dearer ones
    ("others", {"common": 0.5}, {1: "fails", 3: "fails"}),
    ("others", {"common": 1.0}, {2: "fails"}),
    ("others", {"control": 0.0}, {4: "fails"}),
]


@pytest.mark.parametrize(("name", "change", "expected"), [
    ("continuous", {}, ["holds"] * 5), ("continuous", {"constant": 1e-4}, {0: "fails"}),
    ("continuous", {"own": 1e-5}, {1: "fails"}), ("continuous", {"slope": 0.5}, {2: "fails"}),
    ("continuous", {"pixels": 5.0}, {3: "fails"}), ("finite-width", {}, [*_SIXTH, *_SIXTH, "holds"]),
    ("mlp", {"common": 0.5}, {0: "fails", 1: "fails"}), ("cnn", {"common": 0.5}, _SIXTH),
    ("mlp", {"excess": lambda n: 0.3}, {2: "fails"}), ("mlp", {"bias": 1.2}, {3: "fails"}),
    ("gcnn", {"change": 1e-6}, ["holds"]), ("gcnn", {"change": 1e-3}, ["fails"]),
    ("gcnn", {"change": np.nan}, ["undecided"]), ("others", {}, ["holds"] * 5),
    ("others", {"closed": 1e-4}, {0: "fails"}),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in LATER), ("sampling", {}, ["holds"] * 6),
    ("sampling", {"own": 1.5}, {1: "fails"}), ("sampling", {"subgroup": 1.0}, {2: "fails"}),
    ("sampling", {"important": 1.5}, {3: "fails"}),
])  # fmt: skip
def test_claims_follow_their_numbers(name, change, expected):
    follow(STUDIES[name](**change), expected)


def test_claims_on_other_ensembles_are_ours_but_for_one():
    assert [v.kind for v in STUDIES["others"]()] == ["ours"] * 3 + ["source"] + ["ours"]


def test_other_ensembles_train_at_a_share_of_the_largest_rate_and_change_from_the_input_as_it_is(rng):
    few = other_ensembles.OtherEnsemblesSettings(lattice=2, train_spins=3, test_spins=2, hidden_layers=1, rate=0.25)
    problem = other_ensembles._EnsembleProblem(few)
    assert problem.rate == problem.plain.max_learning_rate_ / 4 > 0
    outputs = rng.normal(size=(2, 3, 4, 5))
    expected = np.concatenate([outputs[:, :, g] - outputs[:, :, 0] for g in (1, 2, 3)], axis=-1)
    np.testing.assert_array_equal(problem.changes(outputs), expected)


def exchanged(distance):
    settings = mlp_to_gcnn.MlpToGcnnSettings(
        times=(1.0,), widths=(8, 16), draws=6, trained_widths=(4,), members=6, steps=(0, 1)
    )
    rng = np.random.default_rng(0)
    members = {("mlp", 4, name): rng.normal(size=(2, 6, 5)) for name in mlp_to_gcnn.SETS}
    members |= {("gcnn", *key[1:]): np.zeros_like(outputs) for key, outputs in members.items()}
    deep = lambda value: {(theorem, depth): value for theorem in ("5.2", "5.3") for depth in (1, 6)}
    return mlp_to_gcnn.claims(settings, mlp_to_gcnn.MlpToGcnnResults(
        times=np.array([1.0]), kernel_distance=np.zeros(2), distance=np.full((1, 4), distance),
        without_augmentation=np.ones((1, 4)), exact=np.zeros((2, 1, 4)),
        squares=rng.random((6, 2)), outputs=members,
        deep_distance=deep(np.array([[0.0, 0.0, 0.0, distance]])), deep_kernels=deep(np.array([0.0, distance])),
        deep_exact={1: np.zeros((1, 4)), 3: np.full((1, 4), distance)},
    ))  # fmt: skip


@pytest.mark.parametrize(("distance", "verdict"), [(0.0, "holds"), (1e-6, "fails")])
def test_means_at_infinite_width_that_differ_fail(distance, verdict):
    claims = exchanged(distance)
    assert [claims[i].outcome for i in (0, 5, 6, 7)] == [verdict] * 4
