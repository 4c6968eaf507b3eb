"""scikit-learn's own checks of estimators."""

import warnings

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from equitangents import DeepEnsemble, DeepEnsembleClassifier, nn
from equitangents.errors import NetworkError

pytestmark = pytest.mark.slow

NEED_MORE = {  # pandas, or a setting made before SciPy is imported
    "check_array_api_input",
    "check_classifier_data_not_an_array",
    "check_regressor_data_not_an_array",
}
OTHER_OUTPUTS = {  # 5 targets; 4 classes; 2 and 3 classes in one check
    "check_regressor_multioutput",
    "check_dtype_object",
    "check_classifiers_classes",
    "check_classifiers_train",
}
SETTINGS = {"members": 2, "learning_rate": 0.2, "epochs": 40, "batch_size": 8, "dtype": "float64"}


def network(outputs):
    return nn.Sequential(nn.Dense(8), nn.Relu(), nn.Dense(outputs))


def checks(estimator):
    return [
        pytest.param(check, id=check.func.__name__)
        for _, check in estimator_checks_generator(estimator)
        if check.func.__name__ not in NEED_MORE | OTHER_OUTPUTS
    ]


@pytest.mark.parametrize("check", checks(DeepEnsemble(network(1))))
def test_regression(check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(DeepEnsemble(network(1), **SETTINGS))


@pytest.mark.parametrize("check", checks(DeepEnsembleClassifier(network(2))))
def test_classification(check):
    """With two outputs or with three, as many as the check's data have classes."""
    errors = []
    for outputs in (2, 3):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(DeepEnsembleClassifier(network(outputs), **SETTINGS))
            return
        except (NetworkError, AssertionError) as error:
            errors.append(error)
            if "the network's last layer makes" not in f"{error}{error.__cause__}{error.__context__}":
                raise
    raise errors[0]
