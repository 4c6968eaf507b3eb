"""A network of another library trained in an ensemble is that network trained alone by its own library."""

import equinox as eqx
import flax.linen
import jax
import numpy as np
import pytest
from flax import nnx
from own_networks import MEANS, NETWORKS, OUTPUTS, Linen, Nnx, batches, init_key

from equitangents import DeepEnsemble, DeepEnsembleClassifier, actions, audit, metrics, nn, plan_ensemble
from equitangents.ensembles.networks import EquinoxNetwork

SAMPLES, SIZE, EPOCHS, RATE = 7, 3, 3, 0.2
SLOW = pytest.mark.slow
every_library = pytest.mark.parametrize(
    "library", [pytest.param("linen", marks=SLOW), "nnx", pytest.param("equinox", marks=SLOW)]
)


@pytest.fixture(scope="module")
def xyz():
    rng = np.random.default_rng(1)
    x, y, x_new = rng.normal(size=(3, SAMPLES, 3)).astype(np.float32)
    return x, y[:, :2], x_new


def ensemble(library, members=2, **settings):
    net = NETWORKS[library][0]
    return DeepEnsemble(
        net, members, **{"epochs": EPOCHS, "batch_size": SIZE, "learning_rate": RATE, "seed": 4} | settings
    )


@pytest.mark.slow
@every_library
def test_a_member_is_the_network_trained_alone_on_the_same_batches(library, xyz):
    x, y, x_new = xyz
    model = ensemble(library).fit(x, y)
    steps = batches(4, 1, SAMPLES, SIZE, EPOCHS)
    outputs, mean = NETWORKS[library][1](x, y, x_new, init_key(4, 1), steps, RATE)
    np.testing.assert_allclose(model.predict_members(x_new)[1], outputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(MEANS[library](model.params_)[1], mean, rtol=1e-4, atol=1e-5)
    assert np.abs(mean).max() > 0.05  # the statistics have moved


@pytest.mark.slow
@every_library
def test_an_extended_a_resumed_and_a_loaded_ensemble_is_the_one_of_one_fit(library, xyz, tmp_path):
    x, y, x_new = xyz
    whole = ensemble(library, 3).fit(x, y)
    expected = whole.predict_members(x_new)
    longer = ensemble(library, 1).fit(x, y).extend(3, x, y)
    np.testing.assert_array_equal(longer.predict_members(x_new), expected)
    places = {"checkpoint_dir": tmp_path / "run", "checkpoint_every": 1}
    ensemble(library, 3, epochs=1, **places).fit(x, y)
    resumed = ensemble(library, 3, **places).fit(x, y, resume=True)
    np.testing.assert_array_equal(resumed.predict_members(x_new), expected)
    whole.save(tmp_path / "saved")
    with pytest.raises(ValueError, match=r"could not be saved with the ensemble; give it: load\(path, net="):
        DeepEnsemble.load(tmp_path / "saved")
    loaded = DeepEnsemble.load(tmp_path / "saved", net=NETWORKS[library][0])
    np.testing.assert_array_equal(loaded.predict_members(x_new), expected)


@every_library
def test_prediction_is_without_dropout_and_by_running_means_and_members_are_given_back(library, xyz):
    x, y, x_new = xyz
    model = ensemble(library).fit(x, y)
    np.testing.assert_array_equal(model.predict_members(x_new), model.predict_members(x_new))
    one_by_one = np.concatenate([model.predict_members(row[None]) for row in x_new], axis=1)
    np.testing.assert_allclose(one_by_one, model.predict_members(x_new), rtol=1e-5, atol=1e-6)
    outputs = OUTPUTS[library](model.member(1), x_new)
    np.testing.assert_allclose(outputs, model.predict_members(x_new)[1], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_bootstrap_zero_output_and_double_precision_are_for_all_networks(xyz):
    x, y, x_new = xyz
    from equitangents.ensembles import Bootstrap, ZeroOutput

    for library in NETWORKS:
        start = ensemble(library, epochs=0, variation=ZeroOutput()).fit(x, y)
        assert np.abs(start.predict_members(x_new)).max() < 1e-6
        model = ensemble(library, variation=Bootstrap(), dtype="float64").fit(x, y)
        assert model.predict(x_new).dtype == np.float64
        assert np.isfinite(model.history_).all()


@pytest.mark.slow
def test_the_mean_of_more_augmented_members_is_more_equivariant_than_a_member(rng):
    images, y = rng.normal(size=(12, 3, 3, 1)), rng.normal(size=12)
    turns = actions.image_rotations(4)
    net = Linen(outputs=1, rate=0.0)
    model = DeepEnsemble(net, 40, augmentation=turns, epochs=30, learning_rate=0.05, batch_size=24).fit(images, y)
    new = rng.normal(size=(30, 3, 3, 1))
    of_mean = metrics.equivariance_error(model.predict, turns, new).mean
    members = [
        metrics.equivariance_error(lambda x, i=i: model.predict_members(x)[i, :, 0], turns, new).mean for i in range(3)
    ]
    assert of_mean < 0.5 * min(members)
    plan = plan_ensemble(model, turns, new, target=0.5, draws=50)
    assert plan.equivariant is False  # Flax's initial law is not known here
    report = audit(model, turns, new)
    assert "members" in report.summary()


def test_a_convolutional_equinox_module_reads_channels_first(rng):
    class Conv(eqx.Module):
        conv: eqx.nn.Conv2d

        def __init__(self, key):
            self.conv = eqx.nn.Conv2d(2, 3, 3, key=key)

        def __call__(self, x):
            assert x.shape == (2, 4, 5)
            return self.conv(x).mean((1, 2))

    x = rng.normal(size=(6, 4, 5, 2))
    model = DeepEnsembleClassifier(Conv, 2, epochs=1).fit(x, list("abcabc"))
    assert model.predict_proba(x).shape == (6, 3)
    assert "state" not in model.params_


@pytest.mark.slow
def test_a_network_without_dropout_and_statistics_is_trained_as_its_apply(rng):
    # the same weights by this library: NTK parametrisation scales them, so a factor goes with the inputs
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    net = flax.linen.Dense(2, use_bias=False, kernel_init=flax.linen.initializers.normal(1.0))
    model = DeepEnsemble(net, 1, epochs=4, batch_size=5, learning_rate=0.1).fit(x, y)
    key = init_key(0, 0)
    w = np.asarray(net.init(key, x[:1])["params"]["kernel"])
    for rows, _ in batches(0, 0, 5, 5, 4):
        w = w - 0.1 * x[rows].T @ (x[rows] @ w - y[rows]) / len(rows)
    np.testing.assert_allclose(model.predict(x), x @ w, rtol=1e-4)
    assert list(model.params_) == ["params"]


def test_what_a_network_raises_names_the_network_and_the_shape(rng):
    with pytest.raises(ValueError, match=r"cannot .* inputs of shape \(4,\); .* Flax nnx module of .*Nnx takes"):
        DeepEnsemble(Nnx, 2).fit(rng.normal(size=(5, 4)), rng.normal(size=(5, 2)))
    with pytest.raises(ValueError, match="net gives outputs, 2; expected 1; end it with Dense"):
        DeepEnsemble(Linen(), 2).fit(rng.normal(size=(5, 3)), rng.normal(size=5))


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (Linen, "Linen.*; expected a module"),
        (lambda: None, "fails with TypeError"),
        (lambda key: key, "makes a DynamicJaxprTracer"),
        (3, "expected a network with init and apply"),
        ((nn.Relu, 3), "expected a network with init and apply"),
        (nnx.Linear(2, 2, rngs=nnx.Rngs(0)), "lambda rngs: Linear"),
        (eqx.nn.Linear(2, 2, key=jax.random.key(0)), "lambda key: Linear"),
    ],
)
def test_what_is_no_network_is_refused_with_what_may_be_given(net, message, rng):
    with pytest.raises(TypeError, match=message):
        DeepEnsemble(net, 2).fit(rng.normal(size=(5, 2)), rng.normal(size=5))


def test_dropout_of_an_equinox_module_is_for_training_alone(rng):
    class Dropped(eqx.Module):
        linear: eqx.nn.Linear
        dropout: eqx.nn.Dropout

        def __init__(self, key):
            self.linear, self.dropout = eqx.nn.Linear(3, 40, key=key), eqx.nn.Dropout(0.5)

        def __call__(self, x, key=None):
            return self.dropout(self.linear(x), key=key)

    net, x = EquinoxNetwork(Dropped), rng.normal(size=(2, 3)).astype(np.float32)
    variables = net.init(jax.random.key(0), (3,), "float32")
    whole = np.asarray(net.apply(variables, x))
    np.testing.assert_allclose(whole, jax.vmap(net.member(variables).linear)(x), rtol=1e-6)
    found = np.asarray(net.train(variables, x, jax.random.key(1))[0])
    kept = found != 0
    assert 10 < kept.sum() < 70
    np.testing.assert_allclose(found[kept], 2 * whole[kept], rtol=1e-6)
