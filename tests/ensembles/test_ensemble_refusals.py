"""What ensembles refuse: data, labels, settings, records and questions, each by the name of its argument."""

import jax
import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

from equitangents import (
    DeepEnsemble,
    DeepEnsembleClassifier,
    InfiniteEnsemble,
    InfiniteEnsembleClassifier,
    actions,
    groups,
    nn,
)
from equitangents.ensembles import NNGPPosterior, NTKPosterior
from equitangents.errors import (
    EquitangentsError,
    InvalidArgumentError,
    InvalidTypeError,
    MemoryLimitError,
    NetworkError,
    NotAnActionError,
    NotFiniteError,
    NotFittedError,
    NotPositiveDefiniteError,
    ShapeError,
)
from oracles.literal_network import LiteralNetwork

rng = np.random.default_rng(4)
X, Y, LABELS = rng.normal(size=(20, 5)), rng.normal(size=(20, 2)), np.arange(20) % 3
DAYS = np.array(["2026-01-01", "2026-01-02"] * 10)
IMAGES, ROT = rng.normal(size=(20, 4, 4, 1)), actions.image_rotations(4)
NTK = LiteralNetwork.relu_mlp(1)
SINGULAR = LiteralNetwork.linear()  # of rank 5 on 20 samples


def network(outputs):
    return nn.Sequential(nn.Flatten(), nn.Dense(8), nn.Relu(), nn.Dense(outputs))


KINDS = {
    kind.__name__: (kind, net, more)
    for kind, net, more in (
        (InfiniteEnsemble, NTK, {}),
        (DeepEnsemble, network(2), {"members": 2, "epochs": 0}),
        (InfiniteEnsembleClassifier, NTK, {}),
        (DeepEnsembleClassifier, network(3), {"members": 2, "epochs": 0}),
    )
}
every_kind = pytest.mark.parametrize("name", KINDS)


def made(name, **settings):
    kind, net, more = KINDS[name]
    return kind(**{"net": net} | more | settings)


def targets(name):
    return LABELS if "Classifier" in name else Y


@every_kind
@pytest.mark.parametrize(
    ("x", "rows", "error", "message"),
    [
        (X[:, 0], 20, ShapeError, "X has shape (.*)Reshape your data"),
        (X, 5, ShapeError, "X has length 20; expected 5"),
        (X[:0], 0, ShapeError, r"X has 0 sample\(s\) \(shape=\(0, 5\)\)"),
        (X * np.nan, 20, NotFiniteError, "X holds NaN"),
        (X, None, InvalidArgumentError, "y is None; expected|requires y to be passed"),
        (X * 1j, 20, InvalidArgumentError, "Complex data not supported"),
        (np.full(X.shape, "one"), 20, InvalidTypeError, "X has dtype <U3; expected real numbers"),
        ([[1.0], [1.0, 2.0]], 2, ShapeError, "X is not a rectangular array"),
    ],
)
def test_data(name, x, rows, error, message):
    with pytest.raises(error, match=message):
        made(name).fit(x, None if rows is None else targets(name)[:rows])


@pytest.mark.parametrize("name", ["InfiniteEnsembleClassifier", "DeepEnsembleClassifier"])
@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (0 * LABELS, InvalidArgumentError, "one class"),
        (np.eye(3)[LABELS], ShapeError, r"y has shape \(20, 3\).*expected labels of shape"),
        (Y[:, 0], InvalidArgumentError, "no class labels.*continuous"),
        (np.where(LABELS, np.nan, 1.0), NotFiniteError, "y holds NaN"),
        (np.ma.masked_array(LABELS, mask=LABELS == 2), InvalidArgumentError, "y has masked entries"),
        *(
            (DAYS.astype(unit), InvalidTypeError, r"y holds datetime64\[.*y.astype\(str")
            for unit in ("M8[D]", "M8[ns]")
        ),
    ],
)
def test_labels(name, labels, error, message):
    with pytest.raises(error, match=message):
        made(name).fit(X, labels)


def test_labels_in_a_column_are_flattened_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = made("InfiniteEnsembleClassifier").fit(X, LABELS[:, None])
    assert model.predict(X).shape == (20,)


