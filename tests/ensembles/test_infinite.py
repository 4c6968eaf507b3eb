import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equitangents import nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    MemoryLimitError,
    NotFiniteError,
    NotFittedError,
    NotPositiveDefiniteError,
    ShapeError,
)
from oracles import literal_training
from oracles.literal_network import LiteralNetwork

net = LiteralNetwork.relu_mlp(1)
rng = np.random.default_rng(3)
x, y, x_test = rng.normal(size=(8, 5)), rng.normal(size=(8, 2)), rng.normal(size=(4, 5))


class TestAgainstLiteralFormulas:
    @pytest.mark.parametrize("kernel", ["ntk", "nngp"])
    @pytest.mark.parametrize("ridge", [0.0, 0.1])
    @pytest.mark.parametrize("time", [0.0, 0.7, 50.0, np.inf])
    def test_mean_std_and_covariance(self, kernel, ridge, time):
        how = {"kernel": kernel, "time": time, "ridge": ridge, "learning_rate": 0.5}
        mean, covariance = literal_training.trained(net, x, y, x_test, **how)
        model = InfiniteEnsemble(net, **how).fit(x, y)
        np.testing.assert_allclose(model.predict(x_test), mean, atol=1e-11)
        got, std = model.predict(x_test, return_std=True)
        np.testing.assert_allclose(got, mean, atol=1e-11)
        np.testing.assert_allclose(std, np.sqrt(np.diag(covariance)), atol=1e-11)
        np.testing.assert_allclose(model.predict(x_test, return_cov=True)[1], covariance, atol=1e-11)
        assert model.solver_ == "dense N×N"

    @pytest.mark.parametrize("steps", [0, 1, 8, np.inf])
    def test_discrete_steps(self, steps):
        eta = 0.9 * InfiniteEnsemble(net).fit(x, y).max_learning_rate_
        how = {"time": steps, "learning_rate": eta, "dynamics": "discrete"}
        mean, covariance = literal_training.trained(net, x, y, x_test, **how)
        model = InfiniteEnsemble(net, **how).fit(x, y)
        np.testing.assert_allclose(model.predict(x_test), mean, atol=1e-11)
        np.testing.assert_allclose(model.predict(x_test, return_cov=True)[1], covariance, atol=1e-11)

    def test_the_largest_stable_learning_rate(self):
        model = InfiniteEnsemble(net, ridge=0.2).fit(x, y)
        Theta = net.kernel(x).ntk
        shifted = Theta + 0.2 * np.trace(Theta) / 8 * np.eye(8)
        assert model.max_learning_rate_ == pytest.approx(2 * 8 / np.linalg.eigvalsh(shifted)[-1], rel=1e-12)


