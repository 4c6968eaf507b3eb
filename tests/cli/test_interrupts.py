"""Ctrl-C in every command: one line on what is kept and how to go on, exit status 130; and going on goes on."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from equitangents.cli.main import typer as of_main
from equitangents.ensembles import InfiniteEnsembleClassifier
from equitangents.ensembles.streaming import PredictionTask
from equitangents.planning.plan import Plan
from equitangents.scale import GramStore

MLP = ("--net", "mlp", "--depth", "1")
NOTHING = "equitangents: interrupted; nothing new is kept: the same command starts again\n"


@pytest.fixture
def run(tmp_path, monkeypatch, command):
    """Status and standard error of a command in a folder with data."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(12, 3))
    np.savez("data.npz", x=x, y=np.arange(12) % 3)
    np.save("x.npy", x)
    (tmp_path / "made").mkdir()

    return lambda *words: command(*words)[::2]


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
        (("audit", "os:getcwd", "--data", "x.npy", "--group", "S3"), "equitangents.foreign_files.load_data"),
        (("audit-potential", "x.npy", "--calculator", "os:getcwd"), "equitangents.foreign_files.check_name"),
        (("plan", "--data", "data.npz", "--group", "S3"), "equitangents.planning.question.read_data"),
        (("fit", "--data", "data.npz", "--out", "model"), "equitangents.scale.reading.read_pair"),
        (("predict", "made", "--data", "x.npy", "--out", "p.npz"), "equitangents.scale.reading.read_inputs"),
        (("gram", "--data", "x.npy", "--out", "k.zarr"), "equitangents.scale.reading.read_inputs"),
        (("systems", "--data", "data.npz"), "equitangents.extending.read_named"),
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


def test_a_fit_says_whether_a_model_and_a_kernel_are_there(run, monkeypatch):
    fit = ("fit", "--data", "data.npz", *MLP, "--out", "model")
    with monkeypatch.context() as patch:
        patch.setattr("equitangents.ensembles.InfiniteEnsembleClassifier.fit", after(0))
        assert last(run(*fit)[1]).startswith("equitangents: interrupted; no model is saved: the same command starts")
        kept = "interrupted; the kernel is kept in kernel.zarr as far as it is: the same command goes on\n"
        assert last(run(*fit, "--store", "kernel.zarr")[1]) == f"equitangents: {kept}"
    with monkeypatch.context() as patch:
        patch.setattr("equitangents.fit.held_out.HeldOut.of", after(0))
        saved = "equitangents: interrupted; the model is saved in model, its report is missing"
        assert last(run(*fit)[1]) == f"{saved}: equitangents predict model goes on with it\n"
    with monkeypatch.context() as patch:
        patch.setattr("equitangents.ensembles.InfiniteEnsembleClassifier.fit", after(0))
        status, told = run(*fit)
        assert (status, last(told).partition(":")[2][:30]) == (130, " interrupted; model is as it w")
    assert run("predict", "model", "--data", "x.npy", "--out", "p.npz")[0] == 0


