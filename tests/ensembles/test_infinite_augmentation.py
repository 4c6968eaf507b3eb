import itertools
import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equitangents import actions, groups, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import (
    InvalidArgumentError,
    MemoryLimitError,
    NotAnActionError,
    NotPositiveDefiniteError,
)
from examples import examples
from oracles import literal_training
from oracles.literal_network import LiteralNetwork

PERMUTATIONS = list(itertools.permutations(range(3)))
S3 = groups.from_permutations(PERMUTATIONS)
matrices = np.zeros((6, 3, 3))
for g, p in enumerate(PERMUTATIONS):
    matrices[g, list(p), range(3)] = 1  # e_i to e_{p(i)}
permute = actions.permutations(S3, np.array(PERMUTATIONS))  # on (N, 3, channels)
turn_labels = actions.linear(S3, matrices)  # on (N, 3)
mlp = LiteralNetwork.relu_mlp(1)
literal = literal_training.trained
seeds, ridges = st.integers(0, 10**6), st.sampled_from([0.0, 0.2])
times = pytest.mark.parametrize("time", [0.0, 0.9, 30.0, np.inf])


def data(seed, n=4, m=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3, 2)), rng.normal(size=(n, 3)), rng.normal(size=(m, 3, 2))


def augmented(action, label_action, x, y):
    order = action.group.order
    inputs = np.concatenate([action(g, x) for g in range(order)])
    targets = np.concatenate([y if label_action is None else label_action(g, y) for g in range(order)])
    return inputs, targets


def assert_gives(model, x_test, mean, covariance, atol, covariance_atol=None):
    np.testing.assert_allclose(model.predict(x_test), mean, atol=atol)
    found = model.predict(x_test, return_cov=True)[1]
    np.testing.assert_allclose(found, covariance, atol=covariance_atol or atol)


class TestInvariantLabels:
    @pytest.mark.quick(2)
    @times
    @given(seed=seeds, ridge=ridges, kernel=st.sampled_from(["ntk", "nngp"]))
    @settings(max_examples=8)
    def test_the_orbit_averaged_problem_is_the_explicit_one(self, time, ridge, kernel, seed):
        x, y, x_test = data(seed)
        expected, covariance = literal(
            mlp, *augmented(permute, None, x, y), x_test, kernel=kernel, time=time, ridge=ridge
        )
        model = InfiniteEnsemble(mlp, augmentation=permute, time=time, ridge=ridge, kernel=kernel).fit(x, y)
        assert model.solver_ == "orbit-averaged N×N"
        assert_gives(model, x_test, expected, covariance, 1e-8, 1e-7)

    @pytest.mark.parametrize("steps", [0, 1, 6, np.inf])
    @pytest.mark.parametrize("ridge", [0.0, 0.2])
    def test_in_discrete_steps(self, steps, ridge):
        x, y, x_test = data(1)
        eta = 0.95 * InfiniteEnsemble(mlp, augmentation=permute, ridge=ridge).fit(x, y).max_learning_rate_
        how = {"time": steps, "ridge": ridge, "dynamics": "discrete", "learning_rate": eta}
        expected, covariance = literal(mlp, *augmented(permute, None, x, y), x_test, **how)
        model = InfiniteEnsemble(mlp, augmentation=permute, **how).fit(x, y)
        assert_gives(model, x_test, expected, covariance, 1e-10)

    def test_a_convolutional_network_under_translations_becomes_the_pooled_one(self):
        """Flatten and augmentation by all translations against global average pooling, trained as long."""
        rng = np.random.default_rng(0)
        x, y, x_test = rng.normal(size=(5, 3, 4, 2)), rng.normal(size=(5, 2)), rng.normal(size=(3, 3, 4, 2))
        features = (nn.Conv(4, (3, 3), W_std=1.4, b_std=0.1), nn.Relu(), nn.Conv(4, (2, 2)), nn.Relu())
        flat = nn.Sequential(*features, nn.Flatten(), nn.Dense(2))
        pooled = nn.Sequential(*features, nn.GlobalAvgPool(), nn.Dense(2))
        shifts = actions.translations((3, 4))
        times = [0.0, 1.0, 50.0, np.inf]
        model = InfiniteEnsemble(flat, augmentation=shifts).fit(x, y)
        expected = InfiniteEnsemble(pooled).fit(x, y).predict(x_test, time=times)
        assert model.solver_ == "orbit-averaged N×N"
        np.testing.assert_allclose(model.predict(x_test, time=times), expected, atol=1e-10)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_labels_of_which_an_odd_network_learns_nothing(self, dtype):
        flip = actions.linear(groups.cyclic(2), np.stack([np.eye(3), -np.eye(3)]))
        odd = nn.Sequential(nn.Dense(1, W_std=1.5), nn.Erf(), nn.Dense(1))
        rng = np.random.default_rng(0)
        x, y, x_test = rng.normal(size=(9, 3)).astype(dtype), rng.normal(size=9), rng.normal(size=(4, 3)).astype(dtype)
        model = InfiniteEnsemble(odd, augmentation=flip, time=10.0).fit(x, y)
        np.testing.assert_allclose(model.predict(x_test), 0, atol=1e-5 if dtype == np.float32 else 1e-13)
        with pytest.raises(NotPositiveDefiniteError, match="not positive definite to working precision"):
            model.predict(x_test, time=np.inf)

    def test_the_covariance_is_solved_when_first_wanted(self, caplog):
        x, y, x_test = data(0)
        with caplog.at_level(logging.INFO, "equitangents"):
            model = InfiniteEnsemble(mlp, augmentation=permute, time=1.0).fit(x, y)
            model.predict(x_test)
            assert "covariances" not in caplog.text
            model.predict(x_test, return_std=True)
            model.predict(x_test, return_cov=True)
        assert caplog.text.count("covariances by irreps of") == 1


