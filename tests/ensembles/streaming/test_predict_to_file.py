"""predict_to_file: the numbers of predict in bounded memory, whatever interrupts it; nothing is mixed."""

from __future__ import annotations

import os
import resource
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr

import equitangents as et
import kills
from equitangents import nn
from equitangents.ensembles import predict_to_file
from equitangents.ensembles.streaming import PredictionTask
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError, StoreError
from permissions import public_folder, without_permission

NET = nn.Sequential(nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(8, 3)), RNG.normal(size=(8, 2)), RNG.normal(size=(23, 3))
MODEL, OTHER = (et.InfiniteEnsemble(NET, ridge=ridge).fit(X, Y) for ridge in (1e-3, 1.0))
CLASSIFIER = et.InfiniteEnsembleClassifier(NET, ridge=1e-3).fit(X, list("abcabcab"))


@pytest.fixture
def saved(tmp_path):
    MODEL.save(tmp_path / "model")
    return tmp_path / "model"


def read(path):
    """Arrays by name; what a .npy holds is called the mean."""
    return {"mean": np.load(path)} if path.suffix == ".npy" else dict(np.load(path))


def made_by(path):
    """0 or 1: by which model all the numbers in a file are."""
    whose = [np.allclose(read(path)["mean"], model.predict(NEW), rtol=1e-10) for model in (MODEL, OTHER)]
    assert sum(whose) == 1, "numbers of both models"
    return whose.index(True)


@pytest.mark.parametrize(("suffix", "rows"), [(".npy", 5), (".npz", 23), (".npz", 100)])
def test_every_format_holds_what_predict_gives(tmp_path, saved, suffix, rows):
    path = predict_to_file(saved, NEW, tmp_path / f"p{suffix}", rows=rows)
    found = read(path)
    assert list(found) == ["mean"]
    np.testing.assert_allclose(found["mean"], MODEL.predict(NEW), rtol=1e-10)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model", f"p{suffix}"]


def test_standard_deviations_and_other_times_come_with_the_whole_model(tmp_path, saved):
    mean, std = MODEL.predict(NEW, time=2.0, return_std=True)
    found = read(predict_to_file(saved, NEW, tmp_path / "p.npz", time=2.0, return_std=True, rows=7))
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-10)
    np.testing.assert_allclose(found["std"], std, rtol=1e-10)


@pytest.mark.parametrize("return_std", [False, True])
def test_probabilities_of_calibrated_classifiers_need_no_deviations(tmp_path, return_std):
    model = et.InfiniteEnsembleClassifier(NET, ridge=1e-3, calibrate=True).fit(X, list("abcabcab"))
    found = read(predict_to_file(model, NEW, tmp_path / "p.npz", probabilities=True, return_std=return_std, rows=7))
    np.testing.assert_allclose(found["probability"], model.predict_proba(NEW), rtol=1e-10)
    assert ("std" in found) == return_std
    for other, time_ in ((CLASSIFIER, None), (MODEL, None), (model, 2.0)):
        with pytest.raises(InvalidArgumentError, match="probabilities is True"):
            predict_to_file(other, NEW, tmp_path / "q.npz", probabilities=True, time=time_)


def test_one_column_of_targets_gives_one_column_of_means(tmp_path):
    model = et.InfiniteEnsemble(NET, ridge=1e-3).fit(X, Y[:, 0])
    assert np.load(predict_to_file(model, NEW, tmp_path / "p.npy", rows=5)).shape == (23,)


def test_a_classifier_gives_labels(tmp_path):
    labels = np.load(predict_to_file(CLASSIFIER, NEW, tmp_path / "p.npy", rows=5))
    found = read(predict_to_file(CLASSIFIER, NEW, tmp_path / "p.npz", rows=5, return_std=True))
    np.testing.assert_allclose(found["probability"], CLASSIFIER.predict_proba(NEW), atol=1e-9)
    assert labels.tolist() == found["label"].tolist() == CLASSIFIER.predict(NEW).tolist()


def test_labels_beyond_signed_numbers_stay_themselves(tmp_path):
    labels = np.array([2**63 + 5, 7, 2**64 - 1, 7] * 2, np.uint64)
    model = et.InfiniteEnsembleClassifier(NET, ridge=1e-3).fit(X, labels)
    for _ in range(2):  # the second finds it whole
        path = predict_to_file(model, X, tmp_path / "p.npy", rows=5)
    np.testing.assert_array_equal(np.load(path), model.predict(X))


