"""Other ensembles: bagging and randomised posteriors, member by member, posteriors in the limit of infinite width."""

import jax
import numpy as np
import optax
import pytest

from equitangents import DeepEnsemble, InfiniteEnsemble, actions, nn
from equitangents.ensembles import Bootstrap, NNGPPosterior, NTKPosterior, TangentPrior
from equitangents.ensembles.training.variations import decay_to_start, variation_key
from equitangents.errors import InvalidArgumentError
from oracles.invariance import invariance_error

FLIP = actions.image_rotations(2)
rng = np.random.default_rng(0)
X, ELSEWHERE = rng.normal(size=(6, 2, 2, 1)), rng.normal(size=(4, 2, 2, 1))
Y = np.stack([np.sin(X.sum(axis=(1, 2, 3))), X[:, 0, 0, 0]], axis=1)


def mlp(width, outputs=2):
    return nn.Sequential(
        nn.Flatten(), nn.Dense(width, W_std=1.5, b_std=0.3), nn.Relu(), nn.Dense(outputs, W_std=1.2, b_std=0.2)
    )


def trained(variation, **settings):
    given = {"members": 3, "optimizer": "gd", "learning_rate": 0.3, "epochs": 7, "seed": 4, "dtype": "float64"}
    return DeepEnsemble(mlp(16), variation=variation, **given | settings).fit(X, Y)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"augmentation": FLIP}, marks=pytest.mark.slow),
        pytest.param(
            {"augmentation": FLIP, "augmentation_mode": "random", "optimizer": "sgd", "batch_size": 4},
            marks=pytest.mark.slow,
        ),
        pytest.param({"optimizer": "sgd", "batch_size": 4}, marks=pytest.mark.slow),
    ],
    ids=["full batch", "augmented", "random copies", "batches"],
)
def test_a_bagged_member_is_one_trained_on_its_resample(settings):
    bagged = trained(Bootstrap(), **settings)
    drawn = []
    for i in range(3):
        rows = np.asarray(Bootstrap().rows(variation_key(4, i), 6, 1))
        given = {"members": 3, "optimizer": "gd", "learning_rate": 0.3, "epochs": 7, "seed": 4, "dtype": "float64"}
        alone = DeepEnsemble(mlp(16), **given | settings).fit(X[rows], Y[rows])
        np.testing.assert_allclose(
            bagged.predict_members(ELSEWHERE)[i], alone.predict_members(ELSEWHERE)[i], rtol=1e-9, atol=1e-12
        )
        np.testing.assert_allclose(bagged.history_[:, i], alone.history_[:, i], rtol=1e-9)
        drawn.append(tuple(rows))
    assert len(set(drawn)) == 3
    assert all(set(rows) <= set(range(6)) and len(rows) == 6 for rows in drawn)


def test_resamples_draw_every_sample_equally_often():
    rows = np.stack([Bootstrap().rows(variation_key(0, i), 10, 1) for i in range(300)])
    counts = np.bincount(rows.ravel(), minlength=10)
    assert ((counts - 300) ** 2 / 300).sum() < 27.9  # chi square, 9 degrees of freedom, 1 in 1000
    copies = Bootstrap().rows(variation_key(0, 1), 5, 3)
    np.testing.assert_array_equal(copies.reshape(3, 5) % 5, np.tile(copies[:5], (3, 1)))
    np.testing.assert_array_equal(copies.reshape(3, 5) // 5, np.repeat([[0], [1], [2]], 5, axis=1))


@pytest.mark.slow
def test_the_untrained_function_of_an_ntk_posterior_is_a_derivative():
    model = trained(NTKPosterior(), epochs=0)
    start, direction = model.params0_
    for leaf in jax.tree.leaves(direction[-1]):
        np.testing.assert_array_equal(leaf, 0.0)
    assert all(abs(leaf).min() > 0 for leaf in jax.tree.leaves(direction[:-1]))
    h, net = 1e-6, mlp(16)
    for i in range(3):
        at = lambda s, i=i: jax.tree.map(lambda a, d: a[i] + s * d[i], start, direction)
        delta = (np.asarray(net.apply(at(h), X)) - np.asarray(net.apply(at(-h), X))) / (2 * h)
        expected = np.asarray(net.apply(at(0.0), X)) + delta
        np.testing.assert_allclose(model.predict_members(X)[i], expected, rtol=1e-6, atol=1e-8)


def test_a_linear_network_less_its_baseline_is_that_with_drawn_weights_added_to_those_of_hidden_layers():
    net = nn.Sequential(nn.Flatten(), nn.Dense(3), nn.Dense(2))
    params = net.init(jax.random.key(0), X.shape[1:])
    start = NTKPosterior().start(jax.random.key(1), net, params, X.shape[1:], "float32")
    less = net.apply(params, X) - NTKPosterior().baseline(net, start, X)
    np.testing.assert_allclose(less, net.apply(jax.tree.map(jax.numpy.add, *start), X), rtol=1e-4, atol=1e-5)


def last_layer_descent(member, model, noise, steps, rate):
    """Outputs at ELSEWHERE after `steps` of gradient descent of the last layer alone: a linear model in closed form."""
    init_key, _ = jax.random.split(jax.random.fold_in(jax.random.key(4), member))
    params = model.net.init(init_key, (2, 2, 1), "float64")
    hidden = nn.Sequential(*model.net.layers[:-1])

    def features(x):
        return np.asarray(hidden.apply(params[:-1], x))

    def start(x):
        return np.asarray(model.net.apply(params, x))

    n = 2 * len(X)
    x = np.concatenate([X, np.rot90(X, 2, axes=(1, 2))])
    disturbed = np.tile(Y, (2, 1)) + NNGPPosterior(noise).disturbance(variation_key(4, member), (n, 2), "float64")
    kernel = lambda a, b: 1.2**2 * features(a) @ features(b).T / 16 + 0.2**2
    A = kernel(x, x) + noise * np.eye(n)
    values, vectors = np.linalg.eigh(A)
    response = (vectors * ((1 - (1 - rate * values / n) ** steps) / values)) @ vectors.T
    return start(ELSEWHERE) + kernel(ELSEWHERE, x) @ response @ (disturbed - start(x))


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 5, 4000])
def test_members_of_an_nngp_posterior_descend_in_closed_form_at_any_width(steps):
    model = trained(NNGPPosterior(0.3), epochs=steps, augmentation=FLIP, members=2, learning_rate=0.4)
    for member in range(2):
        expected = last_layer_descent(member, model, 0.3, steps, 0.4)
        np.testing.assert_allclose(model.predict_members(ELSEWHERE)[member], expected, rtol=1e-8, atol=1e-9)


