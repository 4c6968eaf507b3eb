"""InfiniteEnsemble.save and load: the same ensemble again; a damaged, foreign or older folder is refused."""

from __future__ import annotations

import json
import pickle
import shutil
import zipfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.ensembles.infinite import saving
from equitangents.ensembles.storage.structure import Described, build
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFittedError, StoreError
from equitangents.kernels import Kernels
from permissions import public_folder, without_permission

NET = nn.Sequential(nn.Flatten(), nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(6, 3, 3, 1)), RNG.normal(size=(6, 2)), RNG.normal(size=(4, 3, 3, 1))
ROTATIONS = et.actions.image_rotations(4)
LABELS_MOVE = {"augmentation": "C4", "label_action": et.actions.linear(ROTATIONS.group, [np.eye(2), -np.eye(2)] * 2)}


@pytest.mark.parametrize(
    "settings",
    [{}, {"time": 3.0, "kernel": "nngp"}, {"augmentation": "C4"}, LABELS_MOVE, {"time": 2, "dynamics": "discrete"}],
    ids=["plain", "nngp at a time", "orbit average", "irreps", "steps"],
)
def test_a_saved_ensemble_predicts_the_same_to_the_last_bit(tmp_path, settings):
    settings = {"ridge": 1e-3, "learning_rate": 0.1, **settings}
    model = et.InfiniteEnsemble(NET, **settings).fit(X, Y)
    model.save(tmp_path / "m")
    loaded = et.InfiniteEnsemble.load(tmp_path / "m")
    for one, two in zip(model.predict(NEW, return_std=True), loaded.predict(NEW, return_std=True), strict=True):
        np.testing.assert_array_equal(one, two)
    assert repr(loaded) == repr(model)
    assert saving.fingerprint(loaded) == saving.fingerprint(model)
    np.testing.assert_array_equal(model.predict(NEW, time=4), loaded.predict(NEW, time=4))


FIELDS = nn.Sequential(nn.Conv(1, 3, padding="circular"), nn.Relu(), nn.Conv(1, 3, padding="circular"))
TWICE = np.concatenate([X, X[:2]])


@pytest.mark.parametrize(
    ("net", "x", "y", "settings"),
    [
        (NET, X, RNG.normal(size=(4, 6, 2)), {}),
        (NET, TWICE, RNG.normal(size=(8, 2)), {"label_action": LABELS_MOVE["label_action"]}),
        (FIELDS, X[:3], RNG.normal(size=(4, 3, 3, 3, 1)), {}),
    ],
    ids=["labels of copies", "irreps of equal inputs", "fields of copies"],
)
def test_copies_labels_and_equal_inputs_are_saved_with_the_rest(tmp_path, net, x, y, settings):
    model = et.InfiniteEnsemble(net, ridge=1e-2, time=5.0, augmentation="C4", **settings).fit(x, y)
    expected = model.predict(NEW, return_std=True)
    model.save(tmp_path / "m")
    for one, two in zip(et.InfiniteEnsemble.load(tmp_path / "m").predict(NEW, return_std=True), expected, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_saved_ensemble_is_loaded_where_nothing_may_be_written():
    with public_folder() as folder:
        model = et.InfiniteEnsemble(NET, ridge=1e-3, store=folder / "kernel").fit(X, Y)
        model.save(folder / "m")
        expected = et.InfiniteEnsemble.load(folder / "m").predict(NEW, return_std=True)
        with without_permission(folder):
            found = et.InfiniteEnsemble.load(folder / "m").predict(NEW, return_std=True)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, two)


def test_models_that_differ_deep_inside_a_long_network_or_in_ones_own_have_other_fingerprints():
    class Own:
        def __init__(self, W_std):
            self.net = nn.Sequential(nn.Flatten(), nn.Dense(1, W_std=W_std))

        def kernel(self, x1, x2=None):
            return self.net.kernel(x1, x2)

    def long(W_std):
        layers = [nn.Dense(1, W_std=W_std if i == 8 else 1.5, b_std=0.1) for i in range(16)]
        return nn.Sequential(nn.Flatten(), *layers)

    for network in (long, Own):
        one, same, other = (et.InfiniteEnsemble(network(W_std), ridge=1e-2).fit(X, Y) for W_std in (1.5, 1.5, 1.2))
        assert saving.fingerprint(one) == saving.fingerprint(same) != saving.fingerprint(other)


