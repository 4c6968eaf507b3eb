"""One orbit suffices where the kernel is seen to be invariant on the data, under an action that is one."""

import numpy as np

import equitangents as et
from equitangents.kernels.invariance import is_invariant
from equitangents.kernels.result import Kernels
from equitangents.nn import Dense, Flatten, Relu, Sequential

MLP = Sequential(Flatten(), Dense(8), Relu(), Dense(1))


class NotOfNegatives:
    """Products of sums over all pixels, and of one pixel where that is negative: invariant on positive images alone."""

    def kernel(self, x1, x2=None):
        x2 = x1 if x2 is None else x2
        a, b = (x.sum(axis=(1, 2, 3)) + 10 * np.minimum(x[:, 0, 1, 0], 0) for x in (x1, x2))
        return Kernels(nngp=np.outer(a, b), ntk=np.outer(a, b), engine="none", form="none", notes=())


def test_actions_that_are_none_take_both_orbits_whatever_the_data(rng):
    masked = et.actions.image_rotations(4, mask="circle")
    x = masked(0, rng.standard_normal((4, 5, 5, 1)))
    assert is_invariant(MLP, et.actions.image_rotations(4), x)
    assert not is_invariant(MLP, masked, x)


def test_inputs_that_move_are_looked_for_in_all_data(rng):
    still, moving = np.ones((40, 4, 4, 1)), rng.uniform(1, 2, size=(3, 4, 4, 1))
    turns = et.actions.image_rotations(4)
    assert is_invariant(NotOfNegatives(), turns, np.concatenate([still, moving]))
    assert not is_invariant(NotOfNegatives(), turns, still), "where nothing moves, noise is tried"
