"""What an audit asks of a model, counted; long audits say how far."""

from __future__ import annotations

import logging
import time
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import equitangents as et
from audit.verdict_cases import QUIET
from equitangents.audit.adapters.callables import CallableModel
from equitangents.audit.measure.layers import folded, misfit
from equitangents.audit.settings import AuditSettings, Keywords, settings_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4, 4, 1))
W = RNG.normal(size=(16, 3))


class Counted:
    """A function of images that counts what it is given."""

    calls = rows = 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.calls += 1
        self.rows += len(x)
        return np.asarray(x).reshape(len(x), -1) @ W + 4


@pytest.mark.parametrize(("group", "off_data"), [("C4", False), ("C4", True), ("SO2", True)])
def test_the_report_counts_what_the_model_was_given(group: str, off_data: bool) -> None:
    f = Counted()
    report = et.audit(f, group, X, off_data=off_data, resamples=50, elements=3)
    assert report.timing.evaluations == f.rows
    assert report.timing.batches == f.calls
    assert report.timing.model_seconds <= report.timing.total_seconds


def slow(x: Any) -> Any:
    time.sleep(0.02)
    return x.sum((1, 2)) + x[:, 0, 0]


def test_long_audits_say_how_far_they_are_and_short_ones_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    et.audit(lambda x: x.sum((1, 2)), "C4", X[:5], progress=True, **QUIET)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("equitangents.progress._REPORTED", 0.05)
    with caplog.at_level(logging.INFO, "equitangents"):
        et.audit(slow, "C4", X, batch_size=8, **QUIET)
    assert capsys.readouterr().err == ""
    assert any(r.getMessage().startswith("audit: ") and "to go" in r.getMessage() for r in caplog.records)
    et.audit(slow, "C4", X, batch_size=8, progress=True, **QUIET)
    done = [int(line.split()[1]) for line in capsys.readouterr().err.splitlines()]
    assert done
    assert done == sorted(done)
    calls: list[tuple[int, int, float]] = []
    report = et.audit(slow, "C4", X, batch_size=8, progress=lambda *told: calls.append(told), **QUIET)
    assert calls[-1][0] == report.timing.evaluations
    assert all(left >= 0 for _, _, left in calls)


def test_a_model_of_one_batch_size_is_averaged_in_such_batches() -> None:
    sizes = []

    def f(x: Any) -> Any:
        sizes.append(len(x))
        return np.tanh(x.reshape(len(x), -1) @ W)

    fixed = CallableModel(f)
    fixed.fixed_batch = 16
    free, filled = (et.audit(model, "C4", X[:16], **QUIET).remedy("average") for model in (f, fixed))
    expected = free(X[:5])
    sizes.clear()
    assert np.allclose(filled(X[:5]), expected, atol=1e-12)
    assert set(sizes) == {16}


SMALL = np.random.default_rng(0).normal(size=(20, 4, 4, 1))
CLOUDS = np.random.default_rng(1).normal(size=(20, 5, 3))


def corner(x: np.ndarray) -> np.ndarray:
    return 3 + np.asarray(x)[:, 0, 0]


def test_quick_effort_asks_for_the_error_and_its_floor_alone() -> None:
    report = et.audit(corner, "C4", SMALL, effort="quick")
    assert report.timing.evaluations == 80 + 48
    full = et.audit(corner, "C4", SMALL, off_data=False, resamples=50)
    np.testing.assert_array_equal(report.errors, full.errors)
    assert report.verdict == full.verdict == "broken"
    assert [s.name for s in report.sets] == ["data"]
    assert "effort='quick'" in [m.reason for m in report.missing]
    norms = et.audit(lambda x: (x**2).sum((1, 2)), "SO3", CLOUDS, effort="quick")
    assert (len(norms.elements), norms.verdict) == (12, "equivariant")
    assert len(et.audit(corner, "C4", SMALL, effort="quick", off_data=True).sets) == 3, "what is asked for is done"


@pytest.mark.parametrize("shape", [(6, 40), (6, 3), (5, 2, 70_000)])
def test_gram_matrices_suffice_for_the_smallest_misfit(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    a = rng.normal(size=shape)
    a[:, 0] = a[:, -1]  # as good as always, some features tell the same
    b = a + 0.1 * rng.normal(size=shape)
    A, B = a.reshape(len(a), -1), b.reshape(len(b), -1)
    nuclear = np.linalg.svd(_cross(A, B), compute_uv=False).sum()
    literal = np.sqrt(((A**2).sum() + (B**2).sum() - 2 * nuclear) / (A**2).sum())
    assert misfit(folded(a), folded(b)) == pytest.approx(literal, rel=1e-6)
    turned = A @ np.linalg.qr(rng.normal(size=(A.shape[1], A.shape[1])))[0] if A.shape[1] < 100 else A[:, ::-1]
    assert misfit(folded(a), folded(turned.reshape(shape))) < 1e-6
    assert misfit(folded(a.astype(np.float32)), folded(turned.reshape(shape).astype(np.float32))) < 1e-5


def _cross(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A matrix with the singular values of Aᵀ B: of many numbers, Lᵀ M with L Lᵀ = A Aᵀ and M Mᵀ = B Bᵀ."""
    return np.linalg.qr(A.T)[1] @ np.linalg.qr(B.T)[1].T if A.shape[1] > len(A) else A.T @ B


def test_few_large_inputs_are_evaluated_in_double_precision() -> None:
    import jax

    net = et.nn.Sequential(et.nn.GlobalAvgPool(), et.nn.Dense(2))
    x = np.random.default_rng(3).normal(size=(12, 96, 96, 2)).astype(np.float32)
    report = et.audit((net, net.init(jax.random.key(0), x.shape[1:])), "C4", x, effort="quick")
    assert report.timing.evaluations == 4 * 12 + 12 + 12 + 4 + 4, (
        "changed once and twice, to see that it is in double precision"
    )
    assert (report.verdict, report.float_floor.method) == ("equivariant", "float64")


def test_type_checkers_know_every_setting():
    assert [field.name for field in fields(AuditSettings)] == list(Keywords.__annotations__)
    assert all(f"        {field.name}: " in et.audit.audit.__doc__ for field in fields(AuditSettings))


def test_a_quick_audit_looks_at_what_is_asked_for():
    quick = settings_of({"effort": "quick", "layers": True, "seed": 3})
    assert (quick.off_data, quick.layers) == (False, True)
    assert vars(quick.bootstrap) == {"confidence": 0.95, "resamples": 200, "seed": 3}