@pytest.mark.slow
def test_models_that_differ_in_arrays_and_functions_within_have_other_fingerprints():
    group, x = et.groups.cyclic(2), X.reshape(6, 3, 3)
    swaps = [np.eye(3)[order] for order in ([1, 0, 2], [0, 2, 1])]
    signs = [np.diag(sign) for sign in ([-1.0, 1.0], [1.0, -1.0])]
    inputs = [et.actions.channels(group, [np.eye(3), swap]) for swap in swaps]
    labels = [et.actions.linear(group, [np.eye(2), sign]) for sign in signs]
    waves = [nn.Elementwise(lambda z, k=k: jnp.sin(k * z)) for k in (1.0, 0.5)]
    gain = [nn.Sequential(nn.Flatten(), nn.Dense(1), wave, nn.Dense(1)) for wave in waves]
    around = [nn.Sequential(nn.Dense(1), nn.Aggregate(swap + np.eye(3)), nn.Flatten(), nn.Dense(1)) for swap in swaps]
    fields = [nn.Sequential(nn.Dense(1), nn.Aggregate(swap + np.eye(3))) for swap in swaps]
    fixed = {"augmentation": inputs[0]}
    parts = [et.actions.subset(inputs[0], [0, 1], weights) for weights in ([1.0, 2.0], [1.0, 3.0])]
    pairs = [
        [{"net": net} for net in around],
        [{"net": net} for net in gain],
        [{"net": net} for net in fields],
        [{"augmentation": action} for action in inputs],
        [{"augmentation": part} for part in parts],
        [{"label_action": action} | fixed for action in labels],
        [{"label_action": action, "augmentation": parts[0]} for action in labels],
    ]
    for one, other in pairs:
        y = x[..., :1] if one.get("net") is fields[0] else Y
        found = [et.InfiniteEnsemble(**{"net": NET, "ridge": 1e-2} | each).fit(x, y) for each in (one, one, other)]
        first, same, different = map(saving.fingerprint, found)
        assert first == same != different


def test_a_saved_classifier_knows_its_classes(tmp_path):
    model = et.InfiniteEnsembleClassifier(NET, ridge=1e-3).fit(X, list("abcabc"))
    model.save(tmp_path / "m")
    loaded = et.InfiniteEnsembleClassifier.load(tmp_path / "m")
    assert loaded.predict(NEW).tolist() == model.predict(NEW).tolist()
    np.testing.assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))


def test_coefficients_give_the_means_also_of_samples_that_stand_twice(tmp_path):
    x, y = np.concatenate([X, X[:2]]), np.concatenate([Y, Y[:2]])
    model = et.InfiniteEnsemble(NET, time=3.0).fit(x, y)
    model.save(tmp_path / "m", means_only=True)
    means = saving.load_means(tmp_path / "m")
    np.testing.assert_allclose(means(NEW), model.predict(NEW), rtol=1e-10)
    with pytest.raises(StoreError, match="saved with means_only"):
        et.InfiniteEnsemble.load(tmp_path / "m")


def test_means_alone_are_refused_where_they_need_all_of_the_state(tmp_path):
    model = et.InfiniteEnsemble(NET, ridge=1e-3, **LABELS_MOVE).fit(X, Y)
    with pytest.raises(InvalidArgumentError, match="the means of this solution need the whole state"):
        model.save(tmp_path / "m", means_only=True)
    assert not (tmp_path / "m").exists()


class Linear:
    """A network of one's own."""

    def kernel(self, x1, x2=None):
        k = np.einsum("iabc,jabc->ij", x1, x1 if x2 is None else x2)
        return Kernels(k, k)


def test_a_network_of_ones_own_is_given_again_and_recognised(tmp_path):
    net = Linear()
    model = et.InfiniteEnsemble(net, ridge=1e-3).fit(X, Y)
    model.save(tmp_path / "m")
    with pytest.raises(InvalidArgumentError, match="could not be saved with the model"):
        et.InfiniteEnsemble.load(tmp_path / "m")
    np.testing.assert_array_equal(et.InfiniteEnsemble.load(tmp_path / "m", net=net).predict(NEW), model.predict(NEW))
    with pytest.raises(InvalidArgumentError, match="whose predictions are others"):
        et.InfiniteEnsemble.load(tmp_path / "m", net=NET)