@pytest.mark.parametrize("of_a_folder", [False, True])
def test_inputs_of_a_model_that_standardises_are_not_rounded_before(tmp_path, of_a_folder):
    x, new = X + 1e7, NEW + 1e7
    model = et.InfiniteEnsemble(NET, ridge=1e-1, standardise=True).fit(x.astype(np.float32), Y)
    model.save(tmp_path / "model")
    given = tmp_path / "model" if of_a_folder else model
    for i, (inputs, std) in enumerate([(new, False), (new, True), (new.astype(np.float32), False)]):
        found = read(predict_to_file(given, inputs, tmp_path / f"{i}.npz", return_std=std))["mean"]
        np.testing.assert_allclose(found, model.predict(inputs), rtol=1e-4, atol=1e-5)


def test_inputs_may_be_memory_maps_zarr_flattened_or_of_another_precision(tmp_path):
    net = nn.Sequential(nn.Flatten(), *NET.layers)
    model = et.InfiniteEnsemble(net, ridge=1e-3).fit(X.reshape(8, 3, 1).astype(np.float32), Y)
    np.save(tmp_path / "x.npy", NEW)
    group = zarr.create_array(tmp_path / "x.zarr", shape=NEW.shape, dtype="float64", chunks=(4, 3))
    group[:] = NEW
    wanted = model.predict(NEW.reshape(23, 3, 1).astype(np.float32))
    for i, x in enumerate([np.load(tmp_path / "x.npy", mmap_mode="r"), group]):
        path = predict_to_file(model, x, tmp_path / f"{i}.npy", rows=5)
        np.testing.assert_allclose(np.load(path), wanted, rtol=1e-5)


@pytest.fixture
def predicted(monkeypatch):
    """The chunks that are predicted, and after how many of them it is interrupted."""

    class Chunks(list):
        left = None

    found, predict = Chunks(), PredictionTask.predict

    def counted(task, chunk):
        if found.left is not None and len(found) == found.left:
            raise KeyboardInterrupt
        found.append(chunk)
        return predict(task, chunk)

    monkeypatch.setattr(PredictionTask, "predict", counted)
    return found


