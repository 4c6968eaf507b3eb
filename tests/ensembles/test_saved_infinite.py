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
from sklearn.base import clone

import equitangents as et
from ensembles.fields.patch_kernels import PatchKernels
from equitangents import nn, solvers
from equitangents.ensembles.infinite import saving
from equitangents.ensembles.saved_objects import EncodedValue, build
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFittedError, StoreError
from equitangents.kernels import Kernels, random_features

NET = nn.Sequential(nn.Flatten(), nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(6, 3, 3, 1)), RNG.normal(size=(6, 2)), RNG.normal(size=(4, 3, 3, 1))
FLAT, ROWS, QUERY = RNG.normal(size=(20, 9)), RNG.normal(size=(20, 2)), RNG.normal(size=(4, 9))
ROTATIONS = et.actions.image_rotations(4)
LABELS_MOVE = {"augmentation": "C4", "label_action": et.actions.linear(ROTATIONS.group, [np.eye(2), -np.eye(2)] * 2)}
FIELDS = nn.Sequential(nn.Conv(1, 3, padding="circular"), nn.Relu(), nn.Conv(1, 3, padding="circular"))
SIGNS = et.actions.linear(ROTATIONS.group, [np.eye(1) * (-1) ** g for g in range(4)])
SIGNED, Y_FIELDS = et.actions.tensor_product(ROTATIONS, SIGNS), RNG.normal(size=(3, 3, 3, 1))
TWICE, TARGETS_TWICE = np.concatenate([FLAT, FLAT[:2]]), np.concatenate([ROWS, ROWS[:2]])
S3 = et.groups.symmetric(3)
LIFT = nn.Lift(et.actions.permutations(S3, S3.table), 8)
TURNING = nn.Sequential(LIFT, nn.Relu(), nn.Readout(S3.irreps("real")[2], b_std=0.3))
SETS, RIDGES = RNG.normal(size=(6, 6, 2)), RNG.uniform(0.02, 0.6, 20)
NAMES = np.array(["cat", "a very long name"] * 10, dtype=object)
PATCHES = PatchKernels()
TWO = nn.Sequential(nn.Dense(2))


def cases(folder: Path):
    """Name → (model, x, y, new inputs)."""
    regression, classifier = et.InfiniteEnsemble, et.InfiniteEnsembleClassifier
    images = {
        "plain": {},
        "nngp at a time": {"time": 3.0, "kernel": "nngp"},
        "orbit average": {"augmentation": "C4"},
        "irreps": LABELS_MOVE,
        "steps": {"time": 2, "dynamics": "discrete", "learning_rate": 0.1},
    }
    made = {name: (regression(NET, **{"ridge": 1e-3} | how), X, Y, NEW) for name, how in images.items()}
    copies = {"augmentation": "C4", "ridge": 1e-2, "time": 5.0}
    again = np.concatenate([X, X[:2]]), RNG.normal(size=(8, 2)), NEW
    made["irreps of equal inputs"] = regression(NET, **copies, label_action=LABELS_MOVE["label_action"]), *again
    made["fields that move"] = regression(FIELDS, **copies, label_action=SIGNED), X[:3], Y_FIELDS, NEW
    made["fields"] = regression(PATCHES, ridge=0.1), X, RNG.normal(size=(6, 3, 3, 2)), NEW
    made["outputs that transform"] = regression(TURNING, time=2.0), SETS[:4], ROWS[:4], SETS[4:]
    rows = {
        "eigh": {"solver": "eigh"},
        "cholesky": {"solver": "cholesky"},
        "pcg": {"solver": solvers.PCG(rank=9)},
        "nystrom": {"solver": "nystrom"},
        "nystrom in a store": {"solver": "nystrom", "store": folder / "k"},
        "out-of-core": {"solver": solvers.OutOfCore(path=folder / "factors")},
        "out-of-core in a store": {"solver": "out-of-core", "store": folder / "k"},
        "standardised": {"standardise": True},
    }
    for name, how in rows.items():
        made[name] = regression(NET, ridge=1e-2, **how), TWICE, TARGETS_TWICE, QUERY
    for solver in ("auto", "eigh", "pcg"):
        cheap = regression(random_features(NET, 16, seed=2), ridge=1e-2, solver=solver)
        made[f"features by {solver}"] = cheap, FLAT, ROWS, QUERY
    for name, ridge in (("ridges", RIDGES), ("ridges in a list", RIDGES.tolist())):
        made[name] = regression(NET, ridge=ridge), FLAT, ROWS, QUERY
    calibrated = classifier(NET, ridge=0.1, calibrate=True, standardise=True)
    made["classifier"] = classifier(NET, ridge=1e-2), FLAT, list("abcab" * 4), QUERY
    made["text of pandas"] = classifier(NET, ridge=1e-2), FLAT, NAMES, QUERY
    made["calibrated"] = calibrated, FLAT, NAMES, QUERY
    made["label fields"] = classifier(PATCHES, ridge=0.1), X, (X[..., 0] > 0).astype(int), NEW
    return made


def answers(model, new):
    """What a model says, at its own and at other times."""
    if hasattr(model, "classes_"):
        yield from (model.classes_, model.predict(new), model.predict_proba(new), getattr(model, "temperature_", new))
    else:
        if model.solution_.solver != "nystrom":
            yield from model.predict(new, return_std=True)
        yield model.predict(new)
    yield model.predict(new, time=4)