class TestEquivariantLabels:
    @given(seeds, st.one_of(st.floats(0, 100), st.just(np.inf)))
    @examples(6, random=15)
    def test_the_mean_is_equivariant_on_and_off_the_data(self, seed, time):
        x, y, x_test = data(seed)
        model = InfiniteEnsemble(mlp, augmentation=permute, label_action=turn_labels, time=time).fit(x, y)
        for points in (x, x_test, 100 * x_test):
            mean = model.predict(points)
            for g in S3:
                np.testing.assert_allclose(
                    model.predict(permute(g, points)), turn_labels(g, mean), atol=1e-10 * max(1, np.abs(mean).max())
                )


class TestWithoutInvariance:
    def test_a_kernel_that_the_action_changes(self):
        net = LiteralNetwork.relu_mlp(1, feature_weights=(1.0, 1.3, 0.7, 1.0, 1.1, 0.8))
        x, y, x_test = data(0)
        expected, covariance = literal(net, *augmented(permute, None, x, y), x_test, time=2.0, ridge=0.1)
        model = InfiniteEnsemble(net, augmentation=permute, time=2.0, ridge=0.1).fit(x, y)
        assert model.solver_.startswith("explicit N|G| (the kernel is not known to be invariant")
        assert_gives(model, x_test, expected, covariance, 1e-11)

    def test_inputs_that_the_action_fixes_do_not_hide_it(self):
        net = LiteralNetwork.relu_mlp(1, feature_weights=(1.0, 1.3, 0.7, 1.0, 1.1, 0.8))
        rng = np.random.default_rng(0)
        x, y, x_test = rng.normal(size=(8, 3, 2)), rng.normal(size=(8, 1)), rng.normal(size=(3, 3, 2))
        x[::2] = x[::2, :1]
        expected, _ = literal(net, *augmented(permute, None, x, y), x_test, time=2.0)
        model = InfiniteEnsemble(net, augmentation=permute, time=2.0).fit(x, y)
        np.testing.assert_allclose(model.predict(x_test), expected, atol=1e-11)

    def test_an_action_that_resamples(self):
        rotations = actions.image_rotations(8)
        rng = np.random.default_rng(0)
        x, y, x_test = rng.normal(size=(3, 4, 4, 1)), rng.normal(size=(3, 2)), rng.normal(size=(2, 4, 4, 1))
        expected, _ = literal(mlp, *augmented(rotations, None, x, y), x_test, time=2.0)
        model = InfiniteEnsemble(mlp, augmentation=rotations, time=2.0).fit(x, y)
        assert model.solver_ == "explicit N|G| (the augmentation is only approximately an action)"
        np.testing.assert_allclose(model.predict(x_test), expected, atol=1e-11)


