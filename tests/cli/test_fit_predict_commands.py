"""`equitangents fit` and `predict`: from arrays in files to a saved model to predictions in a file."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import equitangents as et
from equitangents.nn.specification import plain_network
from equitangents_studies.systems import architecture

RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(9, 4)), RNG.normal(size=9), RNG.normal(size=(7, 4))
NET = plain_network("mlp", 1, 1.5, 0.1)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    np.save(tmp_path / "new.npy", NEW)
    np.savez(tmp_path / "labels.npz", x=X, y=np.arange(9) % 3, x_test=NEW)
    monkeypatch.chdir(tmp_path)
    return tmp_path


MLP = ("--net", "mlp", "--depth", 1, "--W-std", 1.5)
FIT = ("fit", "--data", "x.npy", "--targets", "y.npy", *MLP, "--ridge", 1e-3)


@pytest.fixture
def fitted(run):
    status, out, err = run(*FIT, "--out", "model")
    rows = [re.split(r"\s{2,}", line) for line in out.splitlines()]
    assert (status, rows) == (
        0, [["Model", "model"], ["Samples", "9"], ["Outputs", "1"], ["Solved as", "dense N×N"]],
    )  # fmt: skip
    assert err == "inputs are standardised: each channel\nInfiniteEnsemble: dense N×N, N = 9\n"


def test_a_regression_has_the_depth_kernel_and_ridge_of_the_smallest_error_of_left_out_samples(run):
    status, out, err = run("fit", "--data", "x.npy", "--targets", "y.npy", "--out", "model")
    assert status == 0, err
    model = et.InfiniteEnsemble.load("model")
    error = np.mean(model.leave_one_out_.residuals**2)
    assert out.splitlines()[0].split() == ["Leave-one-out", "mean", "squared", "error", f"{error:.4g}"]
    at_zero = et.InfiniteEnsemble(model.net, kernel=model.kernel, ridge=1e-9, standardise=True).fit(X, Y)
    assert error <= np.mean(at_zero.leave_one_out_.residuals**2)
    others = np.mean([(Y[i] - np.delete(Y, i, 0).mean(0)) ** 2 for i in range(9)])
    assert re.search(rf"Error of the mean of the others +{others:.4g}\n", out)


def test_a_solver_is_asked_for_by_name(run):
    status, out, _ = run(*FIT, "--out", "model", "--solver", "pcg")
    assert status == 0
    assert re.search(r"Solver +pcg\nRelative residual +\d", out)
    assert run("predict", "model", "--data", "new.npy", "--out", "p.npy")[0] == 0
    expected = et.InfiniteEnsemble(NET, ridge=1e-3, standardise=True).fit(X, Y).predict(NEW)
    np.testing.assert_allclose(np.load("p.npy"), expected, atol=1e-7)


def test_predictions_are_those_of_the_ensemble(run, fitted):
    mean, std = et.InfiniteEnsemble(NET, ridge=1e-3, standardise=True).fit(X, Y).predict(NEW, return_std=True)
    status, out, _ = run("predict", "model", "--data", "new.npy", "--out", "p.npy", "--rows", 3)
    assert (status, out) == (0, "p.npy: predictions of 7 inputs\n")
    np.testing.assert_allclose(np.load("p.npy"), mean, rtol=1e-9)
    assert run("predict", "model", "--data", "new.npy", "--out", "p.npz", "--std")[0] == 0
    np.testing.assert_allclose(np.load("p.npz")["std"], std, rtol=1e-9)
    assert run("predict", "model", "--data", "new.npy", "--out", "later.npy", "--time", 3)[0] == 0
    later = et.InfiniteEnsemble(NET, ridge=1e-3, time=3.0, standardise=True).fit(X, Y).predict(NEW)
    np.testing.assert_allclose(np.load("later.npy"), later, rtol=1e-9)


def test_labels_make_a_classifier(run):
    assert re.search(r"Classes +3\n", run("fit", "--data", "labels.npz", *MLP, "--out", "m")[1])
    assert run("predict", "m", "--data", "labels.npz", "--array", "x_test", "--out", "p.npy")[0] == 0
    wanted = et.InfiniteEnsembleClassifier(NET, standardise=True).fit(X, np.arange(9) % 3).predict(NEW)
    assert np.load("p.npy").tolist() == wanted.tolist()
    run("fit", "--data", "labels.npz", *MLP, "--task", "regression", "--out", "r")
    assert et.InfiniteEnsemble.load("r").n_outputs_ == 1


def test_every_setting_reaches_the_ensemble(run, folder):
    images = RNG.normal(size=(6, 3, 3, 1))
    np.savez("t.npz", x=images.reshape(6, 9), y=Y[:6])
    known = {"time": 5.0, "learning_rate": 0.1, "kernel": "nngp", "dynamics": "discrete"}
    settings = [f"--{name.replace('_', '-')}={value}" for name, value in known.items()]
    settings += ["--group=C4", "--diag-reg=0.01", "--input-shape=3,3,1", "--precision=float32", "--memory-limit=1"]
    status, out, err = run("fit", "--data", "t.npz", *MLP, *settings, "--store", "k.zarr", "--out", "m")
    assert (status, "orbit-averaged" in out) == (0, True), err
    wanted = et.InfiniteEnsemble(NET, "C4", input_shape=(3, 3, 1), standardise=True, ridge=0.01, **known)
    expected = wanted.fit(images.astype(np.float32), Y[:6]).predict(images[:2])
    model = et.InfiniteEnsemble.load("m")
    assert (folder / "k.zarr" / "ntk").is_dir()
    assert (model._data[0].dtype, model.memory_limit) == (np.float32, 10**9)
    np.testing.assert_allclose(model.predict(images[:2]), expected, rtol=1e-4)


def test_networks_are_named_or_layers_in_a_file_or_ones_own(run, folder, monkeypatch):
    images = RNG.normal(size=(5, 4, 4, 1))
    np.savez("i.npz", x=images, y=Y[:5])
    layers = [{"layer": "Flatten"}, {"layer": "Dense", "channels": 1, "W_std": 1.3}]
    (folder / "net.json").write_text(json.dumps([*layers, {"layer": "Erf"}, {"layer": "Dense", "channels": 1}]))
    (folder / "my_fit_net.py").write_text(
        "from equitangents.kernels import Kernels\n"
        "class Linear:\n"
        "    def kernel(self, x1, x2=None):\n"
        "        k = x1 @ (x1 if x2 is None else x2).T\n"
        "        return Kernels(k, k)\n"
        "net = Linear()\n"
    )
    monkeypatch.syspath_prepend(folder)
    for spec, depth in [("VEC", ["--depth", 1]), ("net.json", [])]:
        assert run("fit", "--data", "i.npz", "--net", spec, *depth, "--ridge", 0.1, "--out", f"m-{spec}")[0] == 0
    fcn = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(1, W_std=1.3), et.nn.Erf(), et.nn.Dense(1))
    for spec, net in [("VEC", architecture("VEC", 1)), ("net.json", fcn)]:
        wanted = et.InfiniteEnsemble(net, ridge=0.1, standardise=True).fit(images, Y[:5]).predict(images[:2])
        np.testing.assert_allclose(et.InfiniteEnsemble.load(f"m-{spec}").predict(images[:2]), wanted, rtol=1e-9)
    own = ("--net", "my_fit_net:net")
    assert run("fit", "--data", "x.npy", "--targets", "y.npy", *own, "--ridge", 1, "--out", "m")[0] == 0
    status, _, err = run("predict", "m", "--data", "new.npy", "--out", "p.npy")
    assert (status, "--net" in err, err.count("\n")) == (2, True, 1)
    assert run("predict", "m", "--data", "new.npy", "--out", "p.npy", *own)[0] == 0


def test_a_kernel_that_gram_computed_is_read(run):
    assert run("gram", "--data", "x.npy", *MLP, "--tile", 4, "--out", "k.zarr")[0] == 0
    status, _, err = run(*FIT, "--store", "k.zarr", "--out", "m", "--no-standardise")
    assert (status, "gram: 0 of 6 tiles computed" in err) == (0, True)
    status, _, err = run(*FIT, "--store", "k.zarr", "--out", "m")  # the kernel of other inputs
    assert (status, "of another problem" in err.splitlines()[-1]) == (2, True), err


@pytest.mark.parametrize("kind", ["float32", "uint8"])
def test_a_kernel_of_standardised_inputs_is_read_by_fit_as_it_is(run, folder, kind):
    x = np.round(40 * X + 128).clip(0, 255).astype(kind)
    np.save("x.npy", x)
    status, _, err = run("gram", "--data", "x.npy", *MLP, "--tile", 4, "--out", "k.zarr", "--standardise")
    assert (status, "inputs are standardised: each channel" in err) == (0, True), err
    status, _, err = run(*FIT, "--store", "k.zarr", "--out", "m")
    assert (status, "gram: 0 of 6 tiles computed" in err) == (0, True), err
    assert run("predict", "m", "--data", "new.npy", "--out", "p.npy")[0] == 0
    expected = et.InfiniteEnsemble(NET, ridge=1e-3, standardise=True).fit(x, Y).predict(NEW)
    np.testing.assert_allclose(np.load("p.npy"), expected, rtol=1e-4 if kind == "float32" else 1e-9, atol=1e-5)


def test_parts_of_a_job_array_make_one_file(run, fitted, folder):
    arguments = ("predict", "model", "--data", "new.npy", "--out", "p.npy", "--rows", 2)
    assert "part 0/2 is done" in run(*arguments, "--shard", "0/2")[1]
    assert not (folder / "p.npy").exists()
    assert "predictions of 7 inputs" in run(*arguments, "--shard", "1/2")[1]
    assert np.load("p.npy").shape == (7,)


def test_a_model_of_another_version_is_one_line(run, fitted, folder, monkeypatch):
    monkeypatch.setattr("equitangents.ensembles.infinite.saving.__version__", "99.0")
    said = run("predict", "model", "--data", "new.npy", "--out", "p.npy")[2]
    assert "fit the model again, or install that version" in said


def test_labels_in_bytes_are_text_in_utf_8(run, folder):
    names = np.array(["Ärger", "b c", "ı"])[np.arange(9) % 3]
    np.savez(folder / "bytes.npz", x=X, y=np.char.encode(names, "utf-8"))
    assert run("fit", "--data", "bytes.npz", *MLP, "--ridge", 1e-9, "--out", "model")[0] == 0
    assert run("predict", "model", "--data", "x.npy", "--out", "p.npy")[0] == 0
    np.testing.assert_array_equal(np.load("p.npy"), names)


def test_probabilities_have_no_unit_and_may_be_calibrated(run, folder):
    y = np.arange(9) % 3
    np.savez("bytes.npz", x=255 * X + 9, y=y, new=255 * NEW + 9)
    predict = ("predict", "m", "--data", "bytes.npz", "--array", "new", "--std", "--out", "p.npz", "--force")
    for more, wanted in ((["--no-calibrate"], {}), ([], {"calibrate": True})):
        assert run("fit", "--data", "bytes.npz", *MLP, "--ridge", 1, *more, "--out", "m")[0] == 0
        assert run(*predict)[0] == 0
        model = et.InfiniteEnsembleClassifier(NET, ridge=1, standardise=True, **wanted).fit(X, y)
        np.testing.assert_allclose(np.load("p.npz")["probability"], model.predict_proba(NEW), rtol=1e-6, atol=1e-9)
    assert run(*FIT, "--no-standardise", "--out", "model")[0] == 0
    expected = et.InfiniteEnsemble(NET, ridge=1e-3).fit(X, Y).predict(NEW)
    np.testing.assert_allclose(et.InfiniteEnsemble.load("model").predict(NEW), expected, rtol=1e-9)


FIELD_RNG = np.random.default_rng(1)
FIELDS, TARGETS, NEW_FIELDS = (FIELD_RNG.normal(size=s) for s in ((4, 3, 3, 1), (4, 3, 3, 2), (2, 3, 3, 1)))
LABELS = (FIELDS[..., 0] > 0) + 3
CONV = et.nn.Sequential(et.nn.Conv(1, (3, 3)), et.nn.Relu(), et.nn.Conv(1, (3, 3)))
LAYERS = [{"layer": "Conv", "channels": 1, "window": [3, 3]}, {"layer": "Relu"}]


@pytest.fixture
def run_fields(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("fields.npz", x=FIELDS, y=TARGETS)
    np.savez("labels.npz", x=FIELDS, y=LABELS)
    np.save("new.npy", NEW_FIELDS)
    (tmp_path / "net.json").write_text(json.dumps([*LAYERS, LAYERS[0]]))

    def call(*arguments):
        status, out, err = command(*arguments)
        assert status == 0, err
        return out

    return call


def shown(out: str) -> dict[str, str]:
    """The table of labels and values."""
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in out.splitlines() if "  " in line)


FIT_FIELDS = ("fit", "--net", "net.json", "--ridge", 1e-2)


def test_fields_are_fitted_and_predicted(run_fields):
    out = run_fields(*FIT_FIELDS, "--data", "fields.npz", "--out", "model")
    expected = {"Model": "model", "Samples": "4", "Outputs": "2", "Positions": "3×3"}
    assert expected.items() <= shown(out).items()
    assert shown(out)["Solved as"].startswith("dense NP×NP")
    run_fields("predict", "model", "--data", "new.npy", "--out", "p.npz", "--std")
    model = et.InfiniteEnsemble(CONV, ridge=1e-2, standardise=True).fit(FIELDS, TARGETS)
    mean, std = model.predict(NEW_FIELDS, return_std=True)
    with np.load("p.npz") as held:
        assert not np.max(np.abs(held["mean"] - mean)) > 1e-9
        assert not np.max(np.abs(held["std"] - std)) > 1e-9


def test_whole_numbers_at_every_position_are_labels(run_fields):
    out = run_fields(*FIT_FIELDS, "--data", "labels.npz", "--out", "model")
    assert shown(out)["Classes"] == "2"
    assert shown(out)["Accuracy on positions of left-out samples"].endswith(" %")
    run_fields("predict", "model", "--data", "new.npy", "--out", "p.npy")
    expected = et.InfiniteEnsembleClassifier(CONV, ridge=1e-2, standardise=True).fit(FIELDS, LABELS).predict(NEW_FIELDS)
    np.testing.assert_array_equal(np.load("p.npy"), expected)
    out = run_fields(*FIT_FIELDS, "--data", "labels.npz", "--out", "model", "--task", "regression")
    assert shown(out)["Outputs"] == "1"
