"""`equitangents fit` and `predict`: from arrays in files to a saved model to predictions in a file."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import equitangents as et
from equitangents.planning.question import network
from equitangents_studies.systems import architecture

RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(9, 4)), RNG.normal(size=9), RNG.normal(size=(7, 4))
NET = network("mlp", 1, 1.5, 0.1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    np.save(tmp_path / "new.npy", NEW)
    np.savez(tmp_path / "labels.npz", x=X, y=np.arange(9) % 3, x_test=NEW)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(command, folder):
    return command


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
    assert re.search(rf"Of the mean of the others +{others:.4g}\n", out)


def test_a_solver_is_asked_for_by_name(run):
    status, out, _ = run(*FIT, "--out", "model", "--solver", "pcg")
    assert status == 0
    assert re.search(r"Solver +pcg\nRelative residual +\d", out)
    assert run("predict", "model", "--data", "new.npy", "--out", "p.npy")[0] == 0
    expected = et.InfiniteEnsemble(NET, ridge=1e-3, standardise=True).fit(X, Y).predict(NEW)
    np.testing.assert_allclose(np.load("p.npy"), expected, atol=1e-7)
    status, _, err = run(*FIT, "--out", "model", "--solver", "magic")
    assert (status, err.count("\n")) == (2, 1)
    assert "solver is 'magic'" in err


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
    settings = ["--group", "C4", "--time", 5, "--learning-rate", 0.1, "--diag-reg", 0.01, "--kernel", "nngp"]
    more = ["--dynamics", "discrete", "--input-shape", "3,3,1", "--precision", "float32", "--store", "k.zarr"]
    status, out, err = run("fit", "--data", "t.npz", *MLP, *settings, *more, "--memory-limit", 1, "--out", "m")
    assert (status, "orbit-averaged" in out) == (0, True), err
    wanted = et.InfiniteEnsemble(
        NET,
        "C4",
        time=5.0,
        learning_rate=0.1,
        ridge=0.01,
        kernel="nngp",
        input_shape=(3, 3, 1),
        dynamics="discrete",
        standardise=True,
    )
    model = et.InfiniteEnsemble.load("m")
    assert (folder / "k.zarr" / "ntk").is_dir()
    assert model._data[0].dtype == np.float32
    assert model.memory_limit == 10**9
    np.testing.assert_allclose(
        model.predict(images[:2]), wanted.fit(images.astype(np.float32), Y[:6]).predict(images[:2]), rtol=1e-4
    )


def test_means_alone_take_less_room_and_have_no_standard_deviations(run, fitted, folder):
    assert run(*FIT, "--out", "small", "--means-only")[0] == 0
    size = {name: (folder / name / "model.npz").stat().st_size for name in ("small", "model")}
    assert size["small"] < size["model"]
    assert run("predict", "small", "--data", "new.npy", "--out", "p.npy")[0] == 0
    status, _, err = run("predict", "small", "--data", "new.npy", "--out", "q.npz", "--std")
    assert (status, err.count("\n")) == (2, 1)
    assert "it was saved with means_only" in err


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
    assert (status, "--no-standardise" in err.splitlines()[-1]) == (2, True), err
    assert "gram --standardise" in err.splitlines()[-1]


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ridge", "0.1,0.2"], "one for each sample takes Python: et.InfiniteEnsemble(net, ridge=array)"),
        (["--memory-limit", "nan"], "--memory-limit is nan; expected a positive number of GB"),
        (["--solver", "out-of-core"], "--store"),
        (["--net", "VEC", "--depth", 0], "depth is 0"),
        (["--input-shape", "3,3"], "expected (N, 3, 3) or (N, 9)"),
        (["--ridge", -1], "equitangents: --ridge is -1"),
        (["--W-std", -1], "equitangents: --W-std is -1"),
        (["--group", "SO2"], "equitangents: --group is 'SO2'; expected a finite group"),
        (["--time", -1], "time"),
        (
            ["--data", "nan.npy"],
            "equitangents: x holds NaN or infinite values, the first at index (4, 1); remove or impute them",
        ),
        (["--targets", "new.npy"], "x has length 9; expected 7; as many rows as y"),
        (["--targets", "labels.npz", "--memory-limit", 1e-9], "the limit is 1 B"),
        (["--out", "."], "is not a saved ensemble; choose another"),
        (["--out", "x.npy/model"], "that can be written"),
    ],
)
def test_bad_input_to_fit_is_one_line_and_nothing_is_saved(run, folder, arguments, said):
    bad = X.copy()
    bad[4, 1] = np.nan
    np.save("nan.npy", bad)
    before = sorted(folder.iterdir())
    status, out, err = run(*FIT, "--out", "m", *arguments)
    assert (status, out) == (2, "")
    assert said in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("equitangents: ")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "wide.npy"], "x has inputs of shape (5,); expected (4,)"),
        (["--data", "nan.npy"], "x holds NaN or infinite values, the first at index (2, 1); remove or impute them"),
        (["--data", "labels.npz", "--array", "z"], "expected z; it holds x, x_test, y"),
        (["--out", "p.csv"], "ends in .npy or .npz"),
        (
            ["--out", "x.npy"],
            "x.npy exists; it does not hold these predictions: give another path, or force=True (--force) to",
        ),
        (["--rows", 0], "rows is 0"),
        (["--data", "none.npy"], "x has shape (0, 4); expected at least one input"),
    ],
)
def test_bad_input_to_predict_is_one_line_and_nothing_is_written(run, fitted, folder, arguments, said):
    bad = NEW.copy()
    bad[2, 1] = np.inf
    np.save("nan.npy", bad)
    np.save("wide.npy", np.ones((3, 5)))
    np.save("none.npy", np.zeros((0, 4)))
    before = sorted(folder.iterdir())
    status, out, err = run("predict", "model", "--data", "new.npy", "--out", "p.npy", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert sorted(folder.iterdir()) == before


def test_what_is_no_model_and_a_model_of_another_version_are_one_line(run, fitted, folder, monkeypatch):
    for path, said in [
        ("nowhere", "model is 'nowhere'; expected a file or folder"),
        ("x.npy", "it holds no model.npz"),
    ]:
        status, _, err = run("predict", path, "--data", "new.npy", "--out", "p.npy")
        assert (status, err.count("\n")) == (2, 1)
        assert said in err
    monkeypatch.setattr("equitangents.ensembles.infinite.saving.__version__", "99.0")
    assert (
        "fit the model again, or install that version"
        in run("predict", "model", "--data", "new.npy", "--out", "p.npy")[2]
    )


def test_labels_in_bytes_are_text_in_utf_8(run, folder):
    names = np.array(["Ärger", "b c", "ı"])[np.arange(9) % 3]
    np.savez(folder / "bytes.npz", x=X, y=np.char.encode(names, "utf-8"))
    assert run("fit", "--data", "bytes.npz", *MLP, "--ridge", 1e-9, "--out", "model")[0] == 0
    assert run("predict", "model", "--data", "x.npy", "--out", "p.npy")[0] == 0
    np.testing.assert_array_equal(np.load("p.npy"), names)
    np.savez(folder / "latin.npz", x=X, y=np.char.encode(np.array(["Ärger", "b", "c"])[np.arange(9) % 3], "latin-1"))
    status, _, err = run("fit", "--data", "latin.npz", *MLP, "--out", "model")
    assert status == 2
    assert "y holds bytes b'\\xc4rger'; expected labels of text in UTF-8" in err


@pytest.mark.parametrize(
    "words",
    [
        ("fit", *MLP, "--out", "model"),
        ("reproduce", "comparison", "--out", "run"),
    ],
)
def test_arrays_of_objects_are_answered_with_what_can_be_saved_instead(run, folder, words):
    np.savez(folder / "objects.npz", x=X, y=np.array(["a", "b", "c"] * 3, dtype=object))
    status, _, err = run(*words, "--data", "objects.npz")
    assert status == 2
    assert "y.astype(str)" in err
    assert "--trust" not in err


def test_probabilities_have_no_unit_and_may_be_calibrated(run, folder):
    y = np.arange(9) % 3
    np.savez("bytes.npz", x=255 * X + 9, y=y, new=255 * NEW + 9)
    for more, wanted in ((["--no-calibrate"], {}), ([], {"calibrate": True})):
        assert run("fit", "--data", "bytes.npz", *MLP, "--ridge", 1, *more, "--out", "m")[0] == 0
        assert (
            run("predict", "m", "--data", "bytes.npz", "--array", "new", "--std", "--out", "p.npz", "--force")[0] == 0
        )
        model = et.InfiniteEnsembleClassifier(NET, ridge=1, standardise=True, **wanted).fit(X, y)
        np.testing.assert_allclose(np.load("p.npz")["probability"], model.predict_proba(NEW), rtol=1e-6, atol=1e-9)
    status, _, err = run(*FIT, "--calibrate", "--out", "model")
    assert (status, "expected none, since the task is regression" in err) == (2, True)
    assert run(*FIT, "--no-standardise", "--out", "model")[0] == 0
    expected = et.InfiniteEnsemble(NET, ridge=1e-3).fit(X, Y).predict(NEW)
    np.testing.assert_allclose(et.InfiniteEnsemble.load("model").predict(NEW), expected, rtol=1e-9)
