"""What an audit asks of a model: counted by part, less of it with quick effort, and one layer's features at a time."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from audit.potentials import Cluster, clusters
from equitangents.audit.measure.layers import difference, folded, misfit, same
from equitangents.errors import InvalidArgumentError

X = np.random.default_rng(0).normal(size=(20, 4, 4, 1))
CLOUDS = np.random.default_rng(1).normal(size=(20, 5, 3))


def corner(x: np.ndarray) -> np.ndarray:
    return 3 + np.asarray(x)[:, 0, 0]


def test_quick_effort_asks_for_the_error_and_its_floor_alone() -> None:
    report = et.audit(corner, "C4", X, effort="quick")
    assert report.timing.parts == {"elements": 80, "floors": 32}
    full = et.audit(corner, "C4", X, off_data=False, data_test=None, resamples=50)
    np.testing.assert_array_equal(report.errors, full.errors)
    assert report.verdict == full.verdict == "broken"
    assert [s.name for s in report.sets] == ["data"]
    assert "effort='quick'" in [m.reason for m in report.missing]
    norms = et.audit(lambda x: (x**2).sum((1, 2)), "SO3", CLOUDS, effort="quick")
    assert (len(norms.elements), norms.verdict) == (12, "equivariant")
    assert len(et.audit(corner, "C4", X, effort="quick", off_data=True).sets) == 3, "what is asked for is done"
    with pytest.raises(InvalidArgumentError, match="effort is 'low'"):
        et.audit(corner, "C4", X, effort="low")


def test_outputs_along_the_orbit_are_not_evaluated_again_for_floors() -> None:
    report = et.audit(lambda x: x.sum((1, 2)), "C8", X, effort="quick")
    # another order, rounding, and of four angles that resample there and back and the better spline
    assert report.timing.parts == {"elements": 8 * 20, "floors": 16 * (2 + 4 * 2)}


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
    assert same(folded(a), folded(a.copy()))
    assert not same(folded(a), folded(b))
    assert difference(folded(a), folded(b)) == pytest.approx(0.1, rel=0.5)


def _cross(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A matrix with the singular values of Aᵀ B: of many numbers, Lᵀ M with L Lᵀ = A Aᵀ and M Mᵀ = B Bᵀ."""
    return np.linalg.qr(A.T)[1] @ np.linalg.qr(B.T)[1].T if A.shape[1] > len(A) else A.T @ B


def test_an_audit_of_a_potential_that_is_interrupted_reports_what_was_finished() -> None:
    class Counted(Cluster):
        asked, last = 0, 0

        def calculate(self, *args: object, **kwargs: object) -> None:
            self.asked += 1
            if self.asked == self.last:
                raise KeyboardInterrupt
            super().calculate(*args, **kwargs)

    whole, stopped = Counted(), Counted()
    et.audit.atoms(whole, clusters(2), ["rotation", "permutation"], elements=6)
    stopped.last = whole.asked - 3
    report = et.audit.atoms(stopped, clusters(2), ["rotation", "permutation"], elements=6)
    assert report.partial
    assert report.first_line.startswith("partial, undecided (interrupted): ")
    assert report.verdict == "undecided"
    assert {r.test for r in report.rows} == {"rotation"}
    assert [(m.section, m.reason) for m in report.missing] == [("permutation", "interrupted")]


def test_few_large_inputs_are_evaluated_in_double_precision() -> None:
    import jax

    net = et.nn.Sequential(et.nn.GlobalAvgPool(), et.nn.Dense(2))
    x = np.random.default_rng(3).normal(size=(12, 96, 96, 2)).astype(np.float32)
    report = et.audit((net, net.init(jax.random.key(0), x.shape[1:])), "C4", x, effort="quick")
    assert report.timing.parts == {"elements": 4 * 12, "floors": 12 + 4 + 4}, (
        "changed once and twice, to see that it is in double precision"
    )
    assert (report.verdict, report.float_floor.method) == ("equivariant", "float64")
