"""Two models that predict into one file at one time: one makes it, the other is refused, and nothing is mixed."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
import warnings

import numpy as np
import pytest

import equitangents as et
from ensembles.streaming.reading import read
from equitangents import nn
from equitangents.ensembles import predict_to_file
from equitangents.ensembles.streaming import formats, to_file
from equitangents.ensembles.streaming.parts import OtherPredictionsError, Parts, read_record
from equitangents.errors import StoreError

NET = nn.Sequential(nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(8, 3)), RNG.normal(size=(8, 2)), RNG.normal(size=(12, 3))
ONE, TWO = (et.InfiniteEnsemble(NET, ridge=ridge).fit(X, Y) for ridge in (1e-3, 1.0))
WANTED = [model.predict(NEW) for model in (ONE, TWO)]
SUFFIXES = [".npy", *(pytest.param(suffix, marks=pytest.mark.slow) for suffix in (".npz", ".zarr"))]


def made_by(path):
    """0 or 1: whose predictions all the numbers in a file are."""
    found = read(path)["mean"]
    whose = [np.allclose(found, wanted, rtol=1e-10) for wanted in WANTED]
    assert sum(whose) == 1, "numbers of both models"
    return whose.index(True)


def other(path, chunks, **options):
    """The second model predicts into the file, and stops before chunk number `chunks`, if that is not None."""

    def stopping(parts, chunk, *rest):
        if chunk == chunks:
            raise KeyboardInterrupt
        predict(parts, chunk, *rest)

    predict = to_file._predict_chunk
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(to_file, "_predict_chunk", stopping)
        with contextlib.suppress(KeyboardInterrupt):
            predict_to_file(TWO, NEW, path, rows=3, **options)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(("at", "chunks"), [(0, None), (2, None), (2, 1), (3, 0)])
def test_who_writes_a_chunk_when_another_model_has_come_meanwhile_is_refused(tmp_path, monkeypatch, suffix, at, chunks):
    """The other one comes after this one has looked whose the parts are, and before it writes: the smallest window."""
    out, write, begun = tmp_path / f"p{suffix}", Parts.write, []

    def interrupted(self, chunk, values):
        if chunk == at and not begun:
            begun.append(chunk)
            other(out, chunks, restart=True)
            self.group.mkdir(parents=True, exist_ok=True)  # as a process does that is just making its folders
            (self.group / "mean").mkdir(exist_ok=True)
        write(self, chunk, values)

    monkeypatch.setattr(Parts, "write", interrupted)
    with pytest.raises(StoreError, match=r"other predictions, which differ in the model|is gone"):
        predict_to_file(ONE, NEW, out, rows=3)
    if chunks is not None:
        assert not out.exists()
        predict_to_file(TWO, NEW, out, rows=3)
    assert made_by(out) == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_of_two_that_find_no_parts_the_last_to_say_so_has_them(tmp_path, monkeypatch, suffix):
    out, write_record, begun = tmp_path / f"p{suffix}", Parts._write_record, []

    def interrupted(self):
        write_record(self)
        group = self.folder
        if not begun:
            begun.append(group)
            with pytest.MonkeyPatch.context() as patch:  # the second found nothing there either
                patch.setattr("equitangents.ensembles.streaming.parts._is_empty", lambda folder: True)
                patch.setattr(Parts, "_write_record", write_record)
                record_there = read_record(group)
                group.joinpath("zarr.json").unlink()
                other(out, 2)
                assert read_record(group) != record_there

    monkeypatch.setattr(Parts, "_write_record", interrupted)
    with pytest.raises(OtherPredictionsError, match="differ in the model"):
        predict_to_file(ONE, NEW, out, rows=3)
    predict_to_file(TWO, NEW, out, rows=3)
    assert made_by(out) == 1
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_another_model_made_meanwhile_is_not_replaced(tmp_path, monkeypatch, suffix):
    out, elsewhere = tmp_path / f"p{suffix}", tmp_path / f"q{suffix}"
    predict_to_file(TWO, NEW, elsewhere, rows=3)
    predict = to_file._predict
    monkeypatch.setattr(to_file, "_predict", lambda *all: (predict(*all), elsewhere.rename(out)))
    with pytest.raises(StoreError, match="exists; it does not hold these predictions"):
        predict_to_file(ONE, NEW, out, rows=3)
    assert made_by(out) == 1
    monkeypatch.undo()
    predict_to_file(ONE, NEW, out, rows=3, force=True)
    assert made_by(out) == 0


def test_what_a_process_left_whose_parts_were_removed_is_in_nobodys_way(tmp_path):
    """One that makes its folders just when another, which removed the record, makes its own."""
    (tmp_path / "p.npy.parts" / "0123456789abcdef" / "mean").mkdir(parents=True)
    predict_to_file(ONE, NEW, tmp_path / "p.npy", rows=3)
    assert made_by(tmp_path / "p.npy") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["p.npy"]


def test_parts_that_are_removed_while_they_are_put_together_are_said(tmp_path, monkeypatch):
    blocks = formats._blocks
    monkeypatch.setattr(formats, "_blocks", lambda parts: (formats.remove(parts.folder), *blocks(parts)))
    with pytest.raises(StoreError, match="what was predicted is gone"):
        predict_to_file(ONE, NEW, tmp_path / "p.npy", rows=3)
    assert not (tmp_path / "p.npy").exists()


@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_processes_of_two_models_at_once_leave_one_whole_file(tmp_path, rounds):
    for turn in range(rounds):
        out, start, children = tmp_path / f"{turn}{('.npy', '.npz', '.zarr')[turn % 3]}", time.monotonic() + 0.1, {}
        for process in range(4):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of forking beside threads
                child = os.fork()
            if child == 0:
                os._exit(_outcome(out, (ONE, TWO)[process % 2], start, turn % 2 == 1))
            children[child] = process % 2
        outcomes = [(which, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) for child, which in children.items()]
        assert all(code in (0, 3) for _, code in outcomes)
        if turn % 2 == 1 and not out.exists():  # with restart each removes what the others have; all may have lost it
            assert all(code == 3 for _, code in outcomes)
            continue
        winner = made_by(out)
        assert (winner, 0) in outcomes
        if turn % 2 == 0:  # without restart nobody takes the parts from whom has them
            assert all(code == 3 for which, code in outcomes if which != winner)


def _outcome(out, model, start, restart):
    """0 where the file was made, 3 where it was refused in one line, 1 for all else."""
    try:
        time.sleep(max(0.0, start - time.monotonic()))
        predict_to_file(model, NEW, out, rows=1, restart=restart)
    except StoreError as error:
        return 1 if "\n" in str(error) else 3
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