class TestFixedInputs:
    """Inputs that some elements leave alone: their copies coincide, and the explicit matrix is singular."""

    @staticmethod
    def symmetric_data(seed=0):
        x, y, x_test = data(seed)
        x[0] = x[0, :1]  # fixed by all of S3
        x[1, 1] = x[1, 2]  # fixed by one transposition
        return x, y, x_test

    @pytest.mark.parametrize("label_action", [None, turn_labels], ids=["invariant", "equivariant"])
    @pytest.mark.parametrize("time", [0.9, 30.0, np.inf])
    @pytest.mark.parametrize("ridge", [0.0, 0.2])
    def test_labels(self, label_action, time, ridge):
        x, y, x_test = self.symmetric_data()
        if label_action is not None:
            y[0] = y[0, 0]  # consistent: fixed by what fixes the input
            y[1, 1] = y[1, 2]
        inputs, targets = augmented(permute, label_action, x, y)
        expected, covariance = self.literal_with_pseudoinverse(inputs, targets, x_test, time, ridge)
        model = InfiniteEnsemble(mlp, augmentation=permute, label_action=label_action, time=time, ridge=ridge).fit(x, y)
        assert_gives(model, x_test, expected, covariance, 1e-8)

    def literal_with_pseudoinverse(self, inputs, targets, x_test, time, ridge):
        if not np.isinf(time) or ridge:
            return literal(mlp, inputs, targets, x_test, time=time, ridge=ridge)
        k, cross = mlp.kernel(inputs), mlp.kernel(x_test, inputs)
        A = cross.ntk @ np.linalg.pinv(k.ntk, rcond=1e-10, hermitian=True)
        return A @ targets, literal_training.covariance(A, k.nngp, cross.nngp, mlp.kernel(x_test).nngp)

    @pytest.mark.parametrize("time", [0.9, np.inf])
    def test_samples_on_one_orbit(self, time):
        x, y, x_test = data(4)
        x[2], y[2] = permute(4, x[:1])[0], y[0]
        model = InfiniteEnsemble(mlp, augmentation=permute, time=time, ridge=0.05).fit(x, y)
        expected, covariance = literal(mlp, *augmented(permute, None, x, y), x_test, time=time, ridge=0.05)
        assert_gives(model, x_test, expected, covariance, 1e-10)
        unregularised = InfiniteEnsemble(mlp, augmentation=permute).fit(x, y)
        np.testing.assert_allclose(unregularised.predict(x), y, atol=1e-9)

    def test_samples_on_one_orbit_with_two_targets_have_no_end(self):
        x, y, _ = data(4)
        x[2] = permute(4, x[:1])[0]
        with pytest.raises(NotPositiveDefiniteError):
            InfiniteEnsemble(mlp, augmentation=permute).fit(x, y)


class TestBadInput:
    def test_actions_of_two_groups(self):
        x, y, _ = data(0)
        other = actions.trivial(groups.cyclic(6))
        with pytest.raises(InvalidArgumentError, match=r"label_action is of .*; the group of augmentation"):
            InfiniteEnsemble(mlp, augmentation=permute, label_action=other).fit(x, y)

    def test_what_is_no_action(self):
        class Skewed(actions.Action):
            group, name = S3, "skewed"

            def _check_signals(self, x):
                return x

            def _act(self, g, x):
                return turn_labels(g, x) * (1 + 0.1 * g)

            def _key(self):
                return ()

        x, y, _ = data(0)
        skewed = Skewed()
        with pytest.raises(NotAnActionError):
            InfiniteEnsemble(mlp, augmentation=permute, label_action=skewed).fit(x, y)

    def test_memory(self):
        x, y, x_test = data(0)
        model = InfiniteEnsemble(mlp, augmentation=permute, time=1.0, memory_limit=2000).fit(x, y)
        model.predict(x_test)
        with pytest.raises(MemoryLimitError, match=r"augmented problem of 4·6 .* ask for the mean alone"):
            model.predict(x_test, return_std=True)
        with pytest.raises(MemoryLimitError, match=r"fewer samples or a subgroup of the augmentation"):
            InfiniteEnsemble(mlp, augmentation=permute, label_action=turn_labels, memory_limit=2000).fit(x, y)