class TestReferenceValues:
    """neural-tangents 0.6.5, gradient_descent_mse_ensemble, learning rate 1, on a ReLU network of 3 hidden layers.

    Its loss is the mean over samples and outputs, ours over samples: its time t is ours t/2 for 2 outputs. Its NTK of
    an input with itself is off by up to 1e-8, which moves means by 3e-9.
    """

    @pytest.fixture(scope="class")
    @staticmethod
    def data():
        rng = np.random.default_rng(0)
        return rng.standard_normal((20, 12)), rng.standard_normal((20, 2)), rng.standard_normal((6, 12))

    @pytest.fixture(scope="class")
    @staticmethod
    def relu_net():
        layers = [nn.Dense(4, W_std=1.5, b_std=0.1), nn.Relu()] * 3
        return nn.Sequential(*layers, nn.Dense(2, W_std=1.5, b_std=0.1))

    def test_ntk(self, data, relu_net):
        x, y, x_test = data
        model = InfiniteEnsemble(relu_net).fit(x, y)
        early = [-0.0281788036488903, -0.0421156858637546, -0.0526655540053056]
        late = [0.9039554017670327, 0.2604547215235981, -0.2249670723564471]
        np.testing.assert_allclose(model.predict(x_test, time=0.5 / 2)[:3, 0], early, atol=2e-8)
        np.testing.assert_allclose(model.predict(x_test)[:3, 0], late, atol=2e-8)
        covariance = model.predict(x_test, time=3.0 / 2, return_cov=True)[1]
        expected = [1.461719965794495, 0.26549895413658886, -0.00047148894135862207, -0.01410954930337005]
        np.testing.assert_allclose(covariance[0, :4], expected, atol=2e-8)
        assert model.max_learning_rate_ == pytest.approx(0.45993367172719735, rel=1e-8)

    def test_ntk_with_ridge(self, data, relu_net):
        x, y, x_test = data
        model = InfiniteEnsemble(relu_net, ridge=1e-2).fit(x, y)
        late = [0.1160266064268023, -0.0212396472304926, 0.2677076447653555]
        np.testing.assert_allclose(model.predict(x_test, time=300 / 2)[:3, 1], late, atol=2e-8)
        covariance = model.predict(x_test, time=3.0 / 2, return_cov=True)[1]
        expected = [1.463112596545769, 0.2667242143774291, -0.00020917556768318413, -0.013730984844951832]
        np.testing.assert_allclose(covariance[0, :4], expected, atol=2e-8)

    def test_nngp_with_ridge_is_the_posterior(self, data, relu_net):
        x, y, x_test = data
        model = InfiniteEnsemble(relu_net, kernel="nngp", ridge=1e-2).fit(x, y)
        early = [1.5998916597801758, 0.3490729092103937, -0.036104949134402764, -0.02437297380077519]
        late = [1.2478246087837794, 0.15534426059697815, 0.007069724869275484, -0.017121202881489106]
        np.testing.assert_allclose(model.predict(x_test, time=1.5, return_cov=True)[1][0, :4], early, atol=1e-12)
        np.testing.assert_allclose(model.predict(x_test, return_cov=True)[1][0, :4], late, atol=1e-12)


class TestTimes:
    def test_many_times_from_one_fit(self):
        model = InfiniteEnsemble(net).fit(x, y)
        times = np.array([0.0, 0.3, 7.0, np.inf])
        mean, std = model.predict(x_test, time=times, return_std=True)
        _, covariance = model.predict(x_test, time=times, return_cov=True)
        assert (mean.shape, std.shape, covariance.shape) == ((4, 4, 2), (4, 4), (4, 4, 4))
        for i, t in enumerate(times):
            np.testing.assert_array_equal(mean[i], model.predict(x_test, time=t))
            refitted = InfiniteEnsemble(net, time=t).fit(x, y)
            np.testing.assert_allclose(refitted.predict(x_test), mean[i], atol=1e-14)
            np.testing.assert_allclose(refitted.predict(x_test, return_cov=True)[1], covariance[i], atol=1e-14)

    def test_more_test_inputs_than_fit_into_one_block(self, monkeypatch):
        model = InfiniteEnsemble(net, time=1.0).fit(x, y)
        mean, std = model.predict(x_test, return_std=True)
        monkeypatch.setattr("equitangents.ensembles.infinite.predictor._BLOCK_ENTRIES", 8 * 3)
        monkeypatch.setattr("equitangents.solvers.matrices._DIAGONAL", 2)
        blocked, blocked_std = model.predict(x_test, return_std=True)
        np.testing.assert_allclose(blocked, mean, atol=1e-14)
        np.testing.assert_allclose(blocked_std, std, atol=1e-14)


