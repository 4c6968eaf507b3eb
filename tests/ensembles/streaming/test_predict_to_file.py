"""predict_to_file: the numbers of predict in bounded memory, whatever interrupts it; nothing is mixed."""

from __future__ import annotations

import errno
import resource
import shutil
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import zarr

import equitangents as et
import kills
from ensembles.streaming.reading import read
from equitangents import nn
from equitangents.ensembles import predict_to_file
from equitangents.ensembles.streaming import to_file
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError, StoreError
from equitangents.locks import alone
from permissions import public_folder, without_permission

NET = nn.Sequential(nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(8, 3)), RNG.normal(size=(8, 2)), RNG.normal(size=(23, 3))
MODEL = et.InfiniteEnsemble(NET, ridge=1e-3).fit(X, Y)
CLASSIFIER = et.InfiniteEnsembleClassifier(NET, ridge=1e-3).fit(X, list("abcabcab"))


@pytest.fixture
def saved(tmp_path):
    MODEL.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".zarr"])
@pytest.mark.parametrize("rows", [5, 23, 100])
def test_every_format_holds_what_predict_gives(tmp_path, saved, suffix, rows):
    path = predict_to_file(saved, NEW, tmp_path / f"p{suffix}", rows=rows)
    found = read(path)
    assert list(found) == ["mean"]
    np.testing.assert_allclose(found["mean"], MODEL.predict(NEW), rtol=1e-10)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model", f"p{suffix}"]


def test_standard_deviations_and_other_times_come_with_the_whole_model(tmp_path, saved):
    mean, std = MODEL.predict(NEW, time=2.0, return_std=True)
    for suffix in (".npz", ".zarr"):
        found = read(predict_to_file(saved, NEW, tmp_path / f"p{suffix}", time=2.0, return_std=True, rows=7))
        np.testing.assert_allclose(found["mean"], mean, rtol=1e-10)
        np.testing.assert_allclose(found["std"], std, rtol=1e-10)
    predict_to_file(MODEL, NEW, tmp_path / "q.npy", time=2.0, return_std=True, rows=7)
    np.testing.assert_allclose(np.load(tmp_path / "q-std.npy"), std, rtol=1e-10)


@pytest.mark.parametrize("return_std", [False, True])
def test_probabilities_of_calibrated_classifiers_need_no_deviations(tmp_path, return_std):
    model = et.InfiniteEnsembleClassifier(NET, ridge=1e-3, calibrate=True).fit(X, list("abcabcab"))
    found = read(predict_to_file(model, NEW, tmp_path / "p.npz", probabilities=True, return_std=return_std, rows=7))
    np.testing.assert_allclose(found["probability"], model.predict_proba(NEW), rtol=1e-10)
    assert ("std" in found) == return_std
    for other, time in ((CLASSIFIER, None), (MODEL, None), (model, 2.0)):
        with pytest.raises(InvalidArgumentError, match="probabilities is True"):
            predict_to_file(other, NEW, tmp_path / "q.npz", probabilities=True, time=time)


def test_one_column_of_targets_gives_one_column_of_means(tmp_path):
    model = et.InfiniteEnsemble(NET, ridge=1e-3).fit(X, Y[:, 0])
    assert np.load(predict_to_file(model, NEW, tmp_path / "p.npy", rows=5)).shape == (23,)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".zarr"])
def test_a_classifier_gives_labels(tmp_path, suffix):
    path = predict_to_file(CLASSIFIER, NEW, tmp_path / f"p{suffix}", rows=5, return_std=suffix != ".npy")
    found = read(path)
    if suffix == ".npy":
        assert found["mean"].tolist() == CLASSIFIER.predict(NEW).tolist()
        return
    np.testing.assert_allclose(found["probability"], CLASSIFIER.predict_proba(NEW), atol=1e-9)
    classes = np.array(zarr.open_group(path).attrs["classes"]) if suffix == ".zarr" else None
    labels = found["label"] if classes is None else classes[found["label"]]
    assert labels.tolist() == CLASSIFIER.predict(NEW).tolist()


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".zarr"])
def test_labels_beyond_signed_numbers_stay_themselves(tmp_path, suffix):
    labels = np.array([2**63 + 5, 7, 2**64 - 1, 7] * 2, np.uint64)
    model = et.InfiniteEnsembleClassifier(NET, ridge=1e-3).fit(X, labels)
    for _ in range(2):  # the second finds it whole
        path = predict_to_file(model, X, tmp_path / f"p{suffix}", rows=5)
    found = read(path)["mean" if suffix == ".npy" else "label"]
    if suffix == ".zarr":
        found = np.array(zarr.open_group(path).attrs["classes"], np.uint64)[found]
    np.testing.assert_array_equal(found, model.predict(X))


