"""A run that was killed and resumed is, bit for bit, the run that was not; saved ensembles come back as they were."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading

import jax
import numpy as np
import pytest

from equitangents import DeepEnsemble, DeepEnsembleClassifier, actions, nn
from equitangents.ensembles import ZeroOutput
from equitangents.errors import InvalidArgumentError, NotFittedError

NET = nn.Sequential(nn.Flatten(), nn.Dense(4, b_std=0.1), nn.Relu(), nn.Dense(1))
rng = np.random.default_rng(3)
X, Y = rng.normal(size=(9, 4, 4, 1)), rng.normal(size=9)


def settings(**changed):
    return {
        "net": NET,
        "members": 3,
        "members_per_chunk": 2,
        "augmentation": actions.image_rotations(4),
        "augmentation_mode": "random",
        "optimizer": "adam",
        "learning_rate": 0.01,
        "batch_size": 4,
        "epochs": 12,
        "variation": ZeroOutput(),
        "checkpoint_every": 1,
    } | changed


RECORD = {"record": {"train": X, "a/b c": X[:2]}, "record_at": [0, 4, 5, 12]}


def state(model):
    return model.params_, model.params0_, model.history_, model.recorded_, model.recorded_epochs_


def bits_equal(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.fixture(scope="module")
def uninterrupted():
    return DeepEnsemble(**settings()).fit(X, Y, **RECORD)


CHILD = """
    import sys
    sys.path.insert(0, {folder!r})
    import test_deep_checkpoints as t
    model = t.DeepEnsemble(**t.settings(checkpoint_dir=sys.argv[1], progress=lambda done, *_: print(done, flush=True)))
    model.fit(t.X, t.Y, **t.RECORD, resume=True)
