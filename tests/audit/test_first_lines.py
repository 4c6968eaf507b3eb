"""First lines that can be acted on: what hides the answer, counterexamples, inputs that nothing moves, classes."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from audit.verdict_cases import IMAGES, QUIET, features, invariant, shown
from equitangents.audit.report.checks import below, each_below
from equitangents.audit.report.rows import table
from equitangents.errors import InvalidTypeError, NotFiniteError
from equitangents.testing import assert_equivariant

TURNS = [lambda x, k=k: np.rot90(x, k, (1, 2)) for k in (1, 2, 3)]


def audited(f, x=IMAGES, group="C4", output_action=None, **settings):
    return et.audit(f, group, x, output_action, **{**QUIET, **settings})


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# --- floors that hide the answer


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (lambda x: features(x).astype(np.float32) * np.float32(1e-3) + np.float32(1e6), IMAGES.astype(np.float32)),
        (lambda x: (features(x) * 1e-3 + 1e2).astype(np.float16), IMAGES.astype(np.float32)),
    ],
    ids=["a constant of 1,000,000 in float32", "a constant of 100 in float16"],
)
def test_a_floor_above_rounding_decides_nothing_unless_a_tolerance_is_above_it(model, x):
    report = audited(model, x)
    assert report.verdict == "undecided"
    assert report.reason in ("rounding", "spread", "constant")
    assert report.first_line.startswith(f"undecided ({report.reason}): ")
    assert "float64" in shown(report, "would decide")[0]
    with pytest.raises(AssertionError, match=r"(?s)undecided .* float64"):
        assert_equivariant(model, "C4", x)
    half = lambda x: (invariant(x) + 1e-3 * features(x)).astype(np.float16)
    report = audited(half, x, tolerance=0.2)
    assert (report.verdict, report.reason) == ("equivariant within tolerance", "within the tolerance")


# --- inputs that nothing moves


def test_inputs_that_nothing_moves_leave_the_sample():
    x = IMAGES.copy()
    x[5:15] = 0
    x[20] = sum(turn(IMAGES[20:21])[0] for turn in TURNS) + IMAGES[20]
    x[20] = (x[20] + np.rot90(x[20])) / 2  # up to rounding
    report, left = audited(features, x), audited(features, np.delete(x, [*range(5, 15), 20], axis=0))
    assert (report.unmoved, shown(report, "inputs that nothing moves")) == (11, ["11 inputs"])
    assert report.headline.error.estimate.mean == left.headline.error.estimate.mean
    moved = np.delete(np.arange(60), [*range(5, 15), 20])
    off = np.array([np.linalg.norm(features(turn(x)) - features(x), axis=1)[moved] for turn in TURNS])
    at = int(np.argmax((off / np.linalg.norm(features(x[moved]), axis=1)).max(axis=0)))
    assert report.witness.index == moved[at], "rows are those of the sample"


def test_only_inputs_that_nothing_moves_decide_nothing():
    x = np.ones((12, 4, 4, 1)) * np.arange(12)[:, None, None, None]
    report = audited(lambda x: x.reshape(len(x), -1) @ np.arange(32).reshape(16, 2), x)
    assert (report.verdict, report.reason) == ("undecided", "unmoved inputs")
    assert not below(report, 0.5).passed
    with pytest.raises(AssertionError, match="inputs that the group moves"):
        assert_equivariant(features, "C4", 0 * x)
    half = np.where(np.arange(60)[:, None, None, None] < 30, 0.0, IMAGES)
    assert audited(features, half).verdict == "broken"


# --- single counterexamples


def test_one_input_of_many_disproves_and_is_named():
    x = np.random.default_rng(3).normal(size=(200, 4, 4, 1))
    w = np.arange(16.0)
    seen = np.concatenate([x, *(turn(x) for turn in TURNS)]).reshape(-1, 16) @ w
    at, limit = int(np.argmax(seen)) % 200, float(np.sort(seen)[-2:].mean())
    f = lambda x: invariant(x) + 5.0 * (x.reshape(len(x), -1) @ w > limit)[:, None]
    report = audited(f, x)
    assert report.verdict == "broken"
    assert report.counterexample.index == at
    assert report.reason == "single input"
    assert shown(report, "single input")[0].startswith(f"input {at}, ")
    assert report.counterexample.error == report.headline.error.worst
    lenient = audited(f, x, tolerance=0.3)
    assert lenient.verdict == "equivariant within tolerance"
    assert shown(lenient, "single input")[0].startswith(f"input {at}, ")


@pytest.mark.parametrize("unit", ["norm", "spread"])
def test_the_worst_input_of_the_sentence_is_the_one_of_the_page(unit):
    x = np.random.default_rng(4).normal(size=(30, 4, 4, 1))
    scale = np.linspace(0.1, 20, 30)[:, None, None, None]  # relative to ‖f(x)‖ another input is the worst
    f = lambda x: np.concatenate([x.sum((1, 2)), x[:, 0, 0] + 0.05 * x[:, 1, 0] ** 2], axis=1)
    report = audited(f, scale * x, relative_to=unit)
    witness = report.witness
    moved = np.stack([f(turn(scale * x)) for turn in TURNS]) - f(scale * x)
    off = np.linalg.norm(moved, axis=2)
    off = off / np.linalg.norm(f(scale * x), axis=1) if unit == "norm" else off
    k, i = np.unravel_index(off.argmax(), off.shape)
    assert (witness.index, witness.label) == (i, report.elements[k].label)
    assert shown(report, "worst")[0].startswith(f"input {i}, {witness.label} ")
    assert witness.error == report.headline.error.worst
    assert f'<th scope="row">{i}</th><td>{witness.label}</td>' in report.html()


def test_where_one_input_decides_other_elements_may_fail_too():
    x = np.random.default_rng(0).normal(size=(20, 4, 4, 1))
    f = lambda x: x.sum((1, 2)) + 0.5 * (x[:, 0, 0] > 2)
    report = audited(f, x, effort="quick")
    assert report.counterexample is not None
    assert sum(e.error.worst > 0.01 for e in report.elements) > len(report.contract.outputs[0].fails_under)
    assert shown(report, "fails under") == ["f(x) 90° 1 of 3 elements"]
    both = audited(lambda x: (f(x), x.sum((1, 2))), x, effort="quick")
    assert shown(both, "fails under") == ["output 0 90° 1 of 3 elements"]


def test_an_error_that_does_not_come_back_is_noise():
    calls = iter(range(1000))

    def spiking(x):
        y = invariant(x)
        y[3:4] += 5.0 * (next(calls) == 1)
        return y

    report = audited(spiking)
    assert (report.verdict, report.reason, report.counterexample) == ("undecided", "noise", None)
    assert "dropout off" in shown(report, "would decide")[0]


@pytest.mark.parametrize("seed", range(3))
def test_large_errors_of_rounding_are_no_counterexamples(seed):
    """Sums in single precision that nearly cancel: errors of single inputs spread over orders of magnitude."""
    x = np.random.default_rng(seed).normal(size=(200, 4, 4, 1)).astype(np.float32)
    f = lambda x: np.stack([x.sum((1, 2, 3)), (x**3).sum((1, 2, 3))], axis=1)
    assert audited(f, x).verdict == "equivariant"


# --- classifiers


def pages(n=120):
    """Upright pages: their first rows are bright."""
    x = 0.3 * np.random.default_rng(1).normal(size=(n, 8, 8, 1))
    x[:, 0] += 2
    x[:, :2, 0] += 1
    return x


def orientation(x):
    """Which side is bright, 0 to 3, with a small part that does not turn."""
    sides = np.stack([np.rot90(x, k, (1, 2))[:, 0].sum((1, 2)) for k in range(4)], axis=1)
    return softmax(0.3 * sides + 0.05 * x[:, 2:6, 3, 0])


def test_labels_that_turn_with_the_page_are_told_in_labels_and_probabilities():
    x = pages()
    report = audited(orientation, x, output_action=et.audit.Labels([3, 0, 1, 2]))
    y, found = orientation(x), []
    for k, turn in enumerate(TURNS, start=1):
        expected = y[:, (np.arange(4) + k) % 4]
        assert (orientation(turn(x)).argmax(1) == expected.argmax(1)).all()
        found.append(np.linalg.norm(orientation(turn(x)) - expected, axis=1) / np.sqrt(2))
    assert report.headline.unit == "probability"
    assert report.headline.error.estimate.mean == pytest.approx(np.mean(found))
    assert np.mean(found) < 0.01
    assert shown(report, "labels that move with the inputs")[0].startswith("100 %")
    assert "of probability" in report.first_line
    assert below(report, 0.01).passed, "upright pages have one label, and next to no spread"


def test_a_rule_says_how_many_labels_turn():
    assert shown(audited(orientation, pages()), "labels that change")[0].startswith("100 %")
    report = audited(orientation, pages(), output_action="find")
    assert shown(report, "rule of outputs") == ["f(x) the classes are permuted 0→3→2→1"]
    assert shown(report, "labels that follow the rule")[0].startswith("f(x) 100 %")


# --- what fails


def test_values_that_are_not_finite_in_one_pose_are_a_finding_and_lose_nothing():
    last = IMAGES[7, -1, 0, 0]
    f = lambda x: np.where((x[:, 0, 0] == last), np.nan, invariant(x))  # a corner that a quarter turn brings there
    report = audited(f)
    assert (report.verdict, [(u.inputs, u.index) for u in report.undefined]) == ("broken", [(1, 7)])
    assert report.reason == "not finite"
    assert shown(report, "NaN or infinite")[0].endswith("1 inputs")
    assert report.headline.error.estimate.mean < 1e-14, "of the other inputs"
    assert not below(report, 0.5).passed
    single = lambda x: np.float32(1e4) + np.tanh(x).astype(np.float32).sum((1, 2))
    report = audited(lambda x: np.where(x[:, 0, 0] == last, np.float32(np.nan), single(x)))
    assert report.float_floor.method == "copies"
    assert (report.verdict, report.reason) == ("broken", "not finite"), "where rounding is looked at again, too"
    never = lambda x: np.where(np.isclose(x[:, 0, 0], IMAGES[: len(x), 0, 0]), invariant(x), np.nan)
    with pytest.raises(NotFiniteError, match="inputs were moved by 90°"):
        audited(never)


def test_a_model_that_fails_on_noise_loses_only_that():
    def picky(x):
        if np.abs(x).max() > 40:
            raise ValueError("too large")
        return features(x)

    report = audited(picky, off_data={"large": 100 * IMAGES})
    assert report.verdict == "broken"
    assert any(m.section == "set 'large'" and "too large" in m.reason for m in report.missing)


def test_weights_without_a_network_take_one_line():
    weights = {f"layers.{i}.weight": np.zeros((50, 50)) for i in range(20)}
    for model in (weights, {"model": weights, "epoch": 3}):
        with pytest.raises(InvalidTypeError, match="and not its weights") as error:
            audited(model)
        assert len(str(error.value)) < 400
        assert "\n" not in str(error.value)


RNG = np.random.default_rng(0)


def relaxed(dtype: type, inside: type | None = None) -> tuple[object, np.ndarray]:
    """(forces, positions) of tetrahedra of atoms at rest: all forces are rounding."""
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1.0]]) / np.sqrt(8)
    x = (corners @ np.linalg.qr(np.random.default_rng(1).normal(size=(20, 3, 3)))[0]).astype(dtype)

    def forces(p: np.ndarray) -> np.ndarray:
        p = np.asarray(p)
        q = p.astype(inside or p.dtype)
        d = q[:, :, None] - q[:, None]
        r2 = (d**2).sum(-1, keepdims=True) + np.eye(4, dtype=q.dtype)[..., None]
        return (d * (1 - 1 / r2) * np.exp(-r2)).sum(2).astype(p.dtype)

    return forces, x


def test_whole_numbers_one_an_input_are_classes() -> None:
    f = lambda x: (features(x)[:, 0] > 0).astype(int)
    changed = np.mean([f(np.rot90(IMAGES, k, (1, 2))) != f(IMAGES) for k in (1, 2, 3)])
    report = et.audit(f, "C4", IMAGES, y=f(IMAGES), **QUIET)
    assert (report.headline.unit, report.headline.error.estimate.mean) == ("classes", pytest.approx(changed))
    assert report.error.estimate.mean == pytest.approx(changed)
    assert (report.orbit.same_predictions.mean, report.relative.task_error) == (pytest.approx(1 - changed), 0)
    assert "of cases" in report.first_line
    assert et.audit(lambda x: (invariant(x)[:, 0] > 0).astype(int), "C4", IMAGES, **QUIET).verdict == "equivariant"
    numbers = et.audit(f, "C4", IMAGES, outputs="values", **QUIET)
    assert numbers.headline.unit != "classes"


def test_the_output_that_fails_is_named_with_the_elements() -> None:
    f = lambda x: {"energy": x.sum((1, 2, 3)), "forces": (x - np.rot90(x, 2, (1, 2)))[:, 0, 0]}
    even = lambda x: {"energy": x.sum((1, 2, 3)), "pair": (x + np.rot90(x, 2, (1, 2)))[:, 0, 0]}
    report = et.audit(f, "C4", IMAGES, **QUIET)
    assert [o.name for o in report.contract.outputs] == ["energy", "forces"]
    assert shown(report, "fails under") == ["forces 90°, 180°, 270° 3 of 3 elements"]
    told = et.audit(f, "C4", IMAGES, tolerance=0.1, **QUIET)
    assert shown(told, "tolerance") == ["10 %"]
    assert shown(told, "fails under") == ["forces 90°, 180°, 270° 3 of 3 elements"]
    half = et.audit(even, "C4", IMAGES, **QUIET)
    assert shown(half, "fails under") == ["pair 90°, 270° 2 of 3 elements"]
    assert [o.fails_under for o in half.contract.outputs] == [[], ["90°", "270°"]]
    nested = et.audit(lambda x: {"a": {"b": x.sum((1, 2)), "c": (x.sum((1, 2)),)}}, "C4", IMAGES, **QUIET)
    assert [o.name for o in nested.contract.outputs] == ["a.b", "a.c.0"]
    pair = et.audit(lambda x: (x.sum((1, 2)), x.mean((1, 2))), "C4", IMAGES, **QUIET)
    assert [o.name for o in pair.contract.outputs] == ["output 0", "output 1"]


def test_a_broken_output_is_not_hidden_by_the_floor_of_another() -> None:
    x = RNG.normal(size=(40, 9, 9, 1))
    rough = lambda x: x[:, 4, 4]  # interpolation changes it much; on white noise nothing can be said
    small = lambda x: 10 + 1e-3 * np.tanh(x[:, 0, 0])  # fails under quarter turns, which are exact
    report = et.audit(lambda x: {"rough": rough(x), "small": small(x)}, "C8", x, relative_to="norm", **QUIET)
    assert report.verdict == "broken"
    assert {"90°", "180°", "270°"} <= set(report.contract.outputs[1].fails_under)
    assert not {"90°", "180°", "270°"} & set(report.contract.outputs[0].fails_under)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("dtype", "inside"),
    [(np.float64, None), pytest.param(np.float32, None, marks=pytest.mark.slow), (np.float64, np.float32)],
    ids=str,
)
def test_outputs_that_are_rounding_are_judged_by_a_given_scale_alone(dtype: type, inside: type | None) -> None:
    forces, x = relaxed(dtype, inside)
    report = et.audit(forces, "SO3", x, "vectors", elements=12, **QUIET)
    assert (report.verdict, report.reason) == ("undecided", "vanishing")
    assert "output_scale" in shown(report, "would decide")[0]
    assert "%" not in report.first_line
    scaled = et.audit(forces, "SO3", x, "vectors", elements=12, output_scale=1.0, **QUIET)
    assert (scaled.verdict, scaled.headline.unit, len(shown(scaled, "vanishes"))) == ("equivariant", "absolute", 1)
    pushed = lambda p: forces(p) + np.asarray([0, 0, 0.01], dtype)
    assert et.audit(pushed, "SO3", x, "vectors", elements=12, output_scale=1.0, **QUIET).verdict == "broken"


def test_a_dead_model_shows_no_symmetry() -> None:
    x = np.random.default_rng(0).normal(size=(20, 4, 4, 1))
    dead = lambda x: np.zeros((len(x), 3))
    report = et.audit(dead, "C4", x, **QUIET)
    assert (report.verdict, report.reason) == ("undecided", "vanishing")
    assert below(report, 0.05).undecided
    assert not below(report, 0.05).passed
    both = et.audit(lambda x: {"dead": dead(x), "sum": x.sum((1, 2))}, "C4", x, **QUIET)
    assert (both.verdict, below(both, 0.05).passed) == ("equivariant", True)
    assert [(c.name, c.passed, c.undecided) for c in each_below(both, {"dead": 0.05, "sum": 0.05})] == [
        ("output dead ≤ 5 %", False, True),
        ("output sum ≤ 5 %", True, False),
    ]
    assert et.audit(dead, "C4", x, output_scale=1.0, **QUIET).verdict == "equivariant"
    with pytest.raises(AssertionError, match="all outputs vanish"):
        et.testing.assert_equivariant(dead, "C4", x)


def test_a_vanishing_output_leaves_the_verdict_to_the_others() -> None:
    forces, x = relaxed(np.float64)
    x = x + RNG.normal(size=(len(x), 1, 3))  # forces stay at rest, and energies differ
    energy = lambda p: (p**2).sum((1, 2)) + 3
    actions = {"energy": None, "forces": "vectors"}
    both = lambda p: {"energy": energy(p), "forces": forces(p)}
    report = et.audit(both, "SO3", x, actions, elements=12, **QUIET)
    assert report.verdict == "equivariant"
    assert shown(report, "vanishes")[0].startswith("forces ")
    assert [o.vanishes for o in report.contract.outputs] == [False, True]
    tilted = lambda p: {"energy": energy(p) + 0.1 * p[:, 0, 2], "forces": forces(p)}
    broken = et.audit(tilted, "SO3", x, actions, elements=12, output_scale={"forces": 0.1}, **QUIET)
    assert (broken.verdict, broken.contract.outputs[1].fails_under) == ("broken", [])
    assert broken.contract.outputs[1].scale == 0.1


def test_a_scale_divides_the_violation() -> None:
    f = lambda x: x[:, 0, 0]
    report = et.audit(f, "C4", IMAGES, output_scale=4.0, **QUIET)
    off = np.mean([np.abs(f(np.rot90(IMAGES, k, (1, 2))) - f(IMAGES)) for k in (1, 2, 3)])
    assert report.headline.error.estimate.mean == pytest.approx(off / 4)


def test_every_output_says_what_its_error_is_relative_to() -> None:
    f = lambda x: {"energy": 5 + x[:, 0, 0], "forces": x[:, 0, 1], "label": (x[:, 0, 0, 0] > 0).astype(int)}
    report = et.audit(f, "C4", IMAGES, output_scale={"forces": 4.0}, **QUIET)
    assert [o.unit for o in report.contract.outputs] == ["spread", "absolute", "classes"]
    outputs = [row for row in table(report).rows if row[0] == "output"]
    for o, row, unit in zip(report.contract.outputs, outputs, ("the spread", "output_scale", "cases"), strict=True):
        assert row[1:3] == [o.name, f"{100 * o.judged.mean:.3g} %"]
        assert row[-1] == f"of {unit}"
    assert each_below(report, {"forces": 1e-3})[0].value.endswith("of output_scale")
    two = et.audit(lambda x: {k: f(x)[k] for k in ("forces", "label")}, "C4", IMAGES, output_scale=4.0, **QUIET)
    assert (two.headline.unit, [o.unit for o in two.contract.outputs]) == ("absolute", ["absolute", "classes"])
    assert two.contract.outputs[1].judged == report.contract.outputs[2].judged, "classes have no size to be divided by"


def test_outputs_that_vanish_on_the_inputs_alone_or_at_thresholds_do_not_vanish() -> None:
    x = np.zeros((20, 4, 4, 1))
    x[:, 0, 0, 0] = RNG.uniform(1, 2, 20)
    report = et.audit(lambda x: x[:, -1, -1], "C4", x, **QUIET)
    assert (report.verdict, report.contract.outputs[0].vanishes) == ("broken", False)
    x = RNG.integers(0, 5, (80, 4, 4, 1)).astype(np.float64)
    jumps = lambda x: (x.astype(np.float32) <= 2).reshape(len(x), -1) @ np.arange(1.0, 17)  # single precision inside
    report = et.audit(jumps, "C4", x, **QUIET)
    assert (report.verdict, shown(report, "vanishes")) == ("broken", [])
