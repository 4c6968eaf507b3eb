"""Misspelt keywords are refused with the one that was meant, by layers and by estimators."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import equitangents as et

N = et.nn
NET = N.Sequential(N.Dense(4), N.Relu(), N.Dense(1))


@pytest.mark.parametrize("layer", [N.Dense, N.Conv, N.Lift, N.GroupConv, N.LocallyConnected, N.SphereLift])
def test_every_layer_with_weights_knows_which_scale_was_meant(layer: Any) -> None:
    for wrong, right in (("w_std", "W_std"), ("B_std", "b_std"), ("W_sdt", "W_std")):
        with pytest.raises(et.errors.InvalidTypeError, match=f"has no argument '{wrong}'; .*mean '{right}'"):
            layer(4, **{wrong: 1.0})


def test_layers_without_weights_say_what_they_take() -> None:
    with pytest.raises(et.errors.InvalidTypeError, match=r"AvgPool has no argument 'windw'; .*mean 'window'"):
        N.AvgPool(windw=(2, 2))
    with pytest.raises(et.errors.InvalidTypeError, match="Residual has no argument 'W_std'"):
        N.Residual(N.Relu(), W_std=1.0)
    with pytest.raises(et.errors.InvalidTypeError, match="Sequential has no argument 'layers'"):
        N.Sequential(layers=[N.Relu()])


@pytest.mark.parametrize(
    ("estimator", "wrong", "right"),
    [
        (et.InfiniteEnsemble, "augmentaton", "augmentation"),
        (et.InfiniteEnsembleClassifier, "learningrate", "learning_rate"),
        (et.DeepEnsemble, "member", "members"),
        (et.DeepEnsembleClassifier, "epoch", "epochs"),
        (et.molecules.MoleculeRegressor, "rigde", "ridge"),
        (et.ensembles.BaggedInfiniteEnsemble, "resample", "resamples"),
    ],
)
def test_every_estimator_knows_which_parameter_was_meant(estimator: Any, wrong: str, right: str) -> None:
    with pytest.raises(et.errors.InvalidTypeError, match=f"no argument '{wrong}'; expected .*; did you mean '{right}'"):
        estimator(NET, **{wrong: 1})


def test_checked_keywords_are_copied_and_pickled_as_before() -> None:
    layer = N.Dense(3, W_std=1.5)
    assert copy.deepcopy(layer) == pickle.loads(pickle.dumps(layer)) == layer
    model = et.InfiniteEnsemble(NET, time=3.0)
    assert clone(model).get_params() == pickle.loads(pickle.dumps(model)).get_params()


@pytest.mark.parametrize("estimator", [et.InfiniteEnsemble, et.DeepEnsemble])
def test_parameters_of_networks_cannot_be_set_one_by_one(estimator: Any) -> None:
    model = estimator(NET)
    with pytest.raises(et.errors.InvalidArgumentError, match=r"net__W_std cannot be set.*net="):
        model.set_params(learning_rate=2.0, net__W_std=1.0)
    assert model.learning_rate != 2.0, "nothing is set before all is checked"
    with pytest.raises(et.errors.InvalidArgumentError, match=r"'learningrate'; .*mean 'learning_rate'"):
        model.set_params(learningrate=1.0)
    other = N.Sequential(N.Dense(1))
    assert model.set_params(net=other, seed=3).net is other if estimator is et.DeepEnsemble else True
    x = [[0.0], [1.0], [2.0], [3.0]]
    with pytest.raises(et.errors.InvalidArgumentError, match="net__W_std cannot be set"):
        GridSearchCV(et.InfiniteEnsemble(NET), {"net__W_std": [1.0, 2.0]}, cv=2).fit(x, [0.0, 1.0, 2.0, 3.0])


def test_parameters_of_an_inner_estimator_are_set() -> None:
    bagged = et.ensembles.BaggedInfiniteEnsemble(et.InfiniteEnsemble(NET))
    assert bagged.set_params(ensemble__time=7.0).ensemble.time == 7.0