@every_kind
def test_questions(name):
    model = made(name)
    with pytest.raises(NotFittedError, match=f"{name} is not fitted"):
        model.predict(X)
    model.fit(X, targets(name))
    with pytest.raises(ShapeError, match=f"X has 4 features, but {name} is expecting 5 features as input"):
        model.predict(X[:, :4])
    with pytest.raises(NotFiniteError, match="X holds NaN"):
        model.predict(X * np.nan)
    if "Classifier" not in name:
        with pytest.raises(InvalidArgumentError, match="return_cov is True; expected False"):
            model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(EquitangentsError):
        model.fit(X, np.full(20, np.nan))
    with pytest.raises(NotFittedError):  # a fit that failed leaves nothing to predict with
        model.predict(X)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"net": "mlp"}, InvalidTypeError, "net is 'mlp'"),
        ({"augmentation": 4}, InvalidTypeError, "augmentation is 4"),
        ({"kernel": "none"}, InvalidArgumentError, "kernel is 'none'"),
        ({"dynamics": "adam"}, InvalidArgumentError, "'adam'; expected 'flow' or 'discrete'"),
        ({"time": [1.0, 2.0]}, InvalidArgumentError, "expected one number"),
        ({"input_shape": (0, 5)}, InvalidArgumentError, r"input_shape is \(0, 5\)"),
        ({"input_shape": (4, 1)}, ShapeError, r"with input_shape=\(4, 1\) expected \(N, 4, 1\) or \(N, 4\)"),
        ({"memory_limit": -1}, InvalidArgumentError, "memory_limit is -1"),
        ({"memory_limit": -1, "solver": "pcg"}, InvalidArgumentError, "memory_limit is -1"),
        ({"memory_limit": "1GB"}, InvalidArgumentError, "memory_limit is '1GB'; expected a positive number of bytes"),
        ({"memory_limit": "1GB", "solver": "cholesky"}, InvalidArgumentError, "memory_limit is '1GB'"),
        (
            {"memory_limit": 1000},
            MemoryLimitError,
            "dense problem of 20 samples by .* needs about .* train on fewer samples",
        ),
        ({"memory_limit": 1000, "solver": "cholesky"}, MemoryLimitError, "20 samples by solver 'cholesky' needs"),
        ({"solver": "magic"}, InvalidArgumentError, "solver is"),
        ({"solver": 7}, InvalidTypeError, "solver is"),
        ({"label_action": object()}, InvalidArgumentError, "label_action is .*; expected None without augmentation"),
        ({"dynamics": "discrete", "time": 1.5}, InvalidArgumentError, r"time is 1\.5; .*counts steps"),
        ({"dynamics": "discrete", "time": 3, "learning_rate": 1e3}, InvalidArgumentError, "on these data diverges"),
        ({"net": SINGULAR}, NotPositiveDefiniteError, r"ridge=\S+ or more"),
        ({"standardise": "yes"}, InvalidArgumentError, "standardise is 'yes'; expected True or False"),
        ({"standardise": True, "X": 1e200 * X}, InvalidArgumentError, "expected numbers whose squares are finite"),
    ],
)
def test_settings_of_infinite_ensembles(changed, error, message):
    settings = dict(changed)
    x = settings.pop("X", X)
    with pytest.raises(error, match=message):
        made("InfiniteEnsemble", **settings).fit(x, Y)


class Scaling(actions.Action):
    """x → (1 + g) x, which is no representation of C2."""

    group, name = groups.cyclic(2), "scaling"

    def _check_signals(self, x):
        return x

    def _act(self, g, x):
        return (1 + g) * x

    def _key(self):
        return ()


AUGMENTED = {"X": IMAGES, "augmentation": ROT}
SHARES = np.abs(Y) / np.abs(Y).sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"net": "mlp"}, TypeError, "net is 'mlp'; expected a network"),
        ({"batch_size": 4, "optimizer": "gd"}, ValueError, "batch_size is 4; expected None with optimizer 'gd'"),
        ({"momentum": 1.0}, ValueError, "momentum is 1.0; expected a number from 0 to below 1"),
        ({"loss": "hinge"}, ValueError, "loss is 'hinge'; expected None, 'mse' or 'cross_entropy'"),
        ({"loss": "cross_entropy"}, ValueError, r"y\[0\] is .*; expected rows ≥ 0 that sum to 1"),
        ({"checkpoint_every": 0}, ValueError, "checkpoint_every is 0"),
        ({"input_shape": (2, 2)}, ValueError, r"with input_shape=\(2, 2\)"),
        ({"net": network(1)}, ValueError, r"net gives outputs, 1; expected 2; end it with Dense"),
        ({"net": nn.Sequential(nn.Conv(2, 3))}, ValueError, "Conv"),
        ({"standardise": "yes"}, ValueError, "standardise is 'yes'; expected True or False"),
        ({"standardise": True, "X": 1e200 * X}, ValueError, "expected numbers whose squares are finite"),
        ({"label_action": ROT}, ValueError, "label_action is .*; expected None without augmentation"),
        ({"augmentation": 4}, TypeError, "augmentation is 4; expected an action"),
        (AUGMENTED | {"label_action": actions.trivial(groups.cyclic(2))}, ValueError, "the group of augmentation"),
        (AUGMENTED | {"augmentation_mode": "some"}, ValueError, "'some'; expected 'full' or 'random'"),
        (AUGMENTED | {"X": IMAGES[:, :3]}, ValueError, "x has"),
        (AUGMENTED | {"memory_limit": 1000}, MemoryLimitError, "the 4 transformed copies of 20 samples needs about"),
        ({"augmentation": Scaling()}, NotAnActionError, "."),
        (AUGMENTED | {"augmentation": actions.subset(ROT, [0, 1], [1, 2])}, ValueError, "in place of weights"),
        ({"variation": "bagging"}, TypeError, "variation is 'bagging'"),
        ({"variation": NTKPosterior(), "loss": "cross_entropy", "y": SHARES}, NetworkError, "mse"),
        ({"variation": NNGPPosterior(), "net": nn.Sequential(nn.Dense(2), nn.Relu())}, NetworkError, "Dense"),
    ],
)
def test_settings_of_finite_ensembles(changed, error, message):
    settings = dict(changed)
    x, y = settings.pop("X", X), settings.pop("y", Y)
    with pytest.raises(error, match=message) as caught:
        made("DeepEnsemble", **{"epochs": 1} | settings).fit(x, y)
    assert isinstance(caught.value, EquitangentsError)