@pytest.mark.parametrize("name", cases(Path()))
def test_a_saved_ensemble_predicts_the_same(tmp_path, name):
    model, x, y, new = cases(tmp_path)[name]
    copy = clone(model)
    np.testing.assert_equal(copy.get_params()["ridge"], model.get_params()["ridge"])
    model.fit(x, y).save(tmp_path / "m")
    own = {"net": model.net} if model.net is PATCHES else {}
    for again in (type(model).load(tmp_path / "m", **own), pickle.loads(pickle.dumps(model))):
        for one, two in zip(answers(again, new), answers(model, new), strict=True):
            if np.asarray(one).dtype.kind == "f":
                np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)
            else:
                np.testing.assert_array_equal(one, two)
        if model.net is NET and "store" not in name and "out-of-core" not in name:
            assert repr(again) == repr(model)
            assert hasattr(model, "classes_") or saving.fingerprint(again) == saving.fingerprint(model)
        assert hasattr(model, "classes_") or repr(again.solution_) == repr(model.solution_)


def test_means_of_a_loaded_ensemble_need_no_store_and_what_does_refuses_another_kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"ridge": 1e-2, "solver": solvers.Cholesky(), "store": "k"}
    model = et.InfiniteEnsemble(NET, **settings).fit(FLAT, ROWS)
    std = model.predict(QUERY, return_std=True)[1]
    model.save("model")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    loaded = et.InfiniteEnsemble.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict(QUERY, return_std=True)[1], std, atol=1e-12)
    monkeypatch.chdir(tmp_path)
    shutil.rmtree("k")
    for other in (False, True):
        if other:
            et.InfiniteEnsemble(NET, **settings).fit(2 * FLAT, ROWS)
        loaded = et.InfiniteEnsemble.load("model")
        np.testing.assert_array_equal(loaded.predict(QUERY), model.predict(QUERY))
        with pytest.raises(StoreError, match=r"expected the kernel of the training set.*fit the model again"):
            loaded.predict(QUERY, return_std=True)


def test_saved_models_of_other_features_of_the_same_seed_are_refused(tmp_path):
    cheap = random_features(NET, 48)
    vars(cheap)["version"] = 1
    et.InfiniteEnsemble(cheap, ridge=1e-2).fit(FLAT, ROWS).save(tmp_path / "m")
    with pytest.raises(StoreError, match="RandomFeatures do not fit"):
        et.InfiniteEnsemble.load(tmp_path / "m")


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


KINDS = {
    "InfiniteEnsemble": (et.InfiniteEnsemble(NET, ridge=1e-3), ROWS),
    "InfiniteEnsembleClassifier": (et.InfiniteEnsembleClassifier(NET, ridge=1e-3), list("abcab" * 4)),
    "DeepEnsemble": (et.DeepEnsemble(NET, members=2, epochs=0), ROWS[:, :1]),
    "DeepEnsembleClassifier": (et.DeepEnsembleClassifier(TWO, members=2, epochs=0), list("abbab" * 4)),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_folder_of_another_class_version_or_kind_is_refused_and_not_replaced(tmp_path, name, monkeypatch):
    model, y = KINDS[name]
    with pytest.raises(NotFittedError):
        clone(model).save(tmp_path / "m")
    model.fit(FLAT, y)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(InvalidArgumentError, match="expected a new path, or that of a saved ensemble"):
        model.save(tmp_path / "mine")
    for _ in range(2):  # a model is replaced
        model.save(tmp_path / "m")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "mine"]
    for other, (one, _) in KINDS.items():
        if other != name:
            with pytest.raises(InvalidArgumentError, match=rf"load it by {name}\.load"):
                type(one).load(tmp_path / "m")
        with pytest.raises(StoreError, match="the folder of a saved model"):
            type(one).load(tmp_path / "mine")
    if "Infinite" in name:
        monkeypatch.setattr(saving, "__version__", "99.0")
        with pytest.raises(StoreError, match=r"version 99\.0; .*fit the model again, or install that version"):
            type(model).load(tmp_path / "m")


def test_a_saved_model_holds_no_pickle_and_runs_no_code(tmp_path):
    et.InfiniteEnsemble(NET, ridge=1e-3).fit(X, Y).save(tmp_path / "m")
    (file,) = (tmp_path / "m").iterdir()
    assert not file.read_bytes().startswith(pickle.dumps(0)[:1])
    good = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        assert json.loads(archive.read("model.json"))["class"] == "InfiniteEnsemble"
    for entry in entries:
        at = entry.header_offset + 60 + entry.compress_size // 2  # beyond the header
        file.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(StoreError, match="a saved model that can be read"):
            et.InfiniteEnsemble.load(tmp_path / "m")
    for name in ("os:system", "subprocess:Popen", "equitangents.cli.main:main", "equitangents.nn:np.ndarray"):
        with pytest.raises((ValueError, AttributeError)):
            build({"is": "object", "number": 0, "class": name, "state": []}, [].__getitem__)


def test_values_of_every_kind_come_back():
    shared = np.arange(3.0)
    value = {
        "numbers": (1, 2.5, float("inf"), True, None, np.float32(0.1), np.dtype("<f4")),
        3: [shared, shared, Path("there"), "text"],
        "class": et.inference.Flow,
        "object": NET,
    }
    described = EncodedValue(value)
    again = build(json.loads(json.dumps(described.tree)), described.arrays.__getitem__)
    assert again["numbers"] == value["numbers"]
    assert again["numbers"][5].dtype == np.float32
    assert again[3][0] is again[3][1]
    assert again[3][2:] == [Path("there"), "text"]
    assert (again["class"], again["object"]) == (et.inference.Flow, NET)
    for foreign in (shutil, lambda: 0, np.array([{}])):
        with pytest.raises(InvalidTypeError, match="cannot be saved"):
            EncodedValue([foreign])
