"""scikit-learn's own checks of estimators, and the tools that its users will reach for."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from equitangents import DeepEnsemble, DeepEnsembleClassifier, actions, nn
from equitangents.ensembles import InfiniteEnsemble, InfiniteEnsembleClassifier, ZeroOutput
from equitangents.errors import NetworkError
from oracles.literal_network import LiteralNetwork

NET = LiteralNetwork.relu_mlp(1)
NEED_MORE = {  # pandas, or a setting made before SciPy is imported
    "check_array_api_input",
    "check_classifier_data_not_an_array",
    "check_dataframe_column_names_consistency",
    "check_regressor_data_not_an_array",
}
OTHER_OUTPUTS = {  # 5 targets; 4 classes; 2 and 3 classes in one check
    "check_regressor_multioutput",
    "check_dtype_object",
    "check_classifiers_classes",
    "check_classifiers_train",
}


def deep(kind, outputs):
    net = nn.Sequential(nn.Dense(8), nn.Relu(), nn.Dense(outputs))
    return kind(net, members=2, learning_rate=0.2, epochs=40, batch_size=8, dtype="float64")


ESTIMATORS = [  # of finite networks those of each number of outputs that the data of a check may have
    [InfiniteEnsemble(NET, ridge=1e-3)],
    [InfiniteEnsembleClassifier(NET, ridge=1e-3)],
    [deep(DeepEnsemble, 1)],
    [deep(DeepEnsembleClassifier, 2), deep(DeepEnsembleClassifier, 3)],
]
CHECKS = [
    pytest.param(each, check, id=f"{type(each[0]).__name__}-{check.func.__name__}")
    for each in ESTIMATORS
    for _, check in estimator_checks_generator(each[0])
    if check.func.__name__ not in NEED_MORE | (OTHER_OUTPUTS if "Deep" in type(each[0]).__name__ else set())
]


@pytest.mark.quick(2)
@pytest.mark.parametrize(("estimators", "check"), CHECKS)
def test_scikit_learns_checks(estimators, check):
    for estimator in estimators:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return check(clone(estimator))
        except (NetworkError, AssertionError) as error:
            message = f"{error}{error.__cause__}{error.__context__}"
            if estimator is estimators[-1] or "net gives outputs" not in message:
                raise


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 4))
    return x, np.sin(x[:, 0]) + x[:, 1]


INFINITE = {"augmentation": actions.image_rotations(4), "time": 2.0, "kernel": "nngp", "input_shape": (2, 2, 1)}
DEEP = {"members": 2, "epochs": 1, "variation": ZeroOutput(), "seed": 3, "checkpoint_every": 7, "momentum": 0.5}


@pytest.mark.parametrize(
    ("model", "changed"), [(InfiniteEnsemble(NET), INFINITE), (deep(DeepEnsemble, 1), DEEP)], ids=["infinite", "deep"]
)
def test_clones_keep_parameters_and_forget_the_fit(model, changed, data):
    copy = clone(clone(model).set_params(**changed).fit(*data))
    assert {name: copy.get_params()[name] for name in changed} == changed
    assert copy.net == model.net
    assert not hasattr(copy, "n_features_in_")


def test_cross_validation_and_grid_search(data):
    assert (cross_val_score(InfiniteEnsemble(NET), *data, cv=3) > 0.3).all()
    search = GridSearchCV(InfiniteEnsemble(NET), {"ridge": [1e-3, 10.0], "time": [1.0, np.inf]}, cv=3).fit(*data)
    assert search.best_params_ == {"ridge": 1e-3, "time": np.inf}


def test_pipelines(data):
    x, y = data
    model = make_pipeline(StandardScaler(), InfiniteEnsemble(NET, ridge=1e-2)).fit(100 * x, y)
    assert model.score(100 * x, y) > 0.9
    assert model.predict(100 * x, return_std=True)[1].shape == (30,)
