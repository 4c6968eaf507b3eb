"""Faults of checkpoints: damage, kills between two writes, a second process, a disk that takes nothing."""

import os
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from test_deep_checkpoints import X, Y, settings

from equitangents import DeepEnsemble, nn
from equitangents.errors import InvalidArgumentError, StoreError
from equitangents.files import locked
from permissions import public_folder, without_permission

EPOCHS = {"epochs": 3, "augmentation": None}


def fitted(directory, **changed):
    return DeepEnsemble(**settings(checkpoint_dir=directory, **EPOCHS | changed)).fit(X, Y, resume=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run's directory with checkpoints of epochs 2 and 3, and its parameters."""
    directory = tmp_path_factory.mktemp("checkpoints") / "whole"
    return directory, jax.tree.leaves(fitted(directory).params_)


@pytest.fixture
def copy(whole, tmp_path):
    """(checkpoint_dir, the folder of the run in it, parameters) of a copy that may be damaged."""
    shutil.copytree(whole[0], tmp_path / "copy")
    return tmp_path / "copy", tmp_path / "copy" / "members-0-2", whole[1]


def damaged(path, how):
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 16]) + content[middle + 1 :]
    path.write_bytes({"flipped": flipped, "cut": content[:middle], "empty": b""}[how])


def contents(folder):
    """What the files in a folder hold."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def told(caplog):
    """What this package logged as a warning."""
    return "\n".join(r.getMessage() for r in caplog.records if r.name == "equitangents" and r.levelname == "WARNING")


def same(model, params):
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(model.params_), params, strict=True))


def test_a_damaged_checkpoint_is_said_and_the_one_before_it_goes_on_to_the_same_numbers(copy, caplog):
    directory, run, params = copy
    damaged(run / "3" / "model.npz", "flipped")
    assert same(fitted(directory), params)
    assert "the checkpoint of epoch 3" in told(caplog)
    assert "is damaged" in told(caplog)
    caplog.clear()
    assert same(fitted(directory), params)
    assert not told(caplog)  # it was written again


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flipped", "cut", "empty", "gone"])
def test_whatever_happens_to_the_last_training_goes_on_to_the_same_numbers(copy, how):
    directory, run, params = copy
    if how == "gone":  # as a kill before the first file is complete leaves it
        (run / "3" / "model.npz").unlink()
    else:
        damaged(run / "3" / "model.npz", how)
    assert same(fitted(directory), params)
    assert sorted(path.name for path in run.iterdir()) == ["2", "3"]


def test_where_all_are_damaged_nothing_is_removed_and_the_remedy_is_said(copy):
    directory, run, _ = copy
    for epoch in "23":
        damaged(run / epoch / "model.npz", "cut")
    before = contents(run)
    with pytest.raises(StoreError, match=r"members-0-2.*expected an undamaged checkpoint; remove that folder"):
        fitted(directory)
    assert before == contents(run)


def test_a_second_process_is_kept_out_and_a_dead_one_is_not_waited_for(copy):
    directory, run, params = copy
    with locked(run / ".training", ""), pytest.raises(StoreError, match="another process is training into"):
        fitted(directory)
    (run / ".training").write_text(f".{os.uname().nodename}+{2**22 + 1}+{'0' * 32}")  # no process has that number
    assert same(fitted(directory), params)
    assert not (run / ".training").exists()


def test_a_disk_that_takes_nothing_is_one_line_and_complete_checkpoints_stay(copy, monkeypatch):
    directory, run, _ = copy
    before = contents(run / "3")

    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("equitangents.ensembles.saved_folder.atomic_file", full)
        with pytest.raises(StoreError, match=r"cannot be written.*No space left on device.*resume=True"):
            fitted(directory, epochs=5)
    assert contents(run / "3") == before
    seen = []
    fitted(directory, epochs=5, progress=lambda done, *_: seen.append(done))
    assert seen == [4, 5]


def test_a_file_in_place_of_the_directory_is_one_line(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(StoreError, match="checkpoints cannot be written to"):
        fitted(tmp_path / "taken")


def test_a_finished_training_is_read_where_nothing_may_be_written_and_an_unfinished_one_refused(whole):
    with public_folder() as folder:
        shutil.copytree(whole[0], folder / "run")
        fitted(folder / "run").save(folder / "model")
        assert same(DeepEnsemble.load(folder / "model"), whole[1])
        before = contents(folder)
        with without_permission(folder):
            assert same(fitted(folder / "run"), whole[1])
            assert same(DeepEnsemble.load(folder / "model"), whole[1])
            with pytest.raises(StoreError, match=r"checkpoints cannot be written to .*: Permission denied") as error:
                fitted(folder / "run", epochs=5)
        assert "\n" not in str(error.value)
        assert contents(folder) == before


def network(order):
    graph = np.eye(4)[order] + np.eye(4)
    return nn.Sequential(nn.Dense(4), nn.Aggregate(graph), nn.Relu(), nn.Flatten(), nn.Dense(1))


def schedule(*rates):
    table, key = jnp.array(rates), jax.random.key(int(10 * rates[0]))
    return optax.sgd(lambda step: table[step] + 1e-9 * jax.random.uniform(key))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"net": network([1, 0, 2, 3])}, {"net": network([0, 2, 1, 3])}),
        ({"optimizer": schedule(0.1, 0.2, 0.3)}, {"optimizer": schedule(0.1, 0.3, 0.2)}),
        ({"optimizer": schedule(0.1, 0.2, 0.3)}, {"optimizer": schedule(0.3, 0.2, 0.3)}),
    ],
    ids=["graph", "table", "key"],
)
def test_runs_of_other_arrays_are_not_continued_and_of_the_same_are(tmp_path, one, other):
    x = X.reshape(9, 16, 1)[:, :4]
    made = lambda given, **more: DeepEnsemble(
        **settings(checkpoint_dir=tmp_path, **EPOCHS, batch_size=None) | {"net": network([1, 0, 2, 3])} | given | more
    )
    first = made(one).fit(x, Y)
    assert same(made(one).fit(x, Y, resume=True), jax.tree.leaves(first.params_))
    message = "differing in network, optimizer or their settings"
    with pytest.raises(InvalidArgumentError, match=message):
        made(other).fit(x, Y, resume=True)
    with pytest.raises(InvalidArgumentError, match=message):
        first.set_params(**other).extend(4, x, Y)
    longer = made(one, checkpoint_dir=None, members=4).fit(x, Y)
    assert same(first.set_params(**one).extend(4, x, Y), jax.tree.leaves(longer.params_))