class TestShapes:
    def test_targets_of_one_axis(self):
        model = InfiniteEnsemble(net, time=1.0).fit(x, y[:, 0])
        both = InfiniteEnsemble(net, time=1.0).fit(x, y)
        mean, std = model.predict(x_test, return_std=True)
        assert (mean.shape, std.shape) == ((4,), (4,))
        np.testing.assert_allclose(mean, both.predict(x_test)[:, 0], atol=1e-14)
        assert model.predict(x_test, time=[1.0, 2.0]).shape == (2, 4)
        assert model.sample(x_test, 3, key=jax.random.key(0)).shape == (3, 4)
        assert both.sample(x_test, 3, key=jax.random.key(0)).shape == (3, 4, 2)

    def test_flattened_images(self):
        images = rng.normal(size=(6, 3, 3, 2))
        conv = LiteralNetwork(
            (("conv", (3, 3), (1, 1), "circular", 1.4, 0.1), ("phi", "relu"), ("flatten",), ("dense", 1.0, 0.1)),
            flatten=False,
        )
        targets = rng.normal(size=6)
        as_images = InfiniteEnsemble(conv, time=1.0).fit(images, targets)
        flat = InfiniteEnsemble(conv, time=1.0, input_shape=(3, 3, 2)).fit(images.reshape(6, -1), targets)
        expected = as_images.predict(images[:2])
        np.testing.assert_array_equal(flat.predict(images[:2].reshape(2, -1)), expected)
        np.testing.assert_array_equal(flat.predict(images[:2]), expected)
        assert flat.n_features_in_ == as_images.n_features_in_ == 18
        assert flat.sample_shape_ == as_images.sample_shape_ == (3, 3, 2)

    def test_float32_and_jax_inputs_give_float64_predictions(self):
        expected = InfiniteEnsemble(net, time=1.0).fit(x, y).predict(x_test)
        single = InfiniteEnsemble(net, time=1.0).fit(x.astype(np.float32), y)
        assert single.predict(x_test.astype(np.float32)).dtype == np.float64
        np.testing.assert_allclose(single.predict(x_test.astype(np.float32)), expected, atol=1e-5)
        traced = InfiniteEnsemble(net, time=1.0).fit(jnp.asarray(x), jnp.asarray(y))
        np.testing.assert_allclose(traced.predict(jnp.asarray(x_test)), expected, atol=1e-5)


class TestSamples:
    def test_mean_and_covariance(self):
        model = InfiniteEnsemble(net, time=2.0).fit(x, y)
        mean, covariance = model.predict(x_test, return_cov=True)
        draws = model.sample(x_test, 4000, key=jax.random.key(5))
        error = np.sqrt(np.diag(covariance) / 4000)
        assert (np.abs(draws.mean(0) - mean) < 4 * error[:, None]).all()
        measured = np.cov(draws[:, :, 0], rowvar=False)
        spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / 4000)
        assert (np.abs(measured - covariance) < 4 * spread).all()

    def test_another_time(self):
        model = InfiniteEnsemble(net).fit(x, y)
        draws = model.sample(x, 2, key=jax.random.key(5), time=np.inf)
        np.testing.assert_allclose(draws, [y, y], atol=1e-5)  # trained to the end, every network interpolates
        assert np.abs(model.sample(x, 2, key=jax.random.key(5), time=0.1) - y).max() > 0.1


class TestEqualSamples:
    def test_repeated_samples_count_as_often_as_they_are_given(self):
        many = [0, 0, 0, *range(1, 8)]
        mean, covariance = literal_training.trained(net, x[many], y[many], x_test, time=3.0, ridge=0.1)
        model = InfiniteEnsemble(net, ridge=0.1).fit(x[many], y[many])
        np.testing.assert_allclose(model.predict(x_test, time=3.0), mean, atol=1e-11)
        np.testing.assert_allclose(model.predict(x_test, time=3.0, return_cov=True)[1], covariance, atol=1e-11)

    def test_one_input_with_two_targets_has_no_end(self):
        with pytest.raises(NotPositiveDefiniteError, match="ridge="):
            InfiniteEnsemble(net).fit(np.concatenate([x, x[:1]]), np.concatenate([y, y[:1] + 1]))