class TestInterrupted:
    def test_predictions_go_on_with_the_chunks_that_are_missing(self, tmp_path, predicted):
        predicted.left = 3
        with pytest.raises(KeyboardInterrupt):
            predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5)
        assert not (tmp_path / "p.npy").exists()
        predicted.left = None
        predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5)
        assert predicted == [0, 1, 2, 3, 4]
        assert made_by(tmp_path / "p.npy") == 0

    @pytest.mark.parametrize("more", [{}, {"rows": 6}, {"time": 1.0}])
    def test_chunks_of_other_predictions_are_not_mixed(self, tmp_path, predicted, more):
        predicted.left = 3
        with pytest.raises(KeyboardInterrupt):
            predict_to_file(MODEL, NEW, tmp_path / "p.npz", rows=5)
        predicted.left = None
        model, at = (MODEL if more else OTHER), more.get("time")
        found = read(predict_to_file(model, NEW, tmp_path / "p.npz", **{"rows": 5, **more}))
        np.testing.assert_allclose(found["mean"], model.predict(NEW, time=at), rtol=1e-10)
        assert len(predicted) > 5
        assert [file.name for file in tmp_path.iterdir()] == ["p.npz"]

    @pytest.mark.parametrize("spoil", [Path.unlink, lambda file: file.write_bytes(file.read_bytes()[:-90] + b"x" * 90)])
    def test_a_chunk_that_is_damaged_or_gone_is_predicted_again(self, tmp_path, predicted, monkeypatch, spoil):
        for shard in (0, 1):
            predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5, shard=(shard, 3))
        assemble = PredictionTask.assemble
        monkeypatch.setattr(PredictionTask, "assemble", lambda task: (spoil(task.path(2)), assemble(task)))
        predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5)
        assert sorted(predicted) == [0, 1, 2, 2, 3, 4]
        assert made_by(tmp_path / "p.npy") == 0

    def test_shards_make_one_file(self, tmp_path):
        predict_to_file(MODEL, NEW, tmp_path / "whole.npy", rows=5)
        for i in (2, 0, 1):
            assert not (tmp_path / "p.npy").exists()
            predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5, shard=(i, 3))
        assert (tmp_path / "p.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["p.npy", "p.npz"])
    def test_kill_9_at_any_write_changes_no_byte(self, tmp_path, saved, name):
        np.save(tmp_path / "x.npy", NEW)
        assert kills.run("ensembles.streaming.predict_killed", tmp_path, name) == 7
        whole = predict_to_file(saved, NEW, tmp_path / f"whole{Path(name).suffix}", rows=2)
        assert (tmp_path / name).read_bytes() == whole.read_bytes()
        assert {path.name for path in tmp_path.iterdir()} == {"model", "x.npy", name, whole.name}


class TestTwoProcesses:
    @pytest.mark.parametrize("model", [MODEL, OTHER])
    @pytest.mark.parametrize("chunk", [0, 4])
    def test_another_one_that_makes_the_file_meanwhile_does_no_harm(self, tmp_path, monkeypatch, model, chunk):
        out, predict = tmp_path / "p.npz", PredictionTask.predict

        def raced(task, number):
            if number == chunk:
                monkeypatch.undo()
                predict_to_file(model, NEW, out, rows=5)
            return predict(task, number)

        monkeypatch.setattr(PredictionTask, "predict", raced)
        if model is OTHER:
            with pytest.raises(StoreError, match="expected a new path, or one that holds these predictions"):
                predict_to_file(MODEL, NEW, out, rows=5)
            assert made_by(out) == 1
            predict_to_file(MODEL, NEW, out, rows=5, force=True)
        else:
            predict_to_file(MODEL, NEW, out, rows=5)
        assert made_by(out) == 0
        assert [file.name for file in tmp_path.iterdir()] == ["p.npz"]

    @pytest.mark.slow
    def test_of_two_models_at_once_leave_one_whole_file(self, tmp_path):
        for turn in range(12):
            out, start, children = tmp_path / f"{turn}{('.npy', '.npz')[turn % 2]}", time.monotonic() + 0.1, {}
            for process in range(4):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of forking beside threads
                    child = os.fork()
                if child == 0:
                    os._exit(_outcome(out, (MODEL, OTHER)[process % 2], start))
                children[child] = process % 2
            ends = [(which, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) for child, which in children.items()]
            winner = made_by(out)
            assert all(code == (0 if which == winner else 3) for which, code in ends)
            there = {path.name.removesuffix(".parts") for path in tmp_path.iterdir()}
            assert there == {f"{number}{('.npy', '.npz')[number % 2]}" for number in range(turn + 1)}


def _outcome(out, model, start):
    """0 where the file was made, 3 where it was refused in one line, 1 for all else."""
    try:
        time.sleep(max(0.0, start - time.monotonic()))
        predict_to_file(model, NEW, out, rows=3)
    except StoreError as error:
        return 1 if "\n" in str(error) else 3
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


class TestAFileThatIsThere:
    def test_is_kept_unless_it_may_be_replaced(self, tmp_path):
        (tmp_path / "p.npy").write_text("mine")
        with pytest.raises(StoreError, match=r"p\.npy.*; expected a new path.*--force"):
            predict_to_file(MODEL, NEW, tmp_path / "p.npy")
        assert (tmp_path / "p.npy").read_text() == "mine"
        predict_to_file(MODEL, NEW, tmp_path / "p.npy", force=True)
        assert made_by(tmp_path / "p.npy") == 0

    @pytest.mark.parametrize("name", ["p.npy", "p.npz"])
    def test_with_these_predictions_is_whole_for_whoever_starts_again(self, tmp_path, predicted, caplog, name):
        caplog.set_level("INFO", "equitangents")
        path = tmp_path / name
        predict_to_file(CLASSIFIER, NEW, path, rows=5)
        before = path.stat().st_ino, path.read_bytes()
        predicted.left = 5
        assert predict_to_file(CLASSIFIER, NEW, path, rows=5) == path
        assert "is there already, whole, for this model and these inputs" in caplog.text
        predict_to_file(CLASSIFIER, NEW, path, rows=5, force=True)
        assert before == (path.stat().st_ino, path.read_bytes())
        other = et.InfiniteEnsembleClassifier(NET, ridge=1e-2).fit(X, list("abcabcab"))
        for model, x, changed in ((other, NEW, {}), (CLASSIFIER, NEW + 1, {}), (CLASSIFIER, NEW, {"time": 3.0})):
            with pytest.raises(StoreError, match="expected a new path, or one that holds these predictions"):
                predict_to_file(model, x, path, rows=5, **changed)
        path.write_bytes(before[1][:-20] + b"\0" + before[1][-19:])
        with pytest.raises(StoreError, match="expected a new path, or one that holds these predictions"):
            predict_to_file(CLASSIFIER, NEW, path, rows=5)
        predicted.left = None
        predict_to_file(CLASSIFIER, NEW, path, rows=5, force=True)
        assert path.read_bytes() == before[1]

    def test_under_the_names_of_ours_is_kept(self, tmp_path):
        (tmp_path / "p.npy.parts").mkdir()
        (tmp_path / "p.npy.parts" / "mine").write_text("mine")
        predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5)
        assert (tmp_path / "p.npy.parts" / "mine").read_text() == "mine"
        (tmp_path / "q.npy").mkdir()
        (tmp_path / "r.npy.parts").write_text("mine")
        for name in ("q.npy", "r.npy"):
            with pytest.raises(StoreError, match=r"expected a new path|Not a directory"):
                predict_to_file(MODEL, NEW, tmp_path / name, force=True)
        assert (tmp_path / "r.npy.parts").read_text() == "mine"