def test_settings_of_classifiers_and_posteriors():
    with pytest.raises(InvalidArgumentError, match="net gives outputs, 3; expected 2; end it with Dense"):
        made("DeepEnsembleClassifier").fit(X, LABELS > 0)
    for noise in (-1.0, np.inf):
        with pytest.raises(InvalidArgumentError, match="noise"):
            NTKPosterior(noise)


@pytest.mark.parametrize(
    ("question", "error", "message"),
    [
        (lambda m: m.predict(X, time=-1.0), InvalidArgumentError, "time is -1"),
        (lambda m: m.sample(X, 2, key=jax.random.key(0), time=[1.0, 2.0]), InvalidArgumentError, "drawn at one time"),
        (lambda m: m.sample(X, 2.5, key=jax.random.key(0)), InvalidArgumentError, r"count is 2\.5"),
        (lambda m: m.sample(X, 2, key=0), InvalidTypeError, "key is 0"),
    ],
)
def test_times_and_draws(question, error, message):
    with pytest.raises(error, match=message):
        question(made("InfiniteEnsemble").fit(X, Y))


@pytest.mark.parametrize(
    ("record", "record_at", "message"),
    [
        (None, [1], "record_at is .*; expected None without record"),
        ([X], None, "record is of type list; expected a dictionary"),
        ({"x": X}, [3], "an epoch of record_at is 3; expected a whole number, at least 0 and at most 2"),
        ({"x": X[:, :2]}, None, "X has 2 features"),
        ({"x": X}, 1, "record_at is 1; expected a list"),
    ],
)
def test_records(record, record_at, message):
    with pytest.raises(EquitangentsError, match=message):
        made("DeepEnsemble", epochs=2).fit(X, Y, record=record, record_at=record_at)


def test_memory_of_finite_ensembles_is_estimated_before_it_is_taken():
    huge = nn.Sequential(nn.Dense(10**7), nn.Relu(), nn.Dense(10**6), nn.Dense(2))
    with pytest.raises(MemoryLimitError, match=r"training 10 members needs about .* train fewer, then extend"):
        DeepEnsemble(huge).fit(X, Y)
    with pytest.raises(MemoryLimitError, match="the recorded outputs"):
        DeepEnsemble(network(2), memory_limit=10**6).fit(X, Y, record={"x": np.ones((3000, 5))})
    model = made("DeepEnsemble", memory_limit=10**5).fit(X, Y)
    with pytest.raises(MemoryLimitError, match="outputs of 2 members on 10000 inputs"):
        model.predict_members(np.ones((10_000, 5)))
    with pytest.raises(MemoryLimitError, match="covariance between 200 inputs"):
        model.predict(np.ones((200, 5)), return_cov=True)


@pytest.mark.parametrize("solver", ["eigh", "cholesky", "pcg", "lanczos"])
def test_a_singular_kernel_names_its_cause_and_the_ridge_that_helps(solver):
    x, y = np.concatenate([X, X[3:4]]), np.concatenate([Y, Y[3:4] + 1])
    with pytest.raises(NotPositiveDefiniteError, match=r"cause: rows 3 and 20 are equal.*ridge=\S+ or more"):
        InfiniteEnsemble(NTK, solver=solver).fit(x, y)
    model = InfiniteEnsemble(SINGULAR, time=10.0, solver=solver).fit(X, Y)
    with pytest.raises(NotPositiveDefiniteError) as caught:
        model.predict(X, time=np.inf)
    ridge = float(str(caught.value).split("ridge=")[1].split()[0])
    InfiniteEnsemble(SINGULAR, ridge=ridge).fit(X, Y)
