"""Two-layer networks at the mean-field scale: what brings a symmetry in does not matter, of laws that have it."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

from equitangents import DeepEnsemble, actions, nn

rng = np.random.default_rng(8)
TURNS = actions.image_rotations(4)
X, Y = rng.normal(size=(5, 4, 4, 1)), rng.normal(size=5)
NEW = rng.normal(size=(6, 4, 4, 1))


def two_layers(n, scale):
    return nn.Sequential(nn.Flatten(), nn.Dense(n, b_std=0.3), nn.Erf(), nn.Dense(1), nn.Scale(scale))


class InOrbits:
    """Two layers whose units come in orbits of turned weights, or (`fixed`) are fixed by all turns."""

    def __init__(self, n, scale, fixed=False):
        self.net, self.n, self.fixed = two_layers(n, scale), n, fixed

    def init(self, key, input_shape, dtype):
        _, hidden, *between, output, scale = self.net.init(key, input_shape, dtype)
        matrices = np.stack([TURNS(g, np.eye(16).reshape(16, 4, 4, 1)).reshape(16, 16) for g in range(4)])
        name = max(hidden, key=lambda k: hidden[k].size)
        few = hidden[name][:, : self.n // 4]
        turned = [m.T @ few for m in matrices]
        turned = [sum(turned) / 4] * 4 if self.fixed else turned
        copied = {k: jnp.tile(v[..., : self.n // 4], 4) for k, v in hidden.items()}
        copied[name] = jnp.concatenate(turned, axis=1)
        last = {k: jnp.tile(v[: self.n // 4], (4, 1)) if v.ndim == 2 else v for k, v in output.items()}
        return ((), copied, *between, last, scale)

    def apply(self, params, x):
        return self.net.apply(params, x)


class Averaged(InOrbits):
    """Feature averaging: the mean of outputs over all turns of an input."""

    def apply(self, params, x):
        return sum(self.net.apply(params, jnp.rot90(x, g, axes=(1, 2))) for g in range(4)) / 4


def trained(net, rate, members=2, epochs=12, **options):
    options = {"augmentation": TURNS, "optimizer": "gd", "dtype": "float64"} | options
    model = DeepEnsemble(net, members=members, learning_rate=rate, epochs=epochs, **options).fit(X, Y)
    return np.stack([model.predict_members(TURNS(g, NEW))[..., 0] for g in range(4)], axis=1)  # (members, 4, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("n_scale", [(16, 0.25), (16, 1.0)], ids=["mean field", "tangent kernel"])
def test_of_units_in_orbits_all_ways_are_one_at_every_output_scale(n_scale):
    n, scale = n_scale
    augmented = trained(InOrbits(n, scale), 0.3 / scale**2)
    averaged = trained(Averaged(n, scale), 0.3 / scale**2, augmentation=None)
    np.testing.assert_allclose(averaged, augmented, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(augmented, np.broadcast_to(augmented[:, :1], augmented.shape), rtol=1e-9, atol=1e-12)
    free = trained(InOrbits(n, scale), 0.3 / scale**2, augmentation=None)  # on data that have no symmetry
    assert np.abs(free - free[:, :1]).max() > 1e-3


@pytest.mark.slow
def test_units_that_the_group_fixes_stay_fixed():
    y = trained(InOrbits(16, 0.25, fixed=True), 5.0)
    free = trained(InOrbits(16, 0.25, fixed=True), 5.0, augmentation=None)
    np.testing.assert_allclose(y, np.broadcast_to(y[:, :1], y.shape), rtol=1e-9, atol=1e-12)
    assert np.abs(free - free[:, :1]).max() > 1e-3


@pytest.mark.slow
def test_of_independent_units_they_become_one_as_one_over_the_root_of_the_width():
    def apart(n, scale):
        outputs = trained(two_layers(n, scale), 0.3 / scale**2, 24)
        return np.sqrt(np.mean((outputs - outputs[:, :1]) ** 2))

    few, many = apart(32, 32**-0.5), apart(512, 512**-0.5)
    np.testing.assert_allclose(np.log2(few / many), 2.0, atol=0.5)  # 16 times as many units
    assert apart(512, 1.0) > 5 * many


@pytest.mark.slow
def test_the_limit_is_one_function_whatever_the_start():
    """Particles of two seeds, each followed by the literal equation of motion."""
    n, rate = 2048, 0.3
    model = DeepEnsemble(
        two_layers(n, n**-0.5), members=4, learning_rate=rate * n, epochs=5, optimizer="gd", seed=3
    ).fit(X, Y)
    mean, std = model.predict(NEW, return_std=True)
    flat = X.reshape(5, 16)
    weights, biases = rng.normal(size=(n, 16)), rng.normal(size=n)
    outputs = rng.normal(size=n)
    for _ in range(5):
        z = flat @ weights.T / 4 + 0.3 * biases
        residual = (erf(z) @ outputs / n - Y) / 5
        slope = 2 / np.sqrt(np.pi) * np.exp(-(z**2)) * outputs
        moves = (residual[:, None] * slope).T @ flat / 4, 0.3 * (residual @ slope), residual @ erf(z)
        weights, biases, outputs = (p - rate * m for p, m in zip((weights, biases, outputs), moves, strict=True))
    expected = erf(NEW.reshape(6, 16) @ weights.T / 4 + 0.3 * biases) @ outputs / n
    assert np.abs((mean - expected) / (std * np.sqrt(1 + 1 / 4))).max() < 4.5
    assert std.max() < 0.1 * np.abs(Y).max()
