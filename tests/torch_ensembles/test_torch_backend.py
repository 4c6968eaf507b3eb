"""Law: ensembles of PyTorch modules are saved on the way, recorded, resampled and written to files as JAX's are."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from test_torch_ensembles import RATE, SAMPLES, SIZE, mlp, with_batch_norm, with_dropout

import equitangents as et
from equitangents.ensembles.training import run
from equitangents.errors import InvalidArgumentError, StoreError

FACTORIES = {"mlp": mlp, "batch norm": with_batch_norm, "dropout": with_dropout}
LONG = 6


def data():
    rng = np.random.default_rng(3)
    return rng.normal(size=(SAMPLES, 3)).astype(np.float32), rng.normal(size=(SAMPLES, 2)).astype(np.float32)


@pytest.fixture
def xy():
    return data()


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.05, amsgrad=True)


def model(factory, folder=None, epochs=LONG, **settings):
    given = {"optimizer": adam, "batch_size": SIZE + 1, "seed": 5, "checkpoint_every": 2}
    return et.torch.Ensemble(factory, 3, epochs=epochs, checkpoint_dir=folder, **given | settings)


def same(a, b):
    assert a.params_.keys() == b.params_.keys()
    for name in a.params_:
        np.testing.assert_array_equal(a.params_[name], b.params_[name])
    np.testing.assert_array_equal(a.history_, b.history_)


def fit_until_killed(name, folder, epoch):
    """For a process of its own, which gets SIGKILL once it has trained so many epochs."""

    def kill(now, count, advance=run.Run.advance):
        advance(now, count)
        if now.epoch == epoch:
            os.kill(os.getpid(), signal.SIGKILL)

    run.Run.advance = kill
    model(FACTORIES[name], folder).fit(*data())


def killed(name, folder, epoch):
    here = Path(__file__)
    code = f"import sys; sys.path.insert(0, {str(here.parent)!r}); import {here.stem} as t; "
    ran = subprocess.run([sys.executable, "-c", f"{code}t.fit_until_killed({name!r}, {str(folder)!r}, {epoch})"])
    assert ran.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("name", FACTORIES)
def test_a_run_that_was_killed_goes_on_to_the_same_bits(name, xy, tmp_path):
    x, y = xy
    killed(name, tmp_path / "run", epoch=4)
    whole = model(FACTORIES[name]).fit(x, y)
    with pytest.raises(InvalidArgumentError, match="resume=True"):
        model(FACTORIES[name], tmp_path / "run").fit(x, y)
    same(model(FACTORIES[name], tmp_path / "run").fit(x, y, resume=True), whole)


@pytest.mark.parametrize("name", FACTORIES)
def test_chunks_that_are_done_are_kept_and_epochs_may_grow(name, xy, tmp_path):
    x, y = xy
    factory, folder, calls = FACTORIES[name], tmp_path / "run", {"made": 0}

    def failing():
        calls["made"] += 1
        if calls["made"] > 4:  # one that is looked at, two of a trial, the first member
            raise KeyboardInterrupt
        return factory()

    with pytest.raises(KeyboardInterrupt):
        model(failing, folder, epochs=4, members_per_chunk=1).fit(x, y)
    assert any(folder.glob("members-0-0/4"))
    again = model(factory, folder, epochs=LONG, members_per_chunk=1).fit(x, y, resume=True)
    same(again, model(factory, members_per_chunk=1).fit(x, y))
    with pytest.raises(InvalidArgumentError, match="of another run"):
        model(factory, folder, members_per_chunk=1, learning_rate=1.0).fit(x, y, resume=True)
    with pytest.raises(InvalidArgumentError, match="of another run, differing in module"):
        model(lambda: torch.nn.Linear(3, 2), folder, members_per_chunk=1, method="in turn").fit(x, y, resume=True)


@pytest.mark.parametrize("name", FACTORIES)
def test_outputs_are_recorded_at_chosen_epochs_without_a_change_to_training(name, xy, tmp_path):
    x, y = xy
    factory, plain = FACTORIES[name], model(FACTORIES[name]).fit(x, y)
    found = model(factory).fit(x, y, record={"new": x[:4]}, record_at=[0, 3, LONG])
    same(found, plain)
    assert found.recorded_epochs_.tolist() == [0, 3, LONG]
    for place, epochs in enumerate((0, 3, LONG)):
        expected = model(factory, epochs=epochs).fit(x, y).predict_members(x[:4])
        np.testing.assert_array_equal(found.recorded_["new"][place], expected)
    found.save(tmp_path / "saved")
    again = et.torch.Ensemble.load(tmp_path / "saved", factory=factory, optimizer=adam)
    np.testing.assert_array_equal(again.recorded_["new"], found.recorded_["new"])
    found.members = 5
    with pytest.raises(InvalidArgumentError, match=r"record is .*; expected the names and inputs that fit was given"):
        found.extend(5, x, y)
    assert found.extend(5, x, y, record={"new": x[:4]}).recorded_["new"].shape == (3, 5, 4, 2)


def test_states_of_optimizers_that_hold_objects_are_refused_in_words(xy, tmp_path):
    class Holding(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            self.state["mine"] = {"object": Path("x")}

    settings = {"optimizer": lambda p: Holding(p, lr=RATE), "epochs": 2}
    model(mlp, tmp_path / "run", **settings).fit(*xy)
    with pytest.raises(StoreError, match="an optimizer's state that can be read"):
        model(mlp, tmp_path / "run", **settings).fit(*xy, resume=True)