class TestAFolder:
    @pytest.fixture
    def saved(self, tmp_path):
        et.InfiniteEnsemble(NET, ridge=1e-3).fit(X, Y).save(tmp_path / "m")
        return tmp_path / "m"

    def test_with_a_changed_byte_is_damaged(self, saved):
        files = sorted(file for file in saved.rglob("*") if file.is_file())
        assert [file.name for file in files] == ["model.npz"]
        with zipfile.ZipFile(files[0]) as archive:
            entries = archive.infolist()
        assert len(entries) > 4
        good = files[0].read_bytes()
        for entry in entries:
            at = entry.header_offset + 60 + entry.compress_size // 2  # beyond the header
            files[0].write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
            with pytest.raises(StoreError, match="a saved model that can be read"):
                et.InfiniteEnsemble.load(saved), saving.load_means(saved)  # coefficients are read by the second

    def test_of_another_class_version_or_kind_is_refused(self, saved, tmp_path, monkeypatch):
        with pytest.raises(InvalidArgumentError, match=r"Classifier'; load it by InfiniteEnsemble\.load"):
            et.InfiniteEnsembleClassifier.load(saved)
        with pytest.raises(StoreError, match=r"it holds no model\.npz"):
            et.InfiniteEnsemble.load(tmp_path)
        monkeypatch.setattr(saving, "__version__", "99.0")
        with pytest.raises(StoreError, match=r"version 99\.0; .*fit the model again, or install that version"):
            et.InfiniteEnsemble.load(saved)

    def test_that_is_no_model_is_not_replaced_and_a_model_is(self, saved, tmp_path):
        model = et.InfiniteEnsemble(NET, ridge=1e-2).fit(X, Y)
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.tex").touch()
        with pytest.raises(InvalidArgumentError, match="is not a saved ensemble"):
            model.save(tmp_path / "mine")
        model.save(saved)
        np.testing.assert_array_equal(et.InfiniteEnsemble.load(saved).predict(NEW), model.predict(NEW))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "mine"]

    def test_stays_as_it_was_where_the_disk_is_full(self, saved, tmp_path, monkeypatch):
        before = {file: file.read_bytes() for file in saved.rglob("*") if file.is_file()}

        def full(*arguments, **keywords):
            raise OSError(28, "No space left on device")

        model = et.InfiniteEnsemble(NET, ridge=1e-2).fit(X, Y)
        monkeypatch.setattr(zipfile.ZipFile, "open", full)
        for where in (saved, tmp_path / "new"):
            with pytest.raises(StoreError, match="cannot be written: No space left on device; what was") as error:
                model.save(where)
            assert "\n" not in str(error.value)
            assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
        assert not (tmp_path / "new").exists()

    def test_holds_no_pickle_and_runs_no_code(self, saved):
        for file in saved.rglob("*"):
            assert file.is_dir() or not file.read_bytes().startswith(pickle.dumps(0)[:1])
        with zipfile.ZipFile(saved / "model.npz") as archive:
            about = json.loads(archive.read("model.json"))
        for name in ("os:system", "subprocess:Popen", "equitangents.cli.main:main", "equitangents.nn:np.ndarray"):
            with pytest.raises((ValueError, AttributeError)):
                build({"is": "object", "number": 0, "class": name, "state": []}, [].__getitem__)
        assert about["class"] == "InfiniteEnsemble"


def test_an_ensemble_that_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        et.InfiniteEnsemble(NET).save(tmp_path / "m")


def test_values_of_every_kind_come_back():
    shared = np.arange(3.0)
    value = {
        "numbers": (1, 2.5, float("inf"), True, None, np.float32(0.1), np.dtype("<f4")),
        3: [shared, shared, Path("there"), "text"],
        "class": nn.Relu,
        "object": NET,
    }
    described = Described(value)
    again = build(json.loads(json.dumps(described.tree)), described.arrays.__getitem__)
    assert again["numbers"] == value["numbers"]
    assert again["numbers"][5].dtype == np.float32
    assert again[3][0] is again[3][1]
    assert again[3][2:] == [Path("there"), "text"]
    assert (again["class"], again["object"]) == (nn.Relu, NET)
    for foreign in (shutil, lambda: 0, np.array([{}])):
        with pytest.raises(InvalidTypeError, match="cannot be saved"):
            Described([foreign])
