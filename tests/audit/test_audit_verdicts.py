"""What an audit's first sentence says: percentages of what, to within what, which output fails, what vanishes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import equitangents as et
from equitangents.audit.report.page import html
from equitangents.audit.report.sections import Estimate
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError

QUIET = {"off_data": False, "data_test": None, "resamples": 200}
RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(60, 4, 4, 1))
WEIGHTS = RNG.normal(size=(16, 3))


def features(x: np.ndarray) -> np.ndarray:
    return np.tanh(x.reshape(len(x), -1) @ WEIGHTS)


def invariant(x: np.ndarray) -> np.ndarray:
    return sum(features(np.rot90(x, k, (1, 2))) for k in range(4)) / 4


def literal(f, x: np.ndarray) -> tuple[float, float]:
    """(mean violation over ‖f(x)‖, over the spread between inputs) under quarter turns."""
    y = f(x)
    off = np.array([np.linalg.norm(f(np.rot90(x, k, (1, 2))) - y, axis=1) for k in (1, 2, 3)])
    spread = np.sqrt(((y - y.mean(0)) ** 2).sum() / (len(y) - 1))
    return float((off / np.linalg.norm(y, axis=1)).mean()), float((off / spread).mean())


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


# of what ------------------------------------------------------------------------------------------------------------


def test_a_large_constant_part_does_not_make_a_model_equivariant() -> None:
    f = lambda x: 20 + features(x)
    by_norm, by_spread = literal(f, IMAGES)
    assert by_norm < 0.1 < 1 < by_spread
    report = et.audit(f, "C4", IMAGES, **QUIET)
    assert report.headline.unit == "spread"
    assert report.headline.error.estimate.mean == pytest.approx(by_spread)
    assert report.error.estimate.mean == pytest.approx(by_norm), "the old number stays under its name"
    assert report.relative.error_by_spread.estimate.mean == pytest.approx(by_spread)
    assert f"{100 * by_spread:.3g} %" in report.sentence
    assert f"{100 * by_norm:.3g} % of ‖f(x)‖" in report.sentence
    assert "of the spread between inputs" in report.sentence


def test_the_headline_is_the_larger_of_both_unless_told() -> None:
    f = lambda x: features(x)[:, :1]  # of one output some values are small, and their relative errors large
    by_norm, by_spread = literal(f, IMAGES)
    assert by_norm > by_spread
    for told, unit, expected in (
        ("larger", "norm", by_norm),
        ("norm", "norm", by_norm),
        ("spread", "spread", by_spread),
    ):
        headline = et.audit(f, "C4", IMAGES, relative_to=told, **QUIET).headline
        assert headline.unit == unit
        assert headline.error.estimate.mean == pytest.approx(expected)


def test_errors_that_are_infinite_for_some_inputs_are_told_by_the_spread() -> None:
    report = et.audit(lambda x: np.maximum(x[:, 0, 0], 0), "C4", IMAGES, **QUIET)
    assert np.isinf(report.error.estimate.mean)
    assert report.headline.unit == "spread"
    assert np.isfinite(report.headline.error.worst)
    assert "inf" not in report.sentence
    assert "∞ of ‖f(x)‖" in report.sentence


def test_one_input_and_a_constant_have_no_spread() -> None:
    one = et.audit(lambda x: features(x), "C4", IMAGES[:1], **QUIET)
    assert one.headline.unit == "norm"
    assert one.relative.error_by_spread is None
    assert "one input has no spread" in one.sentence
    assert one.verdict in ("broken", "undecided")
    constant = et.audit(lambda x: 0 * x[:, 0, 0] + 0.1, "C4", IMAGES, **QUIET)
    assert constant.verdict == "equivariant"
    assert constant.headline.unit == "norm"


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"relative_to": "mean"}, InvalidArgumentError, "relative_to is 'mean'"),
        ({"tolerance": 0}, InvalidArgumentError, "tolerance is 0"),
        ({"tolerance": float("nan")}, InvalidArgumentError, "tolerance is nan"),
        ({"tolerance": "1 %"}, InvalidTypeError, "tolerance is '1 %'"),
        ({"output_scale": -1.0}, InvalidArgumentError, "output_scale is -1.0"),
        ({"output_scale": {"energy": "1"}}, InvalidTypeError, r"output_scale\['energy'\] is '1'"),
        ({"output_scale": {"forces": 1.0}}, InvalidArgumentError, r"names forces; the outputs of f are f\(x\)"),
    ],
)
def test_what_verdicts_are_told_is_checked(arguments: dict, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        et.audit(features, "C4", IMAGES, **{**QUIET, **arguments})


# to within what -----------------------------------------------------------------------------------------------------


def off_by(share: float) -> object:
    """A model whose error is this share of its spread, on IMAGES."""
    y = invariant(IMAGES)
    spread = np.sqrt(((y - y.mean(0)) ** 2).sum() / (len(y) - 1))
    odd = lambda x: features(x) - invariant(x)
    off = np.mean([np.linalg.norm(odd(np.rot90(IMAGES, k, (1, 2))) - odd(IMAGES), axis=1) for k in (1, 2, 3)])
    return lambda x: 4 + invariant(x) + share * spread / off * odd(x)


def test_a_violation_below_the_tolerance_is_equivariant_within_it() -> None:
    kept = et.audit(off_by(0.003), "C4", IMAGES, tolerance=0.01, **QUIET)
    assert kept.verdict == "equivariant within tolerance"
    assert "is invariant under C4 to within 1 %: mean relative error 0.3 %" in kept.sentence
    beyond = et.audit(off_by(0.03), "C4", IMAGES, tolerance=0.01, **QUIET)
    assert beyond.verdict == "broken"
    assert "is not invariant under C4 to within 1 %" in beyond.sentence
    near = et.audit(off_by(0.0094), "C4", IMAGES, tolerance=0.01, **QUIET)
    assert near.verdict == "undecided"
    assert "to within 1 % cannot be told" in near.sentence
    assert et.audit(invariant, "C4", IMAGES, tolerance=0.01, **QUIET).verdict == "equivariant"


def test_one_element_beyond_the_tolerance_is_not_averaged_away() -> None:
    action = et.actions.permutations(et.groups.cyclic(12), (np.arange(12)[:, None] + np.arange(12)) % 12)
    x = RNG.normal(size=(50, 12, 1))
    f = lambda x: x.reshape(len(x), 2, 6).sum(2)  # halves change places under the sixth step
    report = et.audit(f, action, x, tolerance=0.5, **QUIET)
    assert report.verdict == "broken"


def test_a_floor_above_the_tolerance_decides_nothing() -> None:
    x = RNG.normal(size=(40, 9, 9, 1))
    report = et.audit(lambda x: 1 + x.mean((1, 2)), "C16", x, tolerance=1e-6, relative_to="norm", **QUIET)
    assert report.verdict == "undecided"


def test_small_violations_are_told_by_degrees() -> None:
    report = et.audit(off_by(0.003), "C4", IMAGES, **QUIET)
    assert report.verdict == "broken"
    degrees = r"is not exactly invariant under C4, but to within 0\.\d+ %: mean relative error 0\.3 %"
    assert re.search(degrees, report.sentence)
    assert "of predictions stay the same" in report.sentence


def test_same_predictions_leave_the_identity_out() -> None:
    f = lambda x: np.stack([x[:, 0, 0, 0], x[:, 0, -1, 0], x[:, -1, -1, 0], x[:, -1, 0, 0]], axis=1)
    report = et.audit(f, "C4", IMAGES, **QUIET)  # every turn moves the largest corner
    assert report.orbit.same_predictions.mean == 0
    assert report.sets[0].same_predictions.mean == 0


# classes and outputs ------------------------------------------------------------------------------------------------


def test_whole_numbers_one_an_input_are_classes() -> None:
    f = lambda x: (features(x)[:, 0] > 0).astype(int)
    changed = np.mean([f(np.rot90(IMAGES, k, (1, 2))) != f(IMAGES) for k in (1, 2, 3)])
    report = et.audit(f, "C4", IMAGES, y=f(IMAGES), **QUIET)
    assert report.headline.unit == "classes"
    assert report.headline.error.estimate.mean == pytest.approx(changed)
    assert report.error.estimate.mean == pytest.approx(changed)
    assert report.orbit.same_predictions.mean == pytest.approx(1 - changed)
    assert report.relative.task_error == 0
    assert "the class changes in" in report.sentence
    assert et.audit(lambda x: (invariant(x)[:, 0] > 0).astype(int), "C4", IMAGES, **QUIET).verdict == "equivariant"
    numbers = et.audit(f, "C4", IMAGES, outputs="values", **QUIET)
    assert numbers.headline.unit != "classes"


def test_class_numbers_may_be_any_whole_numbers() -> None:
    flat = IMAGES.reshape(60, -1)
    model = LogisticRegression().fit(flat, np.where(flat[:, 0] > 0, 70_000, -3))
    report = et.audit(model, "C4", IMAGES, method="predict", **QUIET)
    scores = et.audit(model, "C4", IMAGES, **QUIET)
    assert report.headline.unit == "classes"
    assert report.orbit.same_predictions.mean == pytest.approx(scores.orbit.same_predictions.mean)
    around = et.audit(lambda p: (p[:, 0] > 0).astype(int), "SO3", RNG.normal(size=(40, 3)), elements=8, **QUIET)
    assert around.lie == []
    assert "class numbers have no derivative" in next(m.reason for m in around.missing if m.section == "lie")
    assert "class numbers cannot be averaged" in around.remedies[0].note


def test_the_output_that_fails_is_named_with_the_elements() -> None:
    def f(x: np.ndarray) -> dict:
        return {"energy": x.sum((1, 2, 3)), "forces": (x - np.rot90(x, 2, (1, 2)))[:, 0, 0]}

    even = lambda x: {"energy": x.sum((1, 2, 3)), "pair": (x + np.rot90(x, 2, (1, 2)))[:, 0, 0]}
    report = et.audit(f, "C4", IMAGES, **QUIET)
    assert [o.name for o in report.contract.outputs] == ["energy", "forces"]
    assert "forces fails under every element (3); energy does not." in report.sentence
    told = et.audit(f, "C4", IMAGES, tolerance=0.1, **QUIET)
    assert "to within 10 %" in told.sentence
    assert "forces fails under every element (3); energy does not." in told.sentence
    half = et.audit(even, "C4", IMAGES, **QUIET)
    assert "pair fails under 90° and 270° (2 of 3 elements); energy does not." in half.sentence
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


def test_values_that_are_not_finite_are_said_to_be_of_the_moved_inputs() -> None:
    with np.errstate(invalid="ignore"), pytest.raises(NotFiniteError, match=r"for inputs moved by 90°"):
        et.audit(lambda x: np.where(x[:, 0, 0] == IMAGES[:, 0, 0], x[:, 0, 0], np.nan), "C4", IMAGES, **QUIET)


# what vanishes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "inside"), [(np.float64, None), (np.float32, None), (np.float64, np.float32)], ids=str
)
def test_outputs_that_are_rounding_are_judged_by_a_given_scale_alone(dtype: type, inside: type | None) -> None:
    forces, x = relaxed(dtype, inside)
    report = et.audit(forces, "SO3", x, "vectors", elements=12, **QUIET)
    assert report.verdict == "undecided"
    assert "f(x) vanishes for all inputs" in report.sentence
    assert "output_scale" in report.sentence
    assert "%" not in report.sentence
    scaled = et.audit(forces, "SO3", x, "vectors", elements=12, output_scale=1.0, **QUIET)
    assert scaled.verdict == "equivariant"
    assert scaled.headline.unit == "absolute"
    assert "vanishes" in scaled.sentence
    pushed = lambda p: forces(p) + np.asarray([0, 0, 0.01], dtype)
    assert et.audit(pushed, "SO3", x, "vectors", elements=12, output_scale=1.0, **QUIET).verdict == "broken"


def test_a_vanishing_output_leaves_the_verdict_to_the_others() -> None:
    forces, x = relaxed(np.float64)
    energy = lambda p: (p**2).sum((1, 2)) + 3
    actions = {"energy": None, "forces": "vectors"}
    both = lambda p: {"energy": energy(p), "forces": forces(p)}
    report = et.audit(both, "SO3", x, actions, elements=12, **QUIET)
    assert report.verdict == "equivariant"
    assert "forces vanishes for all inputs" in report.sentence
    assert [o.vanishes for o in report.contract.outputs] == [False, True]
    tilted = lambda p: {"energy": energy(p) + 0.1 * p[:, 0, 2], "forces": forces(p)}
    broken = et.audit(tilted, "SO3", x, actions, elements=12, output_scale={"forces": 0.1}, **QUIET)
    assert broken.verdict == "broken"
    assert broken.contract.outputs[1].fails_under == []
    assert broken.contract.outputs[1].scale == 0.1


def test_a_scale_divides_the_violation() -> None:
    f = lambda x: x[:, 0, 0]
    report = et.audit(f, "C4", IMAGES, output_scale=4.0, **QUIET)
    off = np.mean([np.abs(f(np.rot90(IMAGES, k, (1, 2))) - f(IMAGES)) for k in (1, 2, 3)])
    assert report.headline.error.estimate.mean == pytest.approx(off / 4)


def test_outputs_that_vanish_only_where_the_inputs_are_still_are_broken() -> None:
    x = np.zeros((20, 4, 4, 1))
    x[:, 0, 0, 0] = RNG.uniform(1, 2, 20)
    report = et.audit(lambda x: x[:, -1, -1], "C4", x, **QUIET)
    assert report.verdict == "broken"
    assert not report.contract.outputs[0].vanishes


def test_a_forest_whose_inputs_lie_on_thresholds_does_not_vanish() -> None:
    x = RNG.integers(0, 5, (80, 4, 4, 1)).astype(np.float64)
    jumps = lambda x: (x.astype(np.float32) <= 2).reshape(len(x), -1) @ np.arange(1.0, 17)  # single precision inside
    report = et.audit(jumps, "C4", x, **QUIET)
    assert report.verdict == "broken"
    assert "vanish" not in report.sentence


def test_outputs_computed_in_single_precision_are_at_its_floor() -> None:
    points = RNG.normal(size=(40, 6, 3))
    f = lambda p: np.tanh(np.sin(3 * p.astype(np.float32)).sum(1)).astype(np.float64)
    assert et.audit(f, "S_n", points, **QUIET).verdict == "equivariant"
    assert et.audit(lambda p: f(p) + 1e-4 * p[:, 0], "S_n", points, **QUIET).verdict == "broken"


# remedies -----------------------------------------------------------------------------------------------------------


def test_more_of_identical_members_change_nothing() -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    x[0] *= 1000  # one output of another size, by which root mean squares and means of ratios differ
    f = lambda x: x[:, :1] + 0.5 * np.abs(x).sum(1, keepdims=True)
    for members in (2, 4):
        remedy = et.audit([f] * members, "C4", x, **QUIET).remedies[1]
        assert remedy.error_before == pytest.approx(remedy.error_after)
        assert remedy.before == remedy.after
        assert "more members change nothing" in remedy.note
        assert not re.search(r"\d members bring", remedy.note)


def test_members_are_told_in_one_quantity_before_and_after() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 2))
    slopes = 3 * rng.normal(size=16)
    models = [lambda x, b=b: 10 + b * x[:, :1] for b in slopes - slopes.mean() + 0.3]
    report = et.audit(models, "C4", x, relative_to="norm", **QUIET)
    remedy, section = report.remedies[1], report.ensemble
    assert remedy.error_before == pytest.approx(np.sqrt(section.sizes[-1].squared_error.mean))
    mean = lambda x: np.mean([m(x) for m in models], axis=0)
    off = np.array([mean(x @ np.linalg.matrix_power([[0, -1], [1, 0]], k)) - mean(x) for k in (1, 2, 3)])
    assert remedy.error_before == pytest.approx(np.sqrt((off**2).mean() / (mean(x) ** 2).mean()))
    assert remedy.error_after <= remedy.error_before
    for estimate in (remedy.before, remedy.after):
        assert isinstance(estimate, Estimate)
        assert estimate.low <= estimate.mean <= estimate.high
    count = int(re.search(r"about ([\d,]+) members, now 16", remedy.note)[1].replace(",", ""))
    limit2 = section.limit.mean**2
    assert np.sqrt(limit2 + section.finite**2 / count) <= 0.01 < np.sqrt(limit2 + section.finite**2 / (count - 1))


def test_a_remedy_that_makes_the_task_worse_says_so_first() -> None:
    y = (IMAGES[:, 0, 0, 0] > 0).astype(int)
    scores = lambda x: np.stack([-x[:, 0, 0, 0], x[:, 0, 0, 0]], axis=1)
    remedy = et.audit(scores, "C4", IMAGES, y=y, **QUIET).remedies[0]
    assert remedy.task_before == 0 < remedy.task_after
    assert remedy.note.startswith("makes the model worse at its task: the error rate rises from 0 to")
    report = et.audit(scores, "C4", IMAGES, y=y, **QUIET)
    assert "averaging over the group at test time: makes the model worse" in report.summary()
    better = et.audit(scores, "C4", IMAGES, y=1 - y, **QUIET).remedies[0]
    assert "worse" not in better.note


def test_nothing_is_said_to_be_not_measured_twice() -> None:
    report = et.audit(LogisticRegression().fit(IMAGES.reshape(60, -1), RNG.integers(0, 2, 60)), "C8", IMAGES, **QUIET)
    for text in (report.summary(), report.to_markdown(), html(report)):
        assert "not measured: not measured" not in text
        assert "measured: measured" not in text
        assert "dimension 2" not in re.sub(r"\s+", " ", text)


# layers -------------------------------------------------------------------------------------------------------------


def network(rng: np.random.Generator) -> list:
    """Layers of a network that is not built to be equivariant; the second one mixes positions most."""
    kernel = 1 + 0.05 * rng.normal(size=(4, 4, 1))
    weights = rng.normal(size=(16, 8))
    dense = lambda x: x.reshape(len(x), -1) @ weights
    return [("conv", lambda x: x * kernel), ("relu", lambda x: np.maximum(x, 0)), ("dense", dense)]


def test_layers_show_where_the_error_grows_most() -> None:
    layers = network(np.random.default_rng(5))
    f = lambda x: layers[2][1](layers[1][1](layers[0][1](x)))
    report = et.audit(f, "C4", IMAGES, layers=layers, **QUIET)
    section = report.layers
    assert section.guilty == "conv"
    assert section.expected
    assert section.steepest == "dense"
    assert "not built to be equivariant" in section.reason
    assert "violation starts in" not in report.sentence
    assert "The error grows most in dense" in report.sentence
    errors = [layer.error for layer in section.layers]
    assert section.layers[2].growth == pytest.approx(errors[2] - errors[1])


def test_a_layer_that_a_change_would_mend_is_still_named() -> None:
    x = RNG.normal(size=(20, 4, 4, 1)).astype(np.float32)
    N = et.nn
    net = N.Sequential(N.Conv(6, (3, 3), padding="zero"), N.Relu(), N.GlobalAvgPool(), N.Dense(3))
    report = et.audit((net, net.init(jax.random.key(0), (4, 4, 1))), "translations", x, elements=5, **QUIET)
    assert report.layers.guilty == "0: Conv"
    assert not report.layers.expected
    assert "The violation starts in 0: Conv" in report.sentence


def test_sweeps_hold_no_raw_errors() -> None:
    layers = network(np.random.default_rng(5))
    f = lambda x: layers[2][1](layers[1][1](layers[0][1](x)))
    sweep = et.audit(f, "C4", IMAGES, layers=layers, **QUIET).layers.sweep
    stuck = [s for s in sweep if s.error is None]
    assert stuck
    assert {s.note for s in stuck} == {"the model does not run on them"}


def test_long_names_fold() -> None:
    name = "encoder." + "block." * 40 + "conv"
    layers = [(name, lambda x: x * np.arange(16.0).reshape(4, 4, 1)), ("sum", lambda x: x.sum((1, 2)))]
    report = et.audit(lambda x: layers[1][1](layers[0][1](x)), "C4", IMAGES, layers=layers, **QUIET)
    drawn = re.findall(r"<!-- (.*?) -->", html(report))
    assert name not in "".join(drawn)
    assert f"| {name} |" not in report.to_markdown()


# one verdict --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.003, 0.5])
@pytest.mark.parametrize("tolerance", [None, 0.01])
def test_summary_markdown_json_and_page_agree(share: float, tolerance: float | None, tmp_path: Path) -> None:
    report = et.audit(off_by(share), "C4", IMAGES, tolerance=tolerance, **QUIET)
    written = json.loads(report.to_json(tmp_path / "a.json").read_text(encoding="utf-8"))
    markdown, page = report.to_markdown(), html(report)
    assert written["verdict"] == report.verdict
    assert written["sentence"] == report.sentence
    assert report.summary().startswith(report.sentence)
    assert report.sentence.replace("<", "&lt;") in markdown
    badge = re.search(r'class="badge \w+"><b aria-hidden="true">.</b>(.*?)</span>', page)[1]
    assert f"**{badge}.**" in markdown
    good = report.verdict.startswith("equivariant")
    assert good == (re.search(r'class="badge (\w+)"', page)[1] == "holds") == markdown.startswith("## ✅")
    assert good == ("is invariant under" in report.sentence)
    row = re.search(r"\| 90° \| (.*?) \[", markdown)[1]
    mean = next(e for e in report.elements if e.label == "90°").judged.estimate.mean
    assert row == (f"{100 * mean:.3g} %" if mean >= 1e-4 else row)
