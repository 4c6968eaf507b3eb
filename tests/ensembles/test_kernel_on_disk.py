"""InfiniteEnsemble(store=...): the training kernel is kept, and read where it was computed before."""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.errors import InvalidArgumentError, StoreError

NET = nn.Sequential(nn.Conv(1, 3), nn.Relu(), nn.Flatten(), nn.Dense(1))
ROT = et.actions.image_rotations(4)
RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(6, 4, 4, 1)), RNG.normal(size=6), RNG.normal(size=(2, 4, 4, 1))


@pytest.mark.parametrize("augmentation", [None, ROT])
def test_predictions_are_those_without_a_store(tmp_path, augmentation):
    plain = et.InfiniteEnsemble(NET, augmentation, ridge=1e-3).fit(X, Y)
    kept = et.InfiniteEnsemble(NET, augmentation, ridge=1e-3, store=tmp_path / "k").fit(X, Y)
    for one, two in zip(plain.predict(NEW, return_std=True), kept.predict(NEW, return_std=True), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-10)
    assert (tmp_path / "k" / "ntk").is_dir()


def test_a_second_fit_computes_no_kernel_of_the_training_set(tmp_path, monkeypatch):
    first = et.InfiniteEnsemble(NET, ridge=1e-3, store=tmp_path / "k").fit(X, Y)
    mean = first.predict(NEW)
    kernel = nn.Sequential.kernel

    def counting(self, x1, x2=None, engine=None):
        assert len(x1) < 6 or x2 is not None, "the training kernel was computed again"
        return kernel(self, x1, x2, engine)

    monkeypatch.setattr(nn.Sequential, "kernel", counting)
    again = et.InfiniteEnsemble(NET, ridge=1e-3, store=tmp_path / "k").fit(X, 2 * Y)
    np.testing.assert_allclose(again.predict(NEW), 2 * mean, rtol=1e-9)


def test_other_data_and_problems_of_several_matrices_are_refused(tmp_path):
    et.InfiniteEnsemble(NET, store=tmp_path / "k").fit(X, Y)
    with pytest.raises(StoreError, match="x1 has other values"):
        et.InfiniteEnsemble(NET, store=tmp_path / "k").fit(X + 1, Y)
    classes = et.actions.labels(ROT.group, np.add.outer(range(4), range(4)) % 4)
    model = et.InfiniteEnsemble(NET, ROT, label_action=classes, store="k")
<<<<<<< HEAD
    with pytest.raises(InvalidArgumentError, match="store is 'k'; expected None for labels whose problem has several kernel matrices"):
=======
    with pytest.raises(InvalidArgumentError, match="store is 'k'; expected None for labels"):
>>>>>>> ou
        model.fit(X, RNG.normal(size=(6, 4)))  # solved irrep by irrep