def test_a_fit_that_is_interrupted_as_it_ends_says_that_the_model_is_saved(run, monkeypatch, tmp_path):
    fit = ("fit", "--data", "data.npz", *MLP, "--out", "model")
    save, echo = InfiniteEnsembleClassifier.save, of_main.echo

    def save_and_stop(*arguments, **named):
        save(*arguments, **named)
        raise KeyboardInterrupt

    at_the_end = lambda *text, **named: after(0)() if "next:" in text[0] else echo(*text, **named)
    for target, stopping, more, report in (
        ("equitangents.ensembles.InfiniteEnsembleClassifier.save", save_and_stop, (), "its report is missing"),
        ("typer.echo", at_the_end, (), "and its report"),
        # the report of the model before is not left beside another one
        ("equitangents.report.write", after(0), ("--ridge", "0.1"), "its report is missing"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, stopping)
            status, told = run(*fit, *more)
        said = f"the model is saved in model, {report}: equitangents predict model goes on with it\n"
        assert (status, last(told)) == (130, f"equitangents: interrupted; {said}")
    assert not (tmp_path / "model" / "report.html").exists()
    assert run("predict", "model", "--data", "x.npy", "--out", "p.npz")[0] == 0


def test_a_plan_that_is_interrupted_as_it_ends_says_that_files_are_whole(run, monkeypatch, tmp_path):
    plan = ("plan", "--data", "data.npz", "--group", "S3", "--pilot", "0", "--draws", "50", "--json", "p.json")
    with monkeypatch.context() as patch:
        patch.setattr(Plan, "to_json", after(0))
        status, told = run(*plan)
    assert (status, told.count("\n")) == (130, 1)
    assert "files that were named as written are whole: the same command starts again" in told


def ended(code):
    """Status and standard error of a process that runs some lines, and then `equitangents --version`."""
    # SIGINT may be ignored where tests run in the background
    lines = "import os, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + code
    done = subprocess.run(
        [sys.executable, "-c", f"{lines}\nsys.argv = ['equitangents', '--version']\nrun()"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


IMPORTED = "from equitangents.__main__ import run"


def test_an_interrupt_of_an_import_is_one_line():
    finder = (
        "class Finder:\n    def find_spec(name, *_):\n        if name == 'typer':\n"
        "            os.kill(os.getpid(), signal.SIGINT)"
    )
    told = "equitangents: interrupted; nothing was begun: the same command starts again\n"
    assert ended(f"{IMPORTED}\n{finder}\nsys.meta_path.insert(0, Finder)") == (130, told)


def test_an_interrupt_after_the_last_word_changes_nothing():
    assert ended(f"{IMPORTED}\nimport atexit\natexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))") == (0, "")


@pytest.mark.parametrize(("given", "kept"), [(None, "18\n"), ("20", "20\n")])
def test_threads_of_blas_are_told_to_wait_briefly_before_numpy_is_there(monkeypatch, given, kept):
    told = "import atexit\natexit.register(lambda: print(os.environ['OPENBLAS_THREAD_TIMEOUT'], file=sys.stderr))"
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    if given:
        monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", given)
    assert ended(f"{IMPORTED}\nassert 'numpy' not in sys.modules\n{told}") == (0, kept)


def test_an_interrupt_of_what_cannot_raise_is_heard_all_the_same_by_what_waits():
    late = (
        "import time, equitangents.cli.main as m\nclass Dies:\n    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n        sum(range(9))\n"
        "def main():\n    Dies()\n    time.sleep(1000)\nm.main = main"  # longer than a test may take
    )
    told = "equitangents: interrupted; files that were named as written are whole: the same command starts again\n"
    assert ended(f"{IMPORTED}\n{late}") == (130, told)


def test_predictions_go_on_from_what_was_predicted(run, monkeypatch):
    assert run("fit", "--data", "data.npz", *MLP, "--out", "model", "--no-report")[0] == 0
    predict = ("predict", "model", "--data", "x.npy", "--out", "p.npz", "--rows", "4")
    with monkeypatch.context() as patch:
        patch.setattr(PredictionTask, "predict", after(0))
        assert last(run(*predict)[1]).startswith("equitangents: interrupted; ")
    predicted = after(2, PredictionTask.predict)
    with monkeypatch.context() as patch:
        patch.setattr(PredictionTask, "predict", lambda *arguments: predicted(*arguments))
        kept = "what was predicted is kept in p.npz.parts: the same command goes on\n"
        assert last(run(*predict)[1]) == f"equitangents: interrupted; {kept}"
    with monkeypatch.context() as patch:
        patch.setattr(PredictionTask, "assemble", after(0))
        assert last(run(*predict)[1]) == f"equitangents: interrupted; {kept}"
    assert run(*predict)[0] == 0


def test_a_gram_matrix_counts_the_tiles_that_are_kept(run, monkeypatch):
    gram = ("gram", "--data", "x.npy", *MLP, "--out", "k.zarr", "--tile", "4")
    with monkeypatch.context() as patch:
        patch.setattr(GramStore, "compute", after(0))
        assert last(run(*gram)[1]).endswith("interrupted; 0 of 6 tiles are kept in k.zarr: the same command goes on\n")
        assert run(*gram, "--restart")[1].endswith("k.zarr: the same command without --restart goes on\n")
    assert run(*gram)[0] == 0