"""


def killed(directory, after, delay):
    """A process that trains into `directory`, killed `delay` seconds after it has announced epoch `after`."""
    code = textwrap.dedent(CHILD).format(folder=os.path.dirname(__file__))
    with subprocess.Popen([sys.executable, "-c", code, str(directory)], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if int(line) >= after:
                threading.Timer(delay, process.kill).start()
                break
        process.wait()
        assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("kills", [[(5, 0.03)], [(2, 0.0), (5, 0.03)]])
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path, uninterrupted, kills):
    for after, delay in kills:
        killed(tmp_path, after, delay)
    seen = []
    model = DeepEnsemble(**settings(checkpoint_dir=tmp_path, progress=lambda done, *_: seen.append(done)))
    model.fit(X, Y, **RECORD, resume=True)
    bits_equal(state(model), state(uninterrupted))
    assert seen
    assert seen == list(range(seen[0], 13))
    assert seen[0] > 5


@pytest.mark.slow
def test_a_finished_run_is_read_and_not_repeated(tmp_path):
    first = DeepEnsemble(**settings(checkpoint_dir=tmp_path)).fit(X, Y, **RECORD)
    calls = []
    again = DeepEnsemble(**settings(checkpoint_dir=tmp_path, progress=lambda *a: calls.append(a)))
    again.fit(X, Y, **RECORD, resume=True)
    bits_equal(state(again), state(first))
    assert not calls


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_what_was_done(tmp_path, uninterrupted):
    def interrupt(done, *_):
        if done == 7:  # before its checkpoint
            signal.raise_signal(signal.SIGINT)

    model = DeepEnsemble(**settings(checkpoint_dir=tmp_path, checkpoint_every=7, progress=interrupt))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, **RECORD)
    with pytest.raises(NotFittedError):
        model.predict(X)
    epochs = []
    model.set_params(progress=lambda done, *_: epochs.append(done)).fit(X, Y, **RECORD, resume=True)
    assert 7 < epochs[0] <= epochs[-1] == 12
    bits_equal(state(model), state(uninterrupted))


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_amid_an_epoch_waits_for_it(tmp_path):
    def model(**changed):
        return DeepEnsemble(**settings(epochs=1500, checkpoint_every=1000, **changed))

    main = threading.get_ident()
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT))
    start = lambda done, *_: timer.start() if done == 1 else None
    interrupted = model(checkpoint_dir=tmp_path, progress=start)
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(X, Y)
    resumed = interrupted.set_params(progress=False).fit(X, Y, resume=True)
    bits_equal(state(resumed), state(model().fit(X, Y)))


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"learning_rate": 0.02}, "differing in network, optimizer or their settings"),
        ({"optimizer": "sgd"}, "network, optimizer or their settings"),
        ({"net": nn.Sequential(nn.Flatten(), nn.Dense(1))}, "network, optimizer or their settings"),
        ({"seed": 1}, "seed: 0 there, 1 now"),
        ({"variation": None}, r'variation: "ZeroOutput\(\)" there, "Variation\(\)" now'),
        ({"batch_size": 3}, "batch size: 4 there, 3 now"),
        ({"augmentation_mode": "full"}, 'augmentation_mode: "random" there, "full" now'),
        ({"augmentation": actions.image_rotations(2)}, "X .after augmentation"),
        ({"epochs": 2}, "epochs is 2; expected at least 3"),
        ({"members": 4}, "chunks of 4 members, and one from member 0 on has 3"),
    ],
)
def test_another_run_is_refused(tmp_path_factory, changed, message, three_epochs):
    model = DeepEnsemble(**settings(checkpoint_dir=three_epochs, epochs=3) | changed)
    with pytest.raises(InvalidArgumentError, match=message):
        model.fit(X, Y, resume=True)


@pytest.fixture(scope="module")
def three_epochs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("three")
    DeepEnsemble(**settings(checkpoint_dir=directory, epochs=3)).fit(X, Y)
    return directory


def test_other_data_and_records_are_refused(three_epochs):
    model = DeepEnsemble(**settings(checkpoint_dir=three_epochs))
    with pytest.raises(InvalidArgumentError, match=r"y .after augmentation"):
        model.fit(X, 2 * Y, resume=True)
    with pytest.raises(InvalidArgumentError, match="differing in record: "):
        model.fit(X, Y, record={"x": X}, resume=True)
    with pytest.raises(InvalidArgumentError, match="without checkpoints of these members; pass resume=True"):
        model.fit(X, Y)
    with pytest.raises(InvalidArgumentError, match="checkpoint_dir is None; expected a directory"):
        DeepEnsemble(**settings()).fit(X, Y, resume=True)


def test_other_epochs_to_record_are_refused(tmp_path):
    model = DeepEnsemble(**settings(checkpoint_dir=tmp_path, epochs=3)).fit(X, Y, record={"x": X}, record_at=[1])
    with pytest.raises(
        InvalidArgumentError, match=r"record_at asks for epochs \[2\]; expected .*1.*; what the checkpoint has recorded"
    ):
        model.fit(X, Y, record={"x": X}, record_at=[2], resume=True)


@pytest.mark.slow
def test_extensions_have_checkpoints_of_their_own(tmp_path, uninterrupted):
    model = DeepEnsemble(**settings(members=2, checkpoint_dir=tmp_path)).fit(X, Y, **RECORD)
    model.extend(3, X, Y, record=RECORD["record"])
    bits_equal(state(model), state(uninterrupted))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["members-0-1", "members-2-2"]


def test_pickled_and_saved_ensembles_come_back(tmp_path, uninterrupted):
    uninterrupted.save(tmp_path / "saved")
    for model in (pickle.loads(pickle.dumps(uninterrupted)), DeepEnsemble.load(tmp_path / "saved")):
        bits_equal(state(model), state(uninterrupted))
        np.testing.assert_array_equal(model.predict(X), uninterrupted.predict(X))
        assert model.get_params() == uninterrupted.get_params()
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    bits_equal(state(model.extend(3, X, Y, record=RECORD["record"])), state(uninterrupted))


def test_saving_again_replaces_and_classifiers_keep_their_labels(tmp_path):
    net = nn.Sequential(nn.Flatten(), nn.Dense(3))
    labels = np.array(list("xyzxyzxyz"))
    model = DeepEnsembleClassifier(net, members=2, epochs=1, progress=lambda *_: None).fit(X, labels)
    model.save(tmp_path / "saved")
    model.set_params(epochs=0).fit(X, labels).save(tmp_path / "saved")
    loaded = DeepEnsembleClassifier.load(tmp_path / "saved")
    assert loaded.history_.shape == (0, 2)
    assert loaded.progress is False
    assert loaded.classes_.tolist() == ["x", "y", "z"]
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