@pytest.mark.parametrize("of_a_folder", [False, True])
def test_inputs_of_a_model_that_standardises_are_not_rounded_before(tmp_path, of_a_folder):
    x, new = X + 1e7, NEW + 1e7
    model = et.InfiniteEnsemble(NET, ridge=1e-1, standardise=True).fit(x.astype(np.float32), Y)
    model.save(tmp_path / "model")
    given = tmp_path / "model" if of_a_folder else model
    for i, (inputs, std) in enumerate([(new, False), (new, True), (new.astype(np.float32), False)]):
        found = np.load(predict_to_file(given, inputs, tmp_path / f"{i}.npy", return_std=std))
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


class TestInterrupted:
    def interrupt(self, monkeypatch, after):
        """Predictions stop after so many chunks."""
        left, call = [after], to_file._predict_chunk

        def counting(*arguments):
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            call(*arguments)

        monkeypatch.setattr(to_file, "_predict_chunk", counting)
        return lambda: after - left[0]

    def test_predictions_go_on_with_the_chunks_that_are_missing(self, tmp_path, monkeypatch):
        with monkeypatch.context() as patch:
            self.interrupt(patch, 3)
            with pytest.raises(KeyboardInterrupt):
                predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5)
        assert not (tmp_path / "p.npy").exists()
        done = self.interrupt(monkeypatch, 2)
        predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5)
        assert done() == 2
        np.testing.assert_allclose(np.load(tmp_path / "p.npy"), MODEL.predict(NEW), rtol=1e-10)

    @pytest.mark.parametrize("suffix", [".npy", ".npz", ".zarr"])
    @pytest.mark.parametrize("when", [0, 2, "end"])
    def test_another_process_that_makes_the_file_meanwhile_does_no_harm(self, tmp_path, monkeypatch, suffix, when):
        call, out = to_file._predict_chunk, tmp_path / f"p{suffix}"

        def other():
            monkeypatch.setattr(to_file, "_predict_chunk", call)
            predict_to_file(MODEL, NEW, out, rows=5)

        def raced(parts, chunk, *rest):
            if chunk == when:
                other()
            call(parts, chunk, *rest)
            if (chunk, when) == (4, "end"):
                other()

        monkeypatch.setattr(to_file, "_predict_chunk", raced)
        path = predict_to_file(MODEL, NEW, out, rows=5)
        np.testing.assert_allclose(read(path)["mean"], MODEL.predict(NEW), rtol=1e-10)
        assert [file.name for file in tmp_path.iterdir()] == [f"p{suffix}"]

    def test_a_process_that_comes_last_waits_for_the_one_that_makes_the_file(self, tmp_path, monkeypatch):
        out, lock, at_it = tmp_path / "p.npy", tmp_path / ".p.npy.finishing", ExitStack()
        made = predict_to_file(MODEL, NEW, tmp_path / "other.npy").read_bytes()

        def all_there(parts, *rest):
            predict(parts, *rest)
            at_it.enter_context(alone(lock, "it is held"))

        def other(seconds):
            shutil.rmtree(tmp_path / "p.npy.parts")
            out.write_bytes(made)
            at_it.close()

        predict = to_file._predict
        monkeypatch.setattr(to_file, "_predict", all_there)
        monkeypatch.setattr(to_file, "sleep", other)
        assert predict_to_file(MODEL, NEW, out, rows=5) == out
        assert sorted(file.name for file in tmp_path.iterdir()) == ["other.npy", "p.npy"]

    def test_parts_into_which_another_process_writes_are_removed_when_it_has(self, tmp_path, monkeypatch):
        remove, attempts = shutil.rmtree, []

        def busy(folder, *arguments, **keywords):
            if Path(folder).name == "p.npy.parts" and not attempts:
                attempts.append(folder)
                raise OSError(errno.ENOTEMPTY, "Directory not empty", str(folder))
            remove(folder, *arguments, **keywords)

        monkeypatch.setattr(shutil, "rmtree", busy)
        predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5)
        assert attempts
        assert [file.name for file in tmp_path.iterdir()] == ["p.npy"]

    def test_chunks_that_vanish_are_said(self, tmp_path, monkeypatch):
        predict = to_file._predict
        vanish = lambda parts: [file.unlink() for file in parts.group.glob("*.npz")]
        monkeypatch.setattr(to_file, "_predict", lambda parts, *all: (predict(parts, *all), vanish(parts)))
        with pytest.raises(StoreError, match="5 chunks that were there are gone"):
            predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5)

    def test_chunks_of_other_predictions_are_not_mixed_and_can_be_removed(self, tmp_path, monkeypatch):
        with monkeypatch.context() as patch:
            self.interrupt(patch, 1)
            with pytest.raises(KeyboardInterrupt):
                predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5)
        other = et.InfiniteEnsemble(NET, ridge=1e-2).fit(X, Y)
        for said, model, x, more in [
            ("the model", other, NEW, {}),
            ("the inputs", MODEL, NEW + 1, {}),
            ("the rows of a chunk", MODEL, NEW, {"rows": 6}),
            ("the training time", MODEL, NEW, {"time": 1.0}),
            ("what is predicted", MODEL, NEW, {"return_std": True}),
        ]:
            with pytest.raises(StoreError, match=rf"which differ in {said};.*--restart"):
                predict_to_file(model, x, tmp_path / "p.npy", **{"rows": 5, **more})
        predict_to_file(other, NEW, tmp_path / "p.npy", rows=5, restart=True)
        np.testing.assert_allclose(np.load(tmp_path / "p.npy"), other.predict(NEW), rtol=1e-10)

    def test_a_damaged_chunk_is_predicted_again(self, tmp_path):
        predict_to_file(MODEL, NEW, tmp_path / "whole.npy", rows=5)
        predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5, shard=(0, 2))
        (file,) = (tmp_path / "p.npy.parts").glob("*/2.npz")
        file.write_bytes(file.read_bytes()[:300] + b"\1" + file.read_bytes()[301:])
        predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5)
        np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), np.load(tmp_path / "whole.npy"))

    def test_shards_make_one_file(self, tmp_path):
        predict_to_file(MODEL, NEW, tmp_path / "whole.npy", rows=5)
        for i in (2, 0, 1):
            assert not (tmp_path / "p.npy").exists()
            predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5, shard=(i, 3))
        assert (tmp_path / "p.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "name", ["p.npy", *(pytest.param(f"p.{f}", marks=pytest.mark.slow) for f in ("npz", "zarr"))]
    )
    def test_kill_9_at_any_write_changes_no_byte(self, tmp_path, saved, name):
        np.save(tmp_path / "x.npy", NEW)
        assert kills.run("ensembles.streaming.predict_killed", tmp_path, name) == 7
        whole = predict_to_file(saved, NEW, tmp_path / f"whole{Path(name).suffix}", rows=5)
        for key, values in read(tmp_path / name).items():
            np.testing.assert_array_equal(values, read(whole)[key])
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"model", "x.npy", name, whole.name}


