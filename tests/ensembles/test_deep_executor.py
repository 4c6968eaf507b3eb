"""DeepEnsemble(executor=...): whoever trains the members, the ensemble is that of one machine, bit for bit."""

from __future__ import annotations

import os
import pickle
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import jax
import numpy as np
import psutil
import pytest
from sklearn.base import clone

from equitangents import DeepEnsemble, nn
from equitangents.ensembles.training import run
from equitangents.errors import InvalidArgumentError
from equitangents.scale import executors
from kills import Dying

NET = nn.Sequential(nn.Dense(4, b_std=0.1), nn.Relu(), nn.Dense(1))
rng = np.random.default_rng(3)
X, Y = rng.normal(size=(9, 3)), rng.normal(size=9)
SETTINGS = {"members": 5, "members_per_chunk": 2, "epochs": 4, "batch_size": 4, "zero_output": True}
RECORD = {"record": {"train": X}, "record_at": [0, 4]}


@pytest.fixture(scope="module")
def alone():
    return DeepEnsemble(NET, **SETTINGS).fit(X, Y, **RECORD)


def assert_same(one, two):
    for name in ("params_", "params0_", "history_", "recorded_", "recorded_epochs_"):
        a, b = getattr(one, name), getattr(two, name)
        assert jax.tree.structure(a) == jax.tree.structure(b)
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


@pytest.mark.slow
def test_threads_train_the_ensemble_of_one_machine(alone):
    with ThreadPoolExecutor(2) as pool:
        model = DeepEnsemble(NET, executor=pool, **SETTINGS).fit(X, Y, **RECORD)
        assert_same(model, alone)
        assert clone(model).executor is pool
        assert pickle.loads(pickle.dumps(model)).executor is None
        few = DeepEnsemble(NET, executor=pool, **SETTINGS | {"members": 3}).fit(X, Y, **RECORD)
        assert_same(few.extend(5, X, Y, record=RECORD["record"]), alone)


@pytest.mark.slow
def test_members_of_a_dead_worker_are_trained_again(alone, monkeypatch, caplog):
    again = []

    class Alive(Dying):
        def submit(self, function, piece):
            again.append(piece)
            return super().submit(function, piece)

    monkeypatch.setattr(executors, "_processes", lambda workers: nullcontext(Alive(tasks=2)))
    model = DeepEnsemble(NET, executor=Dying(tasks=1), **SETTINGS).fit(X, Y, **RECORD)
    assert_same(model, alone)
    assert again == [(2, 2), (4, 1)]
    assert "2 processes of this machine take the 2 of 3 pieces that are missing" in caplog.text


@pytest.mark.slow
def test_a_run_goes_on_from_the_checkpoints_of_its_parts(alone, tmp_path):
    settings = SETTINGS | {"checkpoint_dir": tmp_path, "checkpoint_every": 2}
    with ThreadPoolExecutor(1) as pool:
        DeepEnsemble(NET, executor=pool, **settings | {"epochs": 2}).fit(X, Y, record={"train": X}, record_at=[0])
        with pytest.raises(InvalidArgumentError, match=r"without checkpoints of these members; pass resume=True"):
            DeepEnsemble(NET, executor=pool, **settings).fit(X, Y, **RECORD)
        model = DeepEnsemble(NET, executor=pool, **settings).fit(X, Y, **RECORD, resume=True)
    assert_same(model, alone)
    said = "in parts, of which one has 2 members from member 0 on, this run 5; .* with or without an executor as then"
    with pytest.raises(InvalidArgumentError, match=said):
        DeepEnsemble(NET, **settings).fit(X, Y, **RECORD, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_worker_that_is_killed_changes_no_bit(alone, tmp_path, monkeypatch, checkpoints):
    killed = []
    count = run.Progress.add

    def kill(self, *counts):
        count(self, *counts)
        alive = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]
        workers = [p for p in alive if "popen_loky" in " ".join(p.cmdline())]
        if workers and not killed:
            killed.extend(worker.pid for worker in workers)
            for worker in workers:
                os.kill(worker.pid, signal.SIGKILL)

    monkeypatch.setattr(run.Progress, "add", kill)
    more = {"checkpoint_dir": tmp_path, "checkpoint_every": 1} if checkpoints else {}
    model = DeepEnsemble(NET, executor=2, **SETTINGS, **more).fit(X, Y, **RECORD)
    assert killed
    assert_same(model, alone)
