"""Classes, the output that fails and the elements under which it does, outputs that vanish."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from audit.verdict_cases import IMAGES, QUIET, features, invariant, shown
from equitangents.audit.report.checks import below, each_below
from equitangents.audit.report.rows import rows

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
    assert report.headline.unit == "classes"
    assert report.headline.error.estimate.mean == pytest.approx(changed)
    assert report.error.estimate.mean == pytest.approx(changed)
    assert report.orbit.same_predictions.mean == pytest.approx(1 - changed)
    assert report.relative.task_error == 0
    assert "of cases" in report.first_line
    assert et.audit(lambda x: (invariant(x)[:, 0] > 0).astype(int), "C4", IMAGES, **QUIET).verdict == "equivariant"
    numbers = et.audit(f, "C4", IMAGES, outputs="values", **QUIET)
    assert numbers.headline.unit != "classes"


def test_the_output_that_fails_is_named_with_the_elements() -> None:
    def f(x: np.ndarray) -> dict:
        return {"energy": x.sum((1, 2, 3)), "forces": (x - np.rot90(x, 2, (1, 2)))[:, 0, 0]}

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
    assert report.verdict == "undecided"
    assert report.reason == "vanishing"
    assert "output_scale" in shown(report, "would decide")[0]
    assert "%" not in report.first_line
    scaled = et.audit(forces, "SO3", x, "vectors", elements=12, output_scale=1.0, **QUIET)
    assert scaled.verdict == "equivariant"
    assert scaled.headline.unit == "absolute"
    assert len(shown(scaled, "vanishes")) == 1
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
    assert broken.verdict == "broken"
    assert broken.contract.outputs[1].fails_under == []
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
    outputs = [row for row in rows(report) if row.label == "output"]
    for o, row, unit in zip(report.contract.outputs, outputs, ("the spread", "output_scale", "cases"), strict=True):
        assert row.cells[1:3] == [o.name, f"{100 * o.judged.mean:.3g} %"]
        assert row.unit == f"of {unit}"
    assert each_below(report, {"forces": 1e-3})[0].value.endswith("of output_scale")
    assert "of output_scale, 90°" in report.to_junit()


def test_outputs_that_vanish_on_the_inputs_alone_or_at_thresholds_do_not_vanish() -> None:
    x = np.zeros((20, 4, 4, 1))
    x[:, 0, 0, 0] = RNG.uniform(1, 2, 20)
    report = et.audit(lambda x: x[:, -1, -1], "C4", x, **QUIET)
    assert (report.verdict, report.contract.outputs[0].vanishes) == ("broken", False)
    x = RNG.integers(0, 5, (80, 4, 4, 1)).astype(np.float64)
    jumps = lambda x: (x.astype(np.float32) <= 2).reshape(len(x), -1) @ np.arange(1.0, 17)  # single precision inside
    report = et.audit(jumps, "C4", x, **QUIET)
    assert (report.verdict, shown(report, "vanishes")) == ("broken", [])