@pytest.mark.quick(1)
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_members_of_an_nngp_posterior_keep_their_features_under_weight_decay(noise):
    given = {"members": 2, "optimizer": optax.adamw(0.1, weight_decay=0.5)}
    before, after = (trained(NNGPPosterior(noise), epochs=epochs, **given).params_ for epochs in (0, 3))
    jax.tree.map(np.testing.assert_array_equal, before[:-1], after[:-1])
    assert not np.isclose(before[-1]["w"], after[-1]["w"]).any()


def test_the_closed_form_of_an_ntk_posterior_is_gaussian_process_regression():
    k, cross, prior = mlp(1).kernel(X).ntk, mlp(1).kernel(ELSEWHERE, X).ntk, mlp(1).kernel(ELSEWHERE).ntk
    A = k + 0.05 * np.trace(k) / 6 * np.eye(6)
    model = InfiniteEnsemble(TangentPrior(mlp(1)), kernel="nngp", ridge=0.05).fit(X, Y)
    mean, covariance = model.predict(ELSEWHERE, return_cov=True)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(A, Y), atol=1e-10)
    np.testing.assert_allclose(covariance, prior - cross @ np.linalg.solve(A, cross.T), atol=1e-10)


@pytest.mark.slow
def test_wide_bagged_members_follow_the_closed_form():
    """Member by member: each has its own resample, so its mean and variance are those of that resample."""
    members, width, steps = 200, 1024, 100
    rate = 1 / float(np.diagonal(mlp(1).kernel(X).ntk).max())  # stable on any resample, one sample N times included
    closed = InfiniteEnsemble(mlp(1), dynamics="discrete", time=float(steps), learning_rate=rate)
    settings = {"optimizer": "gd", "learning_rate": rate, "epochs": steps, "variation": Bootstrap()}
    f = DeepEnsemble(mlp(width), members, **settings).fit(X, Y).predict_members(ELSEWHERE)
    scores = []
    for i, member in enumerate(f):
        rows = np.asarray(Bootstrap().rows(variation_key(0, i), 6, 1))
        mean, std = closed.fit(X[rows], Y[rows]).predict(ELSEWHERE, return_std=True)
        scores.append((member - mean) / std[:, None])
    assert np.all(abs(np.mean(scores, axis=0)) < 4.5 / np.sqrt(members))
    assert abs(np.mean(np.square(scores)) - 1) < 0.2


def test_a_checkpoint_of_another_variation_is_refused(tmp_path):
    settings = {"checkpoint_dir": tmp_path, "checkpoint_every": 3}
    trained(NTKPosterior(0.1), epochs=3, **settings)
    other = DeepEnsemble(mlp(16), members=3, optimizer="gd", seed=4, variation=NTKPosterior(0.2), **settings)
    with pytest.raises(InvalidArgumentError, match="variation"):
        other.fit(X, Y, resume=True)


def test_the_tangent_prior_keeps_the_ntk():
    k = TangentPrior(mlp(1)).kernel(X, ELSEWHERE)
    np.testing.assert_array_equal(k.nngp, k.ntk)
    assert invariance_error(TangentPrior(mlp(1)), FLIP, X) < 1e-12


def test_weights_are_held_to_where_they_began_by_the_noise_per_row():
    decay = decay_to_start(0.5)
    pulled, _ = decay.update({"w": np.array([1.0])}, {"w": np.array([2.0])}, {"w": np.array([6.0])})
    np.testing.assert_allclose(pulled["w"], [1 + 0.5 * (6 - 2)])
    base = NTKPosterior(noise=2.0).transformation(decay_to_start(0.0), 8)
    state = base.init({"w": np.zeros(1)})
    pulled, _ = base.update({"w": np.zeros(1)}, state, {"w": np.array([6.0])})
    np.testing.assert_allclose(pulled["w"], [2.0 / 8 * 6], rtol=1e-6)
