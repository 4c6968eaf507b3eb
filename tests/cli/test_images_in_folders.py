"""`equitangents fit` and `predict` on folders of images, one folder a class or a table; what is wrong is one line."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import equitangents as et
from cli.small_images import save, write_tiles
from equitangents.cli.options import network
from equitangents.ensembles.infinite import saving
from equitangents.errors import InvalidArgumentError
from equitangents.fit.result import HeldOut
from equitangents.kernels.orbit import OrbitAverage
from equitangents_studies.data.images import read_image

RNG = np.random.default_rng(0)
FIT = ("fit", "--data", "tiles", "--depth", 1, "--ridge", 1e-3, "--out", "model")


@pytest.fixture
def tiles(tmp_path, monkeypatch):
    """Bright and dark grey tiles of 4×4, six each, and the same without folders."""
    monkeypatch.chdir(tmp_path)
    write_tiles(12)
    return tmp_path


def table(path):
    """The rows of a table of predictions."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


PREDICT = ("predict", "model", "--data", "flat", "--out", "p.csv")


@pytest.mark.slow
def test_a_folder_a_class_is_fitted_scored_and_predicted_into_a_table(run, tiles):
    status, out, err = run(*FIT)
    assert status == 0
    assert err.startswith("tiles: 12 images of 4×4 pixels, grey, 8 bits\n2 classes: bright 6, dark 6\n")
    *lines, following = out.splitlines()
    shown = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in lines)
    model = et.InfiniteEnsembleClassifier.load("model")
    held, found = HeldOut.of(model), et.data.load_labelled_images("tiles")
    assert shown["Calibration error"] == f"{held.calibration_error():.3f} ({held.chance_error():.3f} by chance)"
    assert (shown["Report"], shown["Most frequent class"]) == ("model/report.html", "50.0 %")
    assert following == "next: equitangents predict model --data NEW_FOLDER --out predictions.csv"
    assert "Classifier trained on tiles" in Path("model/report.html").read_text("utf-8")
    assert model.classes_.tolist() == ["bright", "dark"]
    assert model.calibrate
    again = et.InfiniteEnsembleClassifier(model.net, ridge=1e-3, standardise=True)
    left = [
        again.fit(np.delete(found.x, i, 0), np.delete(found.y, i)).predict(found.x[i : i + 1])[0] for i in range(12)
    ]
    right = sum(a == b for a, b in zip(left, found.y, strict=True))
    assert shown["Accuracy on left-out samples (95 %)"].startswith(f"{100 * right / 12:.1f} % (")
    assert run(*PREDICT)[:2] == (0, "p.csv: predictions of 12 inputs\n")
    rows, x = table("p.csv"), et.data.load_images_like("flat", found.form).x
    assert [row["file"] for row in rows] == [f"{i:02}.png" for i in range(12)]
    assert [row["label"] for row in rows] == model.predict(x).tolist()
    np.testing.assert_allclose([float(r["probability"]) for r in rows], model.predict_proba(x).max(1), rtol=1e-5)
    assert sorted(p.name for p in tiles.iterdir()) == ["flat", "labels.csv", "model", "p.csv", "tiles"]
    assert (run(*PREDICT)[0], run(*PREDICT, "--force")[0]) == (2, 0)


def test_predictions_of_a_low_probability_are_left_open(run, tiles):
    status, out, err = run(*FIT, "--min-confidence", 0.6)
    assert status == 0, err
    model = et.InfiniteEnsembleClassifier.load("model")
    kept = HeldOut.of(model).confidence >= 0.6
    assert re.search(rf"Probability of 0.6 or more +{100 * kept.mean():.1f} %\n", out)
    assert out.splitlines()[-1].endswith("predictions.csv --min-confidence 0.6")
    p = model.predict_proba(et.data.load_images_like("flat", et.data.load_labelled_images("tiles").form).x).max(axis=1)
    least = float(np.sort(p)[5:7].mean())
    assert run(*PREDICT, "--min-confidence", least)[0] == 0
    assert [bool(row["label"]) for row in table("p.csv")] == (p >= least).tolist()
    assert run(*FIT, "--min-confidence", 1.5)[0] == 2
    status, _, err = run(*FIT, "--no-calibrate", "--min-confidence", 0.6)
    assert (status, "expected a calibrated classifier" in err, run(*FIT, "--no-calibrate")[0]) == (2, True, 0)
    status, _, err = run(*PREDICT, "--force", "--min-confidence", 0.6)
    assert (status, "expected calibrated probabilities" in err) == (2, True)


