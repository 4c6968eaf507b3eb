"""scikit-learn's own checks of estimators, and the tools that its users will reach for."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from equitangents import actions
from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier
from oracles.literal_network import LiteralNetwork

net = LiteralNetwork.relu_mlp(1)
ESTIMATORS = [InfiniteEnsemble(net, ridge=1e-3), InfiniteEnsembleClassifier(net, ridge=1e-3)]
NEED_MORE = {  # pandas, or a setting made before SciPy is imported
    "check_array_api_input",
    "check_classifier_data_not_an_array",
    "check_dataframe_column_names_consistency",
    "check_regressor_data_not_an_array",
}
CHECKS = [
    pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}")
    for instance in ESTIMATORS
    for estimator, check in estimator_checks_generator(instance)
    if check.func.__name__ not in NEED_MORE
]


@pytest.mark.quick(2)
@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learns_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 4))
    return x, np.sin(x[:, 0]) + x[:, 1]


def test_clones_keep_parameters_and_forget_the_fit(data):
    rot = actions.image_rotations(4)
    model = InfiniteEnsemble(net, augmentation=rot, time=2.0, ridge=0.1, kernel="nngp", input_shape=(2, 2, 1))
    model.fit(*data)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.augmentation is rot
    assert not hasattr(copy, "solver_")


def test_cross_validation_and_grid_search(data):
    scores = cross_val_score(InfiniteEnsemble(net), *data, cv=3)
    assert (scores > 0.3).all()
    search = GridSearchCV(InfiniteEnsemble(net), {"ridge": [1e-3, 10.0], "time": [1.0, np.inf]}, cv=3).fit(*data)
    assert search.best_params_ == {"ridge": 1e-3, "time": np.inf}


def test_pipelines(data):
    x, y = data
    model = make_pipeline(StandardScaler(), InfiniteEnsemble(net, ridge=1e-2)).fit(100 * x, y)
    assert model.score(100 * x, y) > 0.9
    assert model.predict(100 * x, return_std=True)[1].shape == (30,)
