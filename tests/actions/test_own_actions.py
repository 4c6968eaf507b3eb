"""An action that a user writes, of a finite group or of all rotations, is one everywhere."""

import numpy as np
import pytest

import equitangents as et
from equitangents import groups
from equitangents.actions import Action, CompactAction, from_function, image_rotations, sampled
from equitangents.errors import EquitangentsError, InvalidTypeError, NotAnActionError
from equitangents.validation import check_array


class SignFlips(Action):
    """C2 turns the sign of every feature; a subclass as a user would write it."""

    def __init__(self):
        vars(self).update(group=groups.cyclic(2), name="sign flips")

    def _check_signals(self, x):
        return check_array("x", x, rank=2)

    def _act(self, g, x):
        return -x if g else x

    def _key(self):
        return ()


class Tensors(CompactAction):
    """SO(3) on matrices (N, 3, 3), x ↦ R x Rᵀ."""

    def __init__(self, bandlimit):
        vars(self).update(group=groups.so3(bandlimit), name="tensors")

    def _check_signals(self, x):
        return check_array("x", x, rank=3)

    def _act(self, g, x):
        return g @ x @ g.T

    def _key(self):
        return ()


FLIPS = SignFlips()
CLOUDS = from_function(groups.so3(3), lambda g, x: x @ g.T.astype(x.dtype), name="turned clouds")
NET = et.nn.Sequential(et.nn.Dense(16, b_std=0.3), et.nn.Relu(), et.nn.Dense(1))
rng = np.random.default_rng(0)
X, Y, VECTORS = rng.normal(size=(6, 4)), rng.normal(size=6), rng.normal(size=(6, 3))
even, odd = (lambda x: (x**2).sum(1), lambda x: x.sum(1) ** 3)


def height(x):
    """A function of vectors that turns change."""
    return x[:, 2] ** 2


class TestFinite:
    def test_audits_take_it(self):
        assert et.audit(even, FLIPS, X, off_data=False).verdict == "equivariant"
        assert et.audit(odd, FLIPS, X, off_data=False).verdict == "broken"
        assert et.audit(lambda x: x**3, FLIPS, X, output_action=FLIPS, off_data=False).verdict == "equivariant"

    def test_measures_take_it(self):
        assert et.metrics.equivariance_error(even, FLIPS, X).mean == 0
        np.testing.assert_allclose(et.metrics.equivariance_error(odd, FLIPS, X).values, 1)  # (0 + 2)/2

    def test_orbit_averages_take_it(self):
        kernel = et.kernels.orbit_average(NET, FLIPS).kernel(X, X)
        moved = et.kernels.orbit_average(NET, FLIPS).kernel(-X, X)
        np.testing.assert_allclose(np.asarray(kernel.ntk), np.asarray(moved.ntk), rtol=1e-5)

    def test_infinite_ensembles_take_it(self):
        model = et.InfiniteEnsemble(NET, augmentation=FLIPS, time=10.0).fit(X, Y)
        np.testing.assert_allclose(model.predict(-X), model.predict(X), atol=1e-5)
        assert np.abs(model.predict(X)).max() > 1e-3

    @pytest.mark.slow
    def test_deep_ensembles_take_it(self):
        model = et.DeepEnsemble(NET, members=2, epochs=2, augmentation=FLIPS, seed=0).fit(X, Y)
        assert np.isfinite(model.predict(X)).all()

    def test_plans_take_it(self):
        model = et.InfiniteEnsemble(NET, time=10.0).fit(X, Y)
        plan = et.plan_ensemble(model, FLIPS, X, target=0.5)
        assert plan.order == 2


