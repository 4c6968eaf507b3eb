"""Ctrl-C in every command: one line, exit status 130, and the same command goes on with what is on disk."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from equitangents.ensembles.streaming import PredictionTask
from equitangents.scale import GramStore

MLP = ("--net", "mlp", "--depth", "1")
LINE = "equitangents: interrupted; the same command resumes with what is on disk, or starts again\n"


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


@pytest.mark.parametrize(
    ("words", "at"),
    [
        (("audit", "os:getcwd", "--data", "x.npy", "--group", "S3"), "equitangents.foreign_files.load_data"),
        (("audit-potential", "x.npy", "--calculator", "os:getcwd"), "equitangents.foreign_files.check_name"),
        (("plan", "--data", "data.npz", "--group", "S3"), "equitangents.foreign_files.read_named"),
        (("fit", "--data", "data.npz", "--out", "model"), "equitangents.scale.reading.read_pair"),
        (("predict", "made", "--data", "x.npy", "--out", "p.npz"), "equitangents.scale.reading.read_inputs"),
        (("gram", "--data", "x.npy", "--out", "k.zarr"), "equitangents.scale.reading.read_inputs"),
        (("systems", "--data", "data.npz"), "equitangents.extending.read_named"), (("list",), "typer.echo"),
        (("doctor",), "equitangents.cli.doctor._installation"), (("reproduce", "toy"), "equitangents_studies.run"),
    ],
)  # fmt: skip
def test_every_command_says_so_in_one_line(run, monkeypatch, words, at):
    monkeypatch.setattr(at, after(0))
    status, err = run(*words)
    assert (status, err.splitlines(keepends=True)[-1]) == (130, LINE)


def test_a_fit_keeps_the_model_that_was_there(run, monkeypatch, tmp_path):
    fit = ("fit", "--data", "data.npz", *MLP, "--out", "model")
    assert run(*fit)[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr("equitangents.ensembles.InfiniteEnsembleClassifier.fit", after(0))
        assert run(*fit)[0] == 130
    assert (tmp_path / "model" / "report.html").exists()
    assert run("predict", "model", "--data", "x.npy", "--out", "p.npz")[0] == 0
    with monkeypatch.context() as patch:  # the report of the model before is not left beside another one
        patch.setattr("equitangents.report.write", after(0))
        assert run(*fit, "--ridge", "0.1")[0] == 130
    assert not (tmp_path / "model" / "report.html").exists()


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


def test_predictions_go_on_from_what_was_predicted(run, monkeypatch, tmp_path):
    assert run("fit", "--data", "data.npz", *MLP, "--out", "model", "--no-report")[0] == 0
    predict = ("predict", "model", "--data", "x.npy", "--out", "p.npz", "--rows", "4")
    predicted = after(2, PredictionTask.predict)
    with monkeypatch.context() as patch:
        patch.setattr(PredictionTask, "predict", lambda *arguments: predicted(*arguments))
        assert run(*predict)[0] == 130
    assert (tmp_path / "p.npz.parts").is_dir()
    left, of_task = [], PredictionTask.predict
    monkeypatch.setattr(PredictionTask, "predict", lambda *arguments: left.append(1) or of_task(*arguments))
    assert (run(*predict)[0], len(left)) == (0, 1)


def test_a_gram_matrix_goes_on(run, monkeypatch):
    gram = ("gram", "--data", "x.npy", *MLP, "--out", "k.zarr", "--tile", "4")
    with monkeypatch.context() as patch:
        patch.setattr(GramStore, "compute", after(0))
        assert run(*gram)[0] == 130
    assert run(*gram)[0] == 0