class TestAFileThatIsThere:
    def test_is_kept_unless_it_may_be_replaced(self, tmp_path):
        (tmp_path / "p.npy").write_text("mine")
        with pytest.raises(StoreError, match=r"p\.npy exists; .*--force"):
            predict_to_file(MODEL, NEW, tmp_path / "p.npy")
        assert (tmp_path / "p.npy").read_text() == "mine"
        predict_to_file(MODEL, NEW, tmp_path / "p.npy", force=True)
        np.testing.assert_allclose(np.load(tmp_path / "p.npy"), MODEL.predict(NEW), rtol=1e-10)

    def test_of_zarr_with_these_predictions_is_complete(self, tmp_path, monkeypatch):
        predict_to_file(MODEL, NEW, tmp_path / "p.zarr", rows=5)
        monkeypatch.setattr(to_file, "_predict_chunk", None)
        predict_to_file(MODEL, NEW, tmp_path / "p.zarr", rows=5)
        with pytest.raises(StoreError, match="exists"):
            predict_to_file(MODEL, NEW + 1, tmp_path / "p.zarr", rows=5)

    @pytest.mark.parametrize("name", ["p.npy", "p.npz", "p.zarr"])
    def test_with_these_predictions_is_whole_for_whoever_starts_again(self, tmp_path, monkeypatch, caplog, name):
        caplog.set_level("INFO", "equitangents")
        path = tmp_path / name
        deviations = {"return_std": name != "p.zarr"}
        predict_to_file(CLASSIFIER, NEW, path, rows=5, **deviations)
        before = {file: (file.stat().st_ino, file.read_bytes()) for file in tmp_path.rglob("*") if file.is_file()}
        with monkeypatch.context() as patch:
            patch.setattr(to_file, "_predict_chunk", None)
            assert predict_to_file(CLASSIFIER, NEW, path, rows=5, **deviations) == path
        assert "is there already, whole, for this model and these inputs" in caplog.text
        assert before == {f: (f.stat().st_ino, f.read_bytes()) for f in tmp_path.rglob("*") if f.is_file()}
        other = et.InfiniteEnsembleClassifier(NET, ridge=1e-2).fit(X, list("abcabcab"))
        for model, x, changed in ((other, NEW, {}), (CLASSIFIER, NEW + 1, {}), (CLASSIFIER, NEW, {"time": 3.0})):
            with pytest.raises(StoreError, match="exists; it does not hold these predictions"):
                predict_to_file(model, x, path, rows=5, **deviations | changed)
        largest = max(before, key=lambda file: len(before[file][1]))
        largest.write_bytes(before[largest][1][:-20] + b"\0" + before[largest][1][-19:])
        with pytest.raises(StoreError, match="exists; it does not hold these predictions"):
            predict_to_file(CLASSIFIER, NEW, path, rows=5, **deviations)
        predict_to_file(CLASSIFIER, NEW, path, rows=5, force=True, **deviations)
        assert predict_to_file(CLASSIFIER, NEW, path, rows=5, **deviations) == path

    @pytest.mark.slow
    def test_of_other_content_under_the_same_names_is_not_these(self, tmp_path):
        graphs = [np.eye(3)[order] + np.eye(3) for order in ([1, 0, 2], [0, 2, 1])]
        nets = [nn.Sequential(nn.Aggregate(graph), nn.Flatten(), *NET.layers) for graph in graphs]
        networks = [et.InfiniteEnsemble(net, ridge=1e-1).fit(X[:, :, None], Y) for net in nets]
        names = [et.InfiniteEnsembleClassifier(NET, ridge=1e-1).fit(X, list(text)) for text in ("abcabcab", "defdefde")]
        for kind, ((one, other), x) in enumerate([(networks, NEW[:, :, None]), (names, NEW)]):
            path = predict_to_file(one, x, tmp_path / f"{kind}.npy")
            with pytest.raises(StoreError, match="does not hold these predictions"):
                predict_to_file(other, x, path)
            predict_to_file(one, x, tmp_path / f"parts{kind}.npy", rows=5, shard=(0, 2))
            with pytest.raises(StoreError, match="which differ in the model"):
                predict_to_file(other, x, tmp_path / f"parts{kind}.npy", rows=5, shard=(1, 2))
            found = np.load(predict_to_file(other, x, path, force=True))
            assert np.array_equal(found, other.predict(x)) or np.allclose(found, other.predict(x), rtol=1e-10)

    def test_of_these_very_predictions_is_made_anew_where_that_is_asked(self, tmp_path, monkeypatch):
        path = predict_to_file(MODEL, NEW, tmp_path / "p.npy", rows=5)
        done = []
        call = to_file._predict_chunk
        monkeypatch.setattr(to_file, "_predict_chunk", lambda *a: (done.append(a[1]), call(*a)))
        for asked, chunks in [
            ({}, 0),
            ({"restart": True}, 0),
            ({"force": True}, 0),
            ({"force": True, "restart": True}, 5),
        ]:
            predict_to_file(MODEL, NEW, path, rows=5, **asked)
            assert len(done) == chunks

    def test_under_names_that_once_were_ours_is_kept(self, tmp_path):
        (tmp_path / ".p.zarr.old").mkdir()
        (tmp_path / ".p.zarr.old" / "mine").write_text("mine")
        for ridge in (1e-3, 1e-2):
            model = et.InfiniteEnsemble(NET, ridge=ridge).fit(X, Y)
            predict_to_file(model, NEW, tmp_path / "p.zarr", force=True)
        assert (tmp_path / ".p.zarr.old" / "mine").read_text() == "mine"
        assert sorted(file.name for file in tmp_path.iterdir()) == [".p.zarr.old", "p.zarr"]
        (tmp_path / "q.zarr").mkdir()
        (tmp_path / "q.zarr" / "mine").write_text("mine")
        with pytest.raises(StoreError, match="expected a folder of Zarr"):
            predict_to_file(MODEL, NEW, tmp_path / "q.zarr", force=True)
        (tmp_path / "r.npy.parts").mkdir()
        (tmp_path / "r.npy.parts" / "mine").write_text("mine")
        with pytest.raises(StoreError, match="in the way of predictions"):
            predict_to_file(MODEL, NEW, tmp_path / "r.npy", restart=True)
        assert (tmp_path / "r.npy.parts" / "mine").read_text() == "mine"

    def test_where_the_parts_go_is_kept(self, tmp_path):
        (tmp_path / "p.npy.parts").mkdir()
        (tmp_path / "p.npy.parts" / "mine").write_text("mine")
        with pytest.raises(StoreError, match="in the way of predictions"):
            predict_to_file(MODEL, NEW, tmp_path / "p.npy")


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

    def test_without_room_is_said_before_anything_is_predicted(self, tmp_path, monkeypatch):
        monkeypatch.setattr("shutil.disk_usage", lambda path: type("Disk", (), {"free": 100}))
        monkeypatch.setattr(to_file, "_predict_chunk", None)
        with pytest.raises(StoreError, match="the disk has 100 B left; make room"):
            predict_to_file(MODEL, NEW, tmp_path / "p.npy")


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
        ("arguments", "error", "said"),
        [
            ((MODEL, NEW[:, :2], "p.npy"), ShapeError, r"of shape \(2,\); the model was fitted to .* \(3,\)"),
            ((MODEL, NEW, "p.csv"), InvalidArgumentError, r"ends in \.npy, \.npz or \.zarr"),
            (("nowhere", NEW, "p.npy"), StoreError, "is not a model that was saved"),
            ((NET, NEW, "p.npy"), InvalidTypeError, "expected a fitted infinite ensemble, or the folder"),
            ((et.InfiniteEnsemble(NET), NEW, "p.npy"), ValueError, "not fitted"),
        ],
    )
    def test_is_said(self, tmp_path, arguments, error, said):
        model, x, name = arguments
        with pytest.raises(error, match=said):
            predict_to_file(model, x, tmp_path / name)

    @pytest.mark.parametrize(("name", "value"), [("rows", 0), ("shard", (2, 2)), ("time", [1.0, 2.0]), ("time", -1)])
    def test_of_other_arguments_is_named(self, tmp_path, name, value):
        with pytest.raises(InvalidArgumentError, match=name):
            predict_to_file(MODEL, NEW, tmp_path / "p.npy", **{name: value})


def test_into_a_folder_that_may_not_be_written_it_says_that_nothing_is_kept():
    x = np.random.default_rng(0).normal(size=(4, 3))
    model = et.InfiniteEnsemble(nn.Sequential(nn.Dense(8), nn.Relu(), nn.Dense(1)), time=float("inf")).fit(x, x[:, 0])
    with public_folder() as folder, without_permission(folder), pytest.raises(StoreError) as refused:
        predict_to_file(model, x, folder / "out.npy")
    assert "cannot be written" in str(refused.value)
    assert str(refused.value).endswith("nothing is kept")
