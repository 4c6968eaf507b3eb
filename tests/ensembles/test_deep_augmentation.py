"""Augmented training is training on the orbits, and its ensemble mean is what the group makes of it."""

from functools import partial

import jax
import numpy as np
import pytest

from equitangents import DeepEnsemble, actions, groups, nn
from equitangents.actions.action import Action
from equitangents.ensembles.training.settings import augment
from equitangents.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError, NotAnActionError

rng = np.random.default_rng(2)
ROT = actions.image_rotations(4)
X, Y = rng.normal(size=(6, 4, 4, 1)), rng.normal(size=6)
NET = nn.Sequential(nn.Flatten(), nn.Dense(4, b_std=0.1), nn.Relu(), nn.Dense(1))
GD = {"members": 2, "optimizer": "gd", "learning_rate": 0.3, "epochs": 5, "dtype": "float64"}


class NoAction(Action):
    """x → (1 + g) x, which is no representation of C2."""

    group = groups.cyclic(2)
    name = "scaling"

    def _check_signals(self, x):
        return x

    def _act(self, g, x):
        return (1 + g) * x

    def _key(self):
        return ()


def bits_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["gd", pytest.param("sgd", marks=pytest.mark.slow)])
def test_full_augmentation_is_training_on_all_orbits(optimizer):
    settings = GD | {"optimizer": optimizer}
    model = DeepEnsemble(NET, augmentation=ROT, **settings).fit(X, Y)
    turned = np.concatenate([np.rot90(X, g, axes=(1, 2)) for g in range(4)])
    explicit = DeepEnsemble(NET, **settings).fit(turned, np.tile(Y, 4))
    bits_equal(model.params_, explicit.params_)


@pytest.mark.slow
def test_labels_move_with_their_inputs():
    turn = actions.rotations(groups.octahedral())
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    net = nn.Sequential(nn.Dense(6), nn.Erf(), nn.Dense(3))
    model = DeepEnsemble(net, augmentation=turn, label_action=turn, **GD).fit(x, y)
    matrices = groups.octahedral().matrices
    explicit = DeepEnsemble(net, **GD).fit(
        np.concatenate([x @ R.T for R in matrices]), np.concatenate([y @ R.T for R in matrices])
    )
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9), model.params_, explicit.params_)


def test_random_augmentation_draws_from_the_orbits():
    data = augment(ROT, None, "random", X, Y[:, None], "float64")
    assert (data.samples, data.copies) == (6, 4)
    np.testing.assert_array_equal(data.x.reshape(4, 6, 4, 4, 1)[3], np.rot90(X, 3, axes=(1, 2)))
    np.testing.assert_array_equal(data.y, np.tile(Y, 4)[:, None])


@pytest.mark.slow
def test_random_augmentation_sees_every_rotation():
    """One sample of a linear network without bias: weights stay in the span of the sample's rotations, all of them."""
    x = rng.normal(size=(1, 2, 2, 1))
    net = nn.Sequential(nn.Flatten(), nn.Dense(1))
    model = DeepEnsemble(
        net, members=1, augmentation=ROT, augmentation_mode="random", epochs=40, zero_output=True, dtype="float64"
    ).fit(x, np.ones(1))
    moved = (model.params_[1]["w"] - model.params0_[1]["w"])[0, :, 0]
    orbit = np.stack([np.rot90(x[0, ..., 0], g).ravel() for g in range(4)])
    coefficients = np.linalg.solve(orbit.T, moved)
    assert (abs(coefficients) > 1e-3).all()


def test_errors():
    with pytest.raises(InvalidArgumentError, match="label_action is given without augmentation"):
        DeepEnsemble(NET, label_action=ROT).fit(X, Y)
    with pytest.raises(InvalidTypeError, match="augmentation is 4; expected an action"):
        DeepEnsemble(NET, augmentation=4).fit(X, Y)
    trivial = actions.trivial(groups.cyclic(2))
    with pytest.raises(InvalidArgumentError, match=r"expected .*; the group of augmentation"):
        DeepEnsemble(NET, augmentation=ROT, label_action=trivial).fit(X, Y)
    with pytest.raises(InvalidArgumentError, match="augmentation_mode is 'some'; expected 'full' or 'random'"):
        DeepEnsemble(NET, augmentation=ROT, augmentation_mode="some").fit(X, Y)
    with pytest.raises(InvalidArgumentError, match="x has"):
        DeepEnsemble(NET, augmentation=ROT).fit(X[:, :3], Y)
    with pytest.raises(MemoryLimitError, match="the 4 transformed copies of 6 samples needs about"):
        DeepEnsemble(NET, augmentation=ROT, memory_limit=1000).fit(X, Y)

    with pytest.raises(NotAnActionError):
        DeepEnsemble(NET, augmentation=NoAction(), **GD).fit(X, Y)


class TestPartOfAnOrbit:
    def test_full_augmentation_by_some_elements(self):
        some = actions.subset(ROT, [0, 3, 3])
        model = DeepEnsemble(NET, augmentation=some, **GD).fit(X, Y)
        inputs = np.concatenate([ROT(g, X) for g in (0, 3, 3)])
        expected = DeepEnsemble(NET, **GD).fit(inputs, np.tile(Y, 3))
        np.testing.assert_array_equal(model.predict(X), expected.predict(X))

    def test_random_augmentation_draws_from_them(self):
        data = augment(actions.subset(ROT, [1, 2]), None, "random", X, Y[:, None], "float64")
        assert (data.samples, data.copies) == (6, 2)
        np.testing.assert_array_equal(data.x, np.concatenate([ROT(1, X), ROT(2, X)]))

    def test_weights_are_refused(self):
        with pytest.raises(InvalidArgumentError, match="repeat elements in place of weights"):
            DeepEnsemble(NET, augmentation=actions.subset(ROT, [0, 1], [1, 2]), **GD).fit(X, Y)