def test_a_table_of_labels_is_the_same_as_folders(tiles):
    one, other = et.data.load_labelled_images("tiles"), et.data.load_labelled_images("flat", "labels.csv")
    order = np.argsort([name.split("/")[1] for name in one.files])
    np.testing.assert_array_equal(one.x[order], other.x)
    assert one.y[order].tolist() == other.y.tolist()
    lines = (tiles / "labels.csv").read_text().replace(",", ";").splitlines()
    (tiles / "short.csv").write_text("\ufeff" + "\r\n".join(["FILE;label;by", *(f"{line};me" for line in lines[1:9])]))
    fewer = et.data.load_labelled_images("flat", "short.csv")
    assert (len(fewer), fewer.notes[0]) == (8, "4 images without a label are left out")


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(["1", "2", "3"], "i"), (["0.5", "1", "2e3"], "f"), (["01", "2", "3"], "U"), (["a", "1", "nan"], "U")],
)
def test_labels_keep_their_kind(tiles, labels, kind):
    (tiles / "t.csv").write_text("\n".join(["file,label", *(f"0{i}.png,{label}" for i, label in enumerate(labels))]))
    y = et.data.load_labelled_images("flat", "t.csv").y
    assert y.dtype.kind == kind
    assert [str(each) for each in y] == labels or kind == "f"


@pytest.mark.slow
def test_sizes_are_brought_together_and_said(run, tiles):
    wide = RNG.integers(0, 256, (4, 8), dtype=np.uint8)
    save("tiles/dark/wide.png", wide)
    found = et.data.load_labelled_images("tiles")
    assert "1 of 13 images are cut to the largest centred square and averaged down to 4×4" in found.notes[0]
    np.testing.assert_allclose(found.x[-1, ..., 0] * 255, wide[:, 2:6], atol=1e-4)
    halved = et.data.load_labelled_images("tiles", size=2)
    np.testing.assert_allclose(halved.x[-1, ..., 0] * 255, wide[:, 2:6].reshape(2, 2, 2, 2).mean((1, 3)), atol=1e-4)
    assert (run(*FIT, "--size", 2)[0], run("predict", "model", "--data", "flat", "--out", "p.csv")[0]) == (0, 0)
    status, _, err = run(*FIT, "--size", 5)
    assert (status, err.count("\n"), "size is 5" in err) == (2, 1, True)


def test_grey_images_beside_coloured_ones_are_taken_as_colours(tiles):
    coloured = RNG.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    save("tiles/dark/coloured.png", coloured)
    found = et.data.load_labelled_images("tiles")
    assert (found.form.channels, found.notes[0]) == (3, "12 grey images are taken as colours")
    np.testing.assert_allclose(found.x[-1] * 255, coloured, atol=1e-4)
    assert np.array_equal(found.x[:-1], np.tile(found.x[:-1, ..., :1], 3))


def test_exif_is_followed_and_16_bits_are_in_the_unit_interval(tiles):
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels, deep = RNG.integers(0, 256, (4, 6), dtype=np.uint8), RNG.integers(0, 65536, (4, 4)).astype(np.uint16)
    save("turned/0.png", pixels, exif=exif)
    save("turned/1.png", np.rot90(pixels, -1))
    save("deep/a.tif", deep)
    (tiles / "t.csv").write_text("file,label\n0.png,a\n1.png,b\n")
    (tiles / "d.csv").write_text("file,label\na.tif,a\n")
    found = et.data.load_labelled_images("turned", "t.csv")
    assert found.x.shape == (2, 6, 4, 1)
    np.testing.assert_array_equal(*found.x)
    found = et.data.load_labelled_images("deep", "d.csv")
    np.testing.assert_allclose(found.x[0, ..., 0], deep.astype(np.float32) / 65535)


