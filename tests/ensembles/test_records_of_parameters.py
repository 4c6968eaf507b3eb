"""Training and checkpoints of deep ensembles are two records; their entries keep names of their own."""

import dataclasses
import pickle

import numpy as np
import optax
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from equitangents import DeepEnsemble, DeepEnsembleClassifier, ensembles, nn
from equitangents.ensembles import Checkpoints, Training
from equitangents.errors import InvalidArgumentError, InvalidTypeError

rng = np.random.default_rng(5)
X, Y = rng.normal(size=(12, 3)), rng.normal(size=12)
NET = nn.Sequential(nn.Dense(4), nn.Relu(), nn.Dense(1))
ENTRIES = {"optimizer": "momentum", "learning_rate": 0.05, "epochs": 3, "batch_size": 4, "momentum": 0.5, "loss": "mse"}
RECORD = Training(**ENTRIES)


@pytest.mark.slow
def test_a_record_and_its_entries_make_the_same_ensemble_to_the_last_bit(tmp_path):
    by_record = DeepEnsemble(NET, members=2, training=RECORD, checkpoints=Checkpoints(tmp_path / "a", 2)).fit(X, Y)
    by_names = DeepEnsemble(NET, members=2, **ENTRIES, checkpoint_dir=tmp_path / "b", checkpoint_every=2).fit(X, Y)
    np.testing.assert_array_equal(by_record.predict_members(X), by_names.predict_members(X))
    assert by_record.training == by_names.training
    assert {name: getattr(by_record, name) for name in ENTRIES} == ENTRIES
    assert (tmp_path / "a").is_dir()
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == sorted(p.name for p in (tmp_path / "b").iterdir())


def test_records_are_frozen_and_misspelt_entries_are_named():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RECORD.epochs = 2
    with pytest.raises(InvalidTypeError, match=r"Training has no argument 'learning_rates'; .*mean 'learning_ra"):
        Training(learning_rates=1.0)
    with pytest.raises(
        InvalidTypeError, match=r"DeepEnsemble has no argument 'epoch'; expected .*did you mean 'epochs'"
    ):
        DeepEnsemble(NET, epoch=1)


def test_constructors_store_records_and_clones_copy_them():
    model = DeepEnsembleClassifier(NET, training=RECORD, checkpoints=Checkpoints("there"))
    assert model.get_params()["training"] is RECORD
    assert model.get_params(deep=False).keys().isdisjoint(ENTRIES)
    assert model.get_params()["training__epochs"] == model.get_params()["epochs"] == 3
    assert model.get_params()["checkpoints__folder"] == model.get_params()["checkpoint_dir"] == "there"
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert clone(DeepEnsemble(NET)).training is None
    assert DeepEnsemble(NET).epochs == Training().epochs == 100
    assert DeepEnsemble(NET, **ENTRIES).get_params()["training"] == RECORD
    assert DeepEnsemble(**DeepEnsemble(NET, **ENTRIES).get_params(deep=False)).training == RECORD


@pytest.mark.parametrize("name", ["epochs", "training__epochs"])
def test_setting_one_entry_keeps_the_others(name):
    model = DeepEnsemble(NET, training=RECORD).set_params(**{name: 7})
    assert model.training == dataclasses.replace(RECORD, epochs=7)
    assert RECORD.epochs == 3
    model.epochs = 8
    assert model.get_params()[name] == 8
    assert model.set_params(training=RECORD, training__epochs=9).epochs == 9
    assert model.set_params(**model.get_params()).epochs == 9


def test_a_record_and_its_entry_at_once_are_refused():
    expected = r"epochs is 3; .*; give it in Training\(epochs=...\)"
    with pytest.raises(InvalidArgumentError, match=expected):
        DeepEnsemble(NET, training=RECORD, epochs=3)
    with pytest.raises(InvalidArgumentError, match=r"checkpoint_dir is .there.; expected none beside its record"):
        DeepEnsemble(NET, checkpoints=Checkpoints(), checkpoint_dir="there")
    model = DeepEnsemble(NET)
    with pytest.raises(InvalidArgumentError, match=r"epochs is .*; expected none beside its record"):
        model.set_params(training=RECORD, epochs=4)
    with pytest.raises(InvalidArgumentError, match="training__epochs and epochs are both given, and differ"):
        model.set_params(training__epochs=5, epochs=4)
    with pytest.raises(InvalidArgumentError, match=r"training is 'epoch'; .*did you mean 'epochs'"):
        model.set_params(training__epoch=5)
    assert model.training is None


@pytest.mark.parametrize("wrong", ["adam", ensembles.Bootstrap(), Checkpoints()])
def test_what_is_no_record_is_refused(wrong):
    with pytest.raises(InvalidTypeError, match=r"training is .*; expected None or equitangents.ensembles.Training"):
        DeepEnsemble(NET, training=wrong).fit(X, Y)


@pytest.mark.slow
def test_searches_and_pipelines_reach_into_records():
    model = DeepEnsemble(NET, members=1, training=dataclasses.replace(RECORD, epochs=1))
    assert np.isfinite(cross_val_score(model, X, Y, cv=2)).all()
    for name in ("epochs", "training__epochs"):
        search = GridSearchCV(model, {name: [0, 1]}, cv=2).fit(X, Y)
        assert search.best_estimator_.epochs in (0, 1)
    steps = make_pipeline(StandardScaler(), model).set_params(deepensemble__training__epochs=2)
    assert steps["deepensemble"].training == dataclasses.replace(RECORD, epochs=2)


@pytest.mark.slow
def test_saved_ensembles_keep_their_record_and_take_another(tmp_path):
    model = DeepEnsemble(NET, members=1, training=RECORD).fit(X, Y)
    model.save(tmp_path / "saved")
    assert DeepEnsemble.load(tmp_path / "saved").get_params() == model.get_params()
    assert DeepEnsemble.load(tmp_path / "saved", epochs=4).training == dataclasses.replace(RECORD, epochs=4)
    other = Training(epochs=5)
    assert DeepEnsemble.load(tmp_path / "saved", training=other).training == other
    assert pickle.loads(pickle.dumps(model)).training == RECORD


@pytest.mark.slow
def test_of_a_record_that_cannot_be_saved_only_that_entry_is_given_again(tmp_path):
    schedule = optax.linear_schedule(0.1, 0.0, 10)  # a function defined in place
    training = Training(optax.sgd(schedule), epochs=1)
    DeepEnsemble(NET, members=1, training=training).fit(X, Y).save(tmp_path / "saved")
    with pytest.raises(InvalidArgumentError, match=r"^optimizer could not be saved .* load\(path, optimizer="):
        DeepEnsemble.load(tmp_path / "saved")
    assert DeepEnsemble.load(tmp_path / "saved", optimizer=training.optimizer).training == training
    assert DeepEnsemble.load(tmp_path / "saved", training=training).training == training