class TestBadInput:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"dynamics": "adam"}, "dynamics is 'adam'; expected 'flow', 'discrete' or inference.Momentum"),
            ({"time": [1.0, 2.0]}, "expected one number"),
            ({"input_shape": (0, 5)}, r"input_shape is \(0, 5\)"),
            ({"memory_limit": -1}, "memory_limit is -1"),
            ({"label_action": object()}, "label_action is given without augmentation"),
            ({"dynamics": "discrete", "time": 1.5}, r"time is 1\.5; .*counts steps"),
            ({"dynamics": "discrete", "time": 3, "learning_rate": 1e3}, "gradient descent on these data diverges"),
        ],
    )
    def test_parameters(self, parameters, message):
        with pytest.raises(InvalidArgumentError, match=message):
            InfiniteEnsemble(net, **parameters).fit(x, y)

    def test_net_and_augmentation_types(self):
        with pytest.raises(InvalidTypeError, match="net is 'mlp'"):
            InfiniteEnsemble("mlp").fit(x, y)
        with pytest.raises(InvalidTypeError, match="augmentation is 4"):
            InfiniteEnsemble(net, augmentation=4).fit(x, y)

    @pytest.mark.parametrize(
        ("data", "targets", "error", "message"),
        [
            (x[:, 0], y, ShapeError, "X has rank 1.*Reshape your data"),
            (x, y[:5], ShapeError, "X has length 8; expected 5"),
            (x[:0], y[:0], ShapeError, r"X has 0 sample\(s\) \(shape=\(0, 5\)\)"),
            (x * np.nan, y, NotFiniteError, "X holds NaN"),
            (x, None, InvalidArgumentError, "y is None; expected"),
            (x.astype(complex), y, InvalidArgumentError, "Complex data not supported"),
            (np.array([["a", "b"]] * 8), y, InvalidTypeError, "expected real numbers"),
            ([[1.0], [1.0, 2.0]], y[:2], ShapeError, "X is not a rectangular array"),
        ],
    )
    def test_data(self, data, targets, error, message):
        with pytest.raises(error, match=message):
            InfiniteEnsemble(net).fit(data, targets)

    def test_query(self):
        model = InfiniteEnsemble(net).fit(x, y)
        with pytest.raises(ShapeError, match="X has 4 features, but InfiniteEnsemble is expecting 5 features as input"):
            model.predict(x_test[:, :4])
        with pytest.raises(InvalidArgumentError, match="at most one"):
            model.predict(x_test, return_std=True, return_cov=True)
        with pytest.raises(InvalidArgumentError, match="time is -1"):
            model.predict(x_test, time=-1.0)
        with pytest.raises(InvalidArgumentError, match="drawn at one time"):
            model.sample(x_test, 2, key=jax.random.key(0), time=[1.0, 2.0])
        with pytest.raises(InvalidArgumentError, match=r"count is 2\.5"):
            model.sample(x_test, 2.5, key=jax.random.key(0))
        with pytest.raises(InvalidTypeError, match="key is 0"):
            model.sample(x_test, 2, key=0)
        with pytest.raises(ShapeError, match=r"with input_shape=\(5, 1\) expected \(N, 5, 1\) or \(N, 5\)"):
            InfiniteEnsemble(net, input_shape=(5, 1)).fit(x[:, :4], y)

    def test_before_and_after_a_failed_fit(self):
        model = InfiniteEnsemble(net)
        with pytest.raises(NotFittedError, match="not fitted"):
            model.predict(x_test)
        model.fit(x, y)
        with pytest.raises(InvalidArgumentError):
            model.set_params(kernel="none").fit(x, y)
        with pytest.raises(NotFittedError):
            model.predict(x_test)

    def test_a_singular_kernel_names_the_ridge_that_helps(self):
        linear = LiteralNetwork.linear()  # of rank 5 on 8 samples
        InfiniteEnsemble(linear, time=10.0).fit(x, y)
        with pytest.raises(NotPositiveDefiniteError, match=r"ridge=\S+ or more") as caught:
            InfiniteEnsemble(linear).fit(x, y)
        ridge = float(str(caught.value).split("ridge=")[1].split()[0])
        InfiniteEnsemble(linear, ridge=ridge).fit(x, y)
        with pytest.raises(NotPositiveDefiniteError):
            InfiniteEnsemble(linear, time=10.0).fit(x, y).predict(x_test, time=np.inf)

    def test_memory(self):
        with pytest.raises(MemoryLimitError, match=r"dense problem of 8 samples needs about .* train on fewer samples"):
            InfiniteEnsemble(net, memory_limit=1000).fit(x, y)