class TestTheDisk:
    def test_that_is_full_is_one_line_and_what_was_predicted_is_kept(self, tmp_path):
        x = np.tile(NEW, (10, 1))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
        try:
            with pytest.raises(StoreError, match=r"cannot be written: File too large.* is kept") as error:
                predict_to_file(MODEL, x, tmp_path / "p.npy", rows=50)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "\n" not in str(error.value)
        assert len(list((tmp_path / "p.npy.parts").glob("*/*.npz"))) == 5
        assert not (tmp_path / "p.npy").exists()
        predict_to_file(MODEL, x, tmp_path / "p.npy", rows=50)
        np.testing.assert_allclose(np.load(tmp_path / "p.npy")[-23:], MODEL.predict(NEW), rtol=1e-10)

    def test_without_room_is_said_before_anything_is_predicted(self, tmp_path, monkeypatch, predicted):
        monkeypatch.setattr("shutil.disk_usage", lambda path: type("Disk", (), {"free": 100}))
        with pytest.raises(StoreError, match="the disk has 100 B left; make room"):
            predict_to_file(MODEL, NEW, tmp_path / "p.npy")
        assert not predicted


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_inputs(tmp_path, monkeypatch):
    largest = []
    outputs = MODEL._training.kernel.kernel
    monkeypatch.setattr(
        type(NET), "kernel", lambda self, a, b=None, engine=None: largest.append(len(a)) or outputs(a, b)
    )
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, (40_000, 3))
    x[:] = np.random.default_rng(1).normal(size=x.shape)
    predict_to_file(MODEL, x, tmp_path / "p.npy")
    assert max(largest) <= 16384
    np.testing.assert_allclose(np.load(tmp_path / "p.npy")[-9:], MODEL.predict(np.array(x[-9:])), rtol=1e-10)


def test_progress_counts_chunks_and_says_the_time_left(tmp_path):
    told = []
    predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5, progress=lambda *now: told.append(now))
    assert [now[:2] for now in told] == [(i, 5) for i in range(1, 6)]
    assert told[-1][2] == 0
    assert told[0][2] > 0


class TestBadInput:
    def test_nan_is_refused_with_its_row_before_anything_is_predicted(self, tmp_path):
        x = NEW.copy()
        x[17, 1] = np.nan
        with pytest.raises(NotFiniteError, match=r"x holds NaN or infinite values, the first at index \(17, 1\)"):
            predict_to_file(MODEL, x, tmp_path / "p.npy", rows=5)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ((MODEL, NEW[:, :2], "p.npy"), ShapeError, r"of shape \(2,\); expected \(3,\); .*fitted to"),
            ((MODEL, NEW, "p.csv"), InvalidArgumentError, r"ends in \.npy or \.npz"),
            (("nowhere", NEW, "p.npy"), StoreError, "the folder of a saved model"),
            ((NET, NEW, "p.npy"), InvalidTypeError, "expected a fitted infinite ensemble, or the folder"),
            ((et.InfiniteEnsemble(NET), NEW, "p.npy"), ValueError, "not fitted"),
        ],
    )
    def test_is_said(self, tmp_path, arguments, error, message):
        model, x, name = arguments
        with pytest.raises(error, match=message):
            predict_to_file(model, x, tmp_path / name)

    @pytest.mark.parametrize(
        ("name", "value"), [("rows", 0), ("shard", (2, 2)), ("time", [1.0, 2.0]), ("time", -1), ("path", ".npz")]
    )
    def test_of_other_arguments_is_named(self, tmp_path, name, value):
        more = {"return_std": True} if name == "path" else {name: value}  # a .npy holds one array
        with pytest.raises(InvalidArgumentError, match=name):
            predict_to_file(MODEL, NEW, tmp_path / "p.npy", **more)


def test_into_a_folder_that_may_not_be_written_it_says_that_nothing_is_kept():
    with public_folder() as folder, without_permission(folder), pytest.raises(StoreError) as refused:
        predict_to_file(MODEL, NEW, folder / "out.npy")
    assert "cannot be written" in str(refused.value)
    assert str(refused.value).endswith("nothing is kept")