class TestAllRotations:
    @pytest.mark.slow
    def test_audits_take_it(self):
        norm = lambda x: (x**2).sum(1)
        assert et.audit(norm, CLOUDS, VECTORS, off_data=False).verdict == "equivariant"
        own, known = (
            et.audit(height, action, VECTORS, off_data=False) for action in (CLOUDS, et.actions.rotations(CLOUDS.group))
        )
        assert own.verdict == known.verdict == "broken"
        np.testing.assert_allclose(own.errors, known.errors, rtol=1e-12)

    @pytest.mark.slow
    def test_audits_take_it_of_outputs_and_beside_kinds_by_name(self):
        x = VECTORS[:, :, None] * VECTORS[:, None]
        tensors = Tensors(2)
        square = lambda x: x @ x
        for output in (tensors, "matrices"):
            assert et.audit(square, tensors, x, output_action=output, off_data=False).verdict == "equivariant"
        assert et.audit(np.square, tensors, x, output_action=tensors, off_data=False).verdict == "broken"

    def test_measures_integrate_over_its_nodes(self):
        own, known = (
            et.metrics.relative_orbit_std(height, action, VECTORS).values
            for action in (CLOUDS, et.actions.rotations(CLOUDS.group))
        )
        np.testing.assert_allclose(own, known, rtol=1e-12)
        trace = lambda x: np.trace(x, axis1=1, axis2=2)
        assert et.metrics.equivariance_error(trace, Tensors(2), VECTORS[:, :, None] * VECTORS[:, None]).mean < 1e-12

    @pytest.mark.parametrize("count", [None, 4])
    def test_ensembles_take_elements_of_it(self, count):
        own, known = (
            et.InfiniteEnsemble(NET, augmentation=sampled(action, count), time=10.0).fit(VECTORS, Y).predict(VECTORS)
            for action in (CLOUDS, et.actions.rotations(CLOUDS.group))
        )
        np.testing.assert_allclose(own, known, atol=1e-4)

    @pytest.mark.slow
    def test_deep_ensembles_take_elements_of_it(self):
        model = et.DeepEnsemble(NET, members=2, epochs=1, augmentation=sampled(CLOUDS, 3), seed=0).fit(VECTORS, Y)
        assert np.isfinite(model.predict(VECTORS)).all()

    def test_what_sums_over_all_elements_says_that_it_cannot(self):
        plan = lambda: et.plan_ensemble(
            et.InfiniteEnsemble(NET, time=10.0).fit(VECTORS, Y), CLOUDS, VECTORS, target=0.5
        )
        average = lambda: et.kernels.orbit_average(NET, CLOUDS)
        full = lambda: et.InfiniteEnsemble(NET, augmentation=CLOUDS).fit(VECTORS, Y)
        for asked in (plan, average, full):
            with pytest.raises(InvalidTypeError, match="a finite group"):
                asked()

    def test_verify_finds_what_is_no_action(self):
        CLOUDS.verify(VECTORS)
        with pytest.raises(NotAnActionError, match="is off by"):
            from_function(groups.so3(1), lambda g, x: x @ g).verify(VECTORS)
        with pytest.raises(NotAnActionError, match=r"expected ρ\(e\) x = x"):
            from_function(groups.so3(1), lambda g, x: x * np.nan).verify(VECTORS)


class TestOtherGroups:
    def test_angles_of_the_plane(self):
        def turned(g, x):
            c, s = np.cos(np.radians(g)), np.sin(np.radians(g))
            return x @ np.array([[c, s], [-s, c]])

        action = from_function(groups.so2(3), turned, name="turned pairs")
        action.verify(X[:, :2])
        first = lambda x: x[:, 0] ** 2  # r²(1 + cos 2φ)/2: mean r²/2, standard deviation r²/√8
        np.testing.assert_allclose(et.metrics.relative_orbit_std(first, action, X[:, :2]).values, np.sqrt(0.5))
        assert et.audit(first, action, X[:, :2], off_data=False).verdict == "broken"
        assert et.audit(lambda x: (x**2).sum(1), action, X[:, :2], off_data=False).verdict == "equivariant"

    def test_permutations_of_many_points_are_drawn(self):
        action = from_function(groups.permutations(9), lambda p, x: x[:, np.argsort(p)], name="permuted features")
        x = rng.normal(size=(5, 9))
        action.verify(x)
        assert et.audit(lambda x: np.sort(x).sum(1), action, x, off_data=False).verdict == "equivariant"
        with pytest.raises(InvalidTypeError, match="a group with nodes"):
            et.metrics.equivariance_error(even, action, x)
        assert sampled(action, 3).orbit(x).shape == (3, 5, 9)

    def test_groups_must_agree_in_audits(self):
        with pytest.raises(EquitangentsError, match="give actions of one group"):
            et.audit(odd, FLIPS, X, output_action=image_rotations(4), off_data=False)
