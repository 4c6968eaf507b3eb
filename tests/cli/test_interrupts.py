"""Ctrl-C in every command: one line on what is kept and how to go on, exit status 130; and going on goes on."""

from __future__ import annotations

import numpy as np
import pytest

from equitangents.cli.main import app, main
from equitangents.cli.main import typer as of_main
from equitangents.scale import GramStore
from equitangents.tiles.chunks import Chunks

MLP = ("--net", "mlp", "--depth", "1")
NOTHING = "equitangents: interrupted; nothing new is kept: the same command starts again\n"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Status and standard error of a command in a folder with data."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(12, 3))
    np.savez("data.npz", x=x, y=np.arange(12) % 3)
    np.save("x.npy", x)

    def call(*words):
        with pytest.raises(SystemExit) as stop:
            main(words)
        return int(stop.value.code or 0), capsys.readouterr().err

    return call


def after(count, real=None):
    """A function that is interrupted at its call number `count` + 1, and is `real` until then."""
    calls = []

    def called(*arguments, **named):
        if len(calls) == count:
            raise KeyboardInterrupt
        calls.append(None)
        return real(*arguments, **named)

    return called


def last(told):
    """The last line of what was told."""
    return told.splitlines(keepends=True)[-1]


@pytest.mark.parametrize(
    ("words", "at"),
    [
        (("audit", "os:getcwd", "--data", "x.npy", "--group", "S3"), "equitangents.array_files.load_data"),
        (("plan", "--data", "data.npz", "--group", "S3"), "equitangents.planning.question.read_data"),
        (("fit", "--data", "data.npz", "--out", "model"), "equitangents.scale.reading.read_pair"),
        (("predict", "model", "--data", "x.npy", "--out", "p.npz"), "equitangents.scale.reading.read_inputs"),
        (("gram", "--data", "x.npy", "--out", "k.zarr"), "equitangents.scale.reading.read_inputs"),
        (("systems", "--data", "data.npz"), "equitangents.extending.read_arrays"),
        (("list",), "typer.echo"),
        (("doctor",), "equitangents.cli.self_test.run_checks"),
        (("cache",), "equitangents.kernels.KernelStore"),
        (("reproduce", "toy"), "equitangents_studies.run"),
    ],
)
def test_before_anything_is_kept_every_command_says_so(run, monkeypatch, words, at):
    monkeypatch.setattr(at, after(0))
    status, told = run(*words)
    assert (status, last(told)) == (130, NOTHING)


def test_every_command_is_interrupted_above():
    commands = set(of_main.main.get_command(app).commands)
    assert commands == {"audit", "plan", "fit", "predict", "gram", "systems", "list", "doctor", "cache", "reproduce"}


def test_a_fit_says_whether_a_model_and_a_kernel_are_there(run, monkeypatch):
    fit = ("fit", "--data", "data.npz", *MLP, "--out", "model")
    with monkeypatch.context() as patch:
        patch.setattr("equitangents.ensembles.InfiniteEnsembleClassifier.fit", after(0))
        assert last(run(*fit)[1]).startswith("equitangents: interrupted; no model is saved: the same command starts")
        kept = "interrupted; the kernel is kept in kernel.zarr as far as it is: the same command goes on\n"
        assert last(run(*fit, "--store", "kernel.zarr")[1]) == f"equitangents: {kept}"
    with monkeypatch.context() as patch:
        patch.setattr("equitangents.cli.images.held_out", after(0))
        told = "equitangents: interrupted; the model is saved in model; its report is missing\n"
        assert last(run(*fit)[1]) == told
    with monkeypatch.context() as patch:
        patch.setattr("equitangents.ensembles.InfiniteEnsembleClassifier.fit", after(0))
        status, told = run(*fit)
        assert (status, last(told).partition(":")[2][:30]) == (130, " interrupted; model is as it w")
    assert run("predict", "model", "--data", "x.npy", "--out", "p.npz")[0] == 0


def test_predictions_go_on_from_what_was_predicted(run, monkeypatch):
    assert run("fit", "--data", "data.npz", *MLP, "--out", "model", "--no-report")[0] == 0
    predict = ("predict", "model", "--data", "x.npy", "--out", "p.npz", "--rows", "4")
    with monkeypatch.context() as patch:
        patch.setattr("equitangents.ensembles.streaming.to_file._predict_chunk", after(0))
        assert last(run(*predict)[1]).startswith("equitangents: interrupted; ")
    write = after(2, Chunks.write)
    with monkeypatch.context() as patch:
        patch.setattr(Chunks, "write", lambda *arguments: write(*arguments))
        kept = "what was predicted is kept in p.npz.parts: the same command goes on\n"
        assert last(run(*predict)[1]) == f"equitangents: interrupted; {kept}"
        again = "what was predicted is kept in p.npz.parts: the same command without --restart goes on\n"
    with monkeypatch.context() as patch:
        patch.setattr(Chunks, "write", after(0))
        assert last(run(*predict, "--restart")[1]) == f"equitangents: interrupted; {again}"
    assert run(*predict)[0] == 0


def test_a_gram_matrix_counts_the_tiles_that_are_kept(run, monkeypatch):
    gram = ("gram", "--data", "x.npy", *MLP, "--out", "k.zarr", "--tile", "4")
    with monkeypatch.context() as patch:
        patch.setattr(GramStore, "compute", after(0))
        assert last(run(*gram)[1]).endswith("interrupted; 0 of 6 tiles are kept in k.zarr: the same command goes on\n")
        assert run(*gram, "--restart")[1].endswith("k.zarr: the same command without --restart goes on\n")
    assert run(*gram)[0] == 0