WRONG = {
    "other size": ((5, 5), np.uint8, "is of shape (5, 5); expected (4, 4)"),
    "other channels": ((4, 4, 3), np.uint8, "has 3; expected 1; the channels of the training set"),
    "other scale": ((4, 4), np.uint16, "has '16 bits'; expected 8 bits; as the training set"),
}


@pytest.mark.slow
def test_other_data_than_the_training_set_is_told_in_one_line(run, tiles):
    run(*FIT)
    np.save("x.npy", 255 * np.ones((3, 4, 4, 1)))
    asked = [(name, "p.csv", said) for name, (*_, said) in WRONG.items()] + [("x.npy", "p.npy", "divide by 255")]
    for name, (shape, dtype, _) in WRONG.items():
        save(f"{name}/new.png", np.ones(shape, dtype))
    for name, out, said in asked:
        status, _, err = run("predict", "model", "--data", name, "--out", out)
        assert (status, err.count("\n"), said in err) == (2, 1, True), err
    assert run("predict", "model", "--data", "x.npy", "--out", "p.csv")[0] == 2


@pytest.mark.slow
def test_the_form_goes_with_the_model_it_was_written_for(run, tiles):
    run(*FIT)
    np.savez("t.npz", x=RNG.normal(size=(6, 4)), y=[0, 1] * 3)
    assert run("fit", "--data", "t.npz", "--depth", 1, "--out", "model")[0] == 0
    status, _, err = run(*PREDICT)
    assert (status, "was fitted to arrays" in err) == (2, True)
    run(*FIT)
    form = saving.about_model(tiles / "model")["images"]
    model = et.InfiniteEnsembleClassifier.load(tiles / "model")
    for broken in ({}, form | {"height": 10**9}, form | {"height": "4"}):
        saving.save(model, tiles / "model", broken)
        status, _, err = run(*PREDICT)
        assert (status, err.count("\n"), "expected a saved model that can be read" in err) == (2, 1, True), err


def test_tables_of_calibrated_models_need_no_deviations_and_chunks_follow_the_work(run, tiles, monkeypatch):
    net = "--net", "GAP", "--depth", 1, "--ridge", 1e-2, "--group", "C4"
    assert run("fit", "--data", "tiles", *net, "--out", "model")[0] == 0
    found = et.data.load_labelled_images("tiles")
    options = {"ridge": 1e-2, "augmentation": "C4", "standardise": True, "calibrate": True}
    whole = et.InfiniteEnsembleClassifier(network("GAP", 1), **options).fit(found.x, found.y)
    monkeypatch.setattr("equitangents.ensembles.streaming._WORK", 2**15)
    calls, kernel = [], OrbitAverage.kernel
    monkeypatch.setattr(OrbitAverage, "kernel", lambda k, *x: calls.append(len(x[0])) or kernel(k, *x))
    assert run("predict", "model", "--data", "tiles", "--out", "p.csv")[0] == 0
    assert max(calls) < 12
    probabilities = [float(row["probability"]) for row in table("p.csv")]
    np.testing.assert_allclose(probabilities, whole.predict_proba(found.x).max(axis=1), rtol=1e-4)


def test_files_that_cannot_be_read_are_named_and_left_out_when_asked(run, tiles):
    cut = (tiles / "tiles/dark/00.png").read_bytes()[:60]
    (tiles / "tiles/dark/cut.png").write_bytes(cut)
    (tiles / "tiles/dark/text.png").write_text("no image")
    status, _, err = run(*FIT)
    assert (status, "text.png is not a readable image" in err or "cut.png" in err, "--skip-bad" in err) == (2, 1, 1)
    status, _, err = run(*FIT, "--skip-bad")
    assert status == 0, err
    assert (err.count("skipped: "), "text.png is not a readable image" in err) == (2, True)
    assert "tiles: 12 images" in err
    (tiles / "flat/cut.png").write_bytes(cut)
    assert run(*PREDICT)[0] == 2
    status, _, err = run(*PREDICT, "--skip-bad")
    assert (status, "cut.png" in err, len(table("p.csv"))) == (0, True, 12)
    for name in "ab":
        (tiles / "none" / name).mkdir(parents=True)
        (tiles / f"none/{name}/x.png").write_bytes(b"no")
    with pytest.raises(InvalidArgumentError, match="expected images that can be read"):
        et.data.load_labelled_images("none", skip_bad=True)


