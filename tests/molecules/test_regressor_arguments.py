"""What the regressors of molecules refuse, and that they do so before any kernel is computed."""

import numpy as np
import pytest

from equitangents import nn
from equitangents.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NetworkError,
    NotFittedError,
    NotPositiveDefiniteError,
    ShapeError,
)
from equitangents.molecules import MoleculeRegressor, Molecules, TensorRegressor, kernels
from equitangents.molecules.smooth_kernel import SmoothKernel
from molecules.example_molecules import SIGNALS, molecules, network

BATCH = molecules(3)
NET = network(resolution=7, layers=1)
TARGETS = {MoleculeRegressor: np.zeros(3), TensorRegressor: np.zeros((3, 3))}
BOTH = pytest.mark.parametrize("regressor", list(TARGETS))


@pytest.fixture
def nothing_computed(monkeypatch):
    """Kernels fail."""

    def fail(*arguments, **options):
        raise AssertionError("computed before it was refused")

    monkeypatch.setattr(SmoothKernel, "unresolved", fail)


@BOTH
@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        *(({name: -1.0}, InvalidArgumentError, f"{name} is -1") for name in ("time", "ridge")),
        *(({name: np.nan}, InvalidArgumentError, f"{name} is nan") for name in ("time", "ridge")),
        *(
            ({k: v}, InvalidArgumentError, f"{k} is '{v}'")
            for k, v in (("ridge", "small"), ("kernel", "x"), ("pairs", "some"))
        ),
        ({"time": [1.0, 2.0]}, InvalidArgumentError, r"time has shape \(2,\)"),
        ({"time": "long"}, InvalidTypeError, "time is 'long'"),
        ({"learning_rate": 0.0}, InvalidArgumentError, "learning_rate is 0"),
        ({"signals": 3}, InvalidTypeError, "signals is 3"),
        ({"net": None}, InvalidTypeError, "net is None"),
    ],
)
def test_settings(regressor, settings, error, words, nothing_computed):
    given = {"net": NET, "signals": SIGNALS} | settings
    with pytest.raises(error, match=words):
        regressor(given.pop("net"), **given).fit(BATCH, TARGETS[regressor])


@BOTH
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda y: y[:2], ShapeError, "has shape"),
        (lambda y: y[..., None, None, None], ShapeError, "has shape"),
        (lambda y: y.astype(str), InvalidTypeError, "expected real numbers"),
        (lambda y: y + 1j, InvalidTypeError, "expected real numbers"),
        (lambda y: y + np.array([0, np.nan, 0]), InvalidArgumentError, "NaN or infinite"),
        (lambda y: [[1, 2], [3]], ShapeError, "rectangular array"),
    ],
)
def test_targets(regressor, change, error, words, nothing_computed):
    with pytest.raises(error, match=words):
        regressor(NET, signals=SIGNALS).fit(BATCH, change(TARGETS[regressor]))


@BOTH
def test_molecules_that_are_none(regressor, nothing_computed):
    with pytest.raises(InvalidTypeError, match="molecules is of type ndarray"):
        regressor(NET).fit(BATCH.positions, TARGETS[regressor])


@pytest.mark.slow
@BOTH
def test_questions(regressor):
    model = regressor(NET, signals=SIGNALS, ridge=1e-4).fit(BATCH, TARGETS[regressor])
    for time, error in ((-1, InvalidArgumentError), (np.nan, InvalidArgumentError), ("x", InvalidTypeError)):
        with pytest.raises(error, match="time is"):
            model.predict(BATCH, time=time)
    with pytest.raises(InvalidArgumentError, match=r"time has shape \(2,\); expected one number"):
        model.predict(BATCH, time=[1.0, 2.0])
    with pytest.raises(InvalidTypeError, match="molecules is of type list"):
        model.predict([])
    with pytest.raises(InvalidArgumentError, match="all that the molecules hold; 7"):
        model.predict(Molecules([[7, 1]], [[[0, 0, 0], [0, 0, 1.0]]]))
    model.ridge = -1
    with pytest.raises(InvalidArgumentError, match="ridge"):
        model.fit(BATCH, TARGETS[regressor])
    with pytest.raises(NotFittedError, match=f"this {regressor.__name__} is not fitted"):
        model.predict(BATCH)


@BOTH
def test_elements_that_were_never_trained_on(regressor):
    without_carbon = molecules(3, atoms=2)
    model = regressor(NET, signals=SIGNALS, ridge=1e-4).fit(without_carbon, TARGETS[regressor])
    with pytest.raises(InvalidArgumentError, match="hold the element 6; expected 1 or 8"):
        model.predict(BATCH)


@pytest.mark.slow
def test_atoms_of_all_elements_are_compared_where_no_energies_of_elements_are_taken_off():
    without_carbon, y = molecules(3, atoms=2), np.array([1.0, 2.0, 0.5])
    settings = {"signals": SIGNALS, "ridge": 1e-4, "pairs": "all"}
    model = MoleculeRegressor(NET, baseline="none", **settings).fit(without_carbon, y)
    assert np.isfinite(model.predict(BATCH).energies).all()
    with pytest.raises(InvalidArgumentError, match="element 6"):
        MoleculeRegressor(NET, **settings).fit(without_carbon, y).predict(BATCH)


@pytest.mark.slow
def test_a_singular_kernel_at_the_end_of_time():
    twice = BATCH[[0, 0, 1]]
    model = MoleculeRegressor(NET, signals=SIGNALS, ridge=0.0, time=1.0).fit(twice, np.array([1.0, 2.0, 0.0]))
    assert np.isfinite(model.predict(twice).energies).all()
    with pytest.raises(NotPositiveDefiniteError, match="set ridge"):
        model.predict(twice, time=np.inf)


ENERGIES = MoleculeRegressor(NET, signals=SIGNALS)
SKEW = np.arange(27.0).reshape(3, 3, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: MoleculeRegressor(NET, baseline="mean").fit(BATCH, np.zeros(3)), InvalidArgumentError, "baseline is"),
        *(
            (lambda s=s: ENERGIES.fit(BATCH, np.zeros(3), np.zeros(s)), ShapeError, "forces has shape")
            for s in ((3, 3), (3, 2, 3), (2, 3, 3))
        ),
        (lambda: ENERGIES.fit(BATCH), InvalidArgumentError, "energies is None"),
        (lambda: TensorRegressor(NET).fit(BATCH, SKEW), InvalidArgumentError, "expected symmetric matrices"),
        (lambda: kernels(NET, BATCH, BATCH.positions), InvalidTypeError, "molecules2 is of type ndarray"),
        (lambda: kernels(NET, BATCH, signals="all"), InvalidTypeError, "signals is 'all'"),
        (lambda: kernels(None, BATCH), InvalidTypeError, "net is None"),
    ],
)
def test_other_arguments(call, error, message, nothing_computed):
    with pytest.raises(error, match=message):
        call()


@BOTH
def test_before_a_fit(regressor):
    with pytest.raises(NotFittedError):
        regressor(NET, signals=SIGNALS).predict(BATCH)


def test_tensors_need_a_mean_over_rotations():
    with pytest.raises(NetworkError, match="GroupPool"):
        TensorRegressor(network(resolution=5, readout=nn.Flatten()), signals=SIGNALS).fit(BATCH, np.zeros((3, 3)))