TABLES = {
    "names the columns 'name,class'": "name,class\n00.png,a",
    r"expected \(file, label\); call 'filename' 'file'; call 'labels' 'label'": "filename,labels\n00.png,a",
    "line 2 of": "file,label\n../labels.csv,a",
    "expected a file in the folder of the images": "file,label\n/etc/hosts,a",
    "expected a file that exists": "file,label\nnone.png,a",
    "expected each file once": "file,label\n00.png,a\n00.png,b",
    "has no 'label'": "file,label\n00.png,",
    "has 3; expected 2, the columns of the first line": "file,label\n00.png,a,b",
    "expected a line for each image": "file,label\n",
    "not a readable image": "file,label\nfake.png,a",
}


@pytest.mark.parametrize(("match", "text"), TABLES.items())
def test_a_line_that_cannot_be_used_is_named(tiles, match, text):
    (tiles / "flat/fake.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    (tiles / "t.csv").write_text(text)
    with pytest.raises(InvalidArgumentError, match=match):
        et.data.load_labelled_images("flat", "t.csv")


def test_folders_without_classes_and_mixed_units_are_refused(tiles):
    with pytest.raises(InvalidArgumentError, match="expected a folder with a folder a class; give a table"):
        et.data.load_labelled_images("flat")
    save("tiles/dark/deep.png", np.ones((4, 4), np.uint16))
    with pytest.raises(InvalidArgumentError, match=r"has '.*'; expected .* as the first one"):
        et.data.load_labelled_images("tiles")


@pytest.mark.parametrize(
    ("name", "said"), [("large.png", "claims 6000×6000 pixels"), ("stack.tif", "several frames"), ("no.png", "no such")]
)
def test_what_a_file_claims_is_refused_before_it_is_decoded(tmp_path, name, said):
    frames = [Image.new("L", (4, 4), k) for k in range(3)]
    frames[0].save(tmp_path / "stack.tif", save_all=True, append_images=frames[1:])
    Image.new("1", (6000, 6000)).save(tmp_path / "large.png")
    content = (tmp_path / "large.png").read_bytes()
    (tmp_path / "large.png").write_bytes(content[: len(content) // 20])
    with pytest.raises(InvalidArgumentError, match=said):
        read_image(tmp_path / name, lambda image: pytest.fail("decoded"))


def test_real_numbers_in_a_table_make_a_regression_with_deviations(run, tiles):
    rows = [f"{i:02}.png,{0.1 * i + 0.05:.3f}" for i in range(12)]
    (tiles / "ages.csv").write_text("\n".join(["file,label", *rows]))
    fit = ("fit", "--data", "flat", "--targets", "ages.csv", "--depth", 1, "--ridge", 1e-3, "--out", "model")
    status, out, _ = run(*fit)
    assert (status, out.count("\n"), "Outputs" in out, run(*PREDICT)[0]) == (0, 4, True, 0)
    found = [[float(row["mean"]), float(row["std"])] for row in table("p.csv")]
    x = et.data.load_labelled_images("flat", "ages.csv").x
    mean, std = et.InfiniteEnsemble.load("model").predict(x, return_std=True)
    np.testing.assert_allclose(found, np.stack([mean, std], 1), rtol=1e-4)


def test_a_solver_without_a_decomposition_says_that_nothing_was_held_out(run, tiles):
    status, out, _ = run(*FIT, "--solver", "pcg")
    assert status == 0
    assert re.search("No left-out samples +pcg keeps no decomposition", out)
    assert re.search("Report +not made", out)
    assert "Accuracy" not in out
