"""Settings from text, the folder of a run and its stages, and the runner on a small study made for the purpose."""

import json
import subprocess
import sys

import numpy as np
import pytest

from equitangents import studies
from equitangents.errors import InvalidArgumentError
from equitangents.files import atomic_file
from equitangents_studies.framework.folder import RunFolder
from equitangents_studies.framework.study import as_text, changed
from pages import outside_resources
from studies.small import Settings, contents


class TestSettings:
    def test_each_type_is_read_and_written_back(self):
        text = {"members": "3", "rate": "1e-2", "widths": "64,128", "group": "c8", "limit": "7", "centred": "no"}
        settings = changed(Settings(), text)
        assert settings == Settings(3, 0.01, (64, 128), "C8", 7, False)
        assert changed(Settings(limit=3), {"limit": "none"}).limit is None
        assert changed(Settings(), as_text(settings)) == settings

    @pytest.mark.parametrize(
        ("key", "text", "message"),
        [
            ("members", "many", "whole number"),
            ("members", "1.5", "whole number"),
            ("rate", "fast", "a number"),
            ("group", "C5", "'C4' or 'C8'"),
            ("centred", "perhaps", "true or false"),
            ("widths", "8,x", "whole number"),
        ],
    )
    def test_text_that_does_not_fit(self, key, text, message):
        with pytest.raises(InvalidArgumentError, match=message):
            changed(Settings(), {key: text})


def _config(**settings):
    return {"study": "s", "settings": settings}


class TestFolder:
    def test_stage_is_computed_once_when_resumed(self, tmp_path):
        calls = []
        compute = lambda task: calls.append(1) or {"a": np.arange(3.0), "label": np.array(["x"])}
        for resume in (False, True):
            arrays = RunFolder(tmp_path / "run", _config(n=1), resume=resume).stage("first", "First", compute)
            np.testing.assert_array_equal(arrays["a"], np.arange(3.0))
            assert arrays["label"].tolist() == ["x"]
        assert len(calls) == 1
        RunFolder(tmp_path / "run", _config(n=1)).stage("first", "First", compute)
        assert len(calls) == 2

    def test_checkpoints_go_when_the_stage_is_done(self, tmp_path):
        folder = RunFolder(tmp_path / "run", _config())

        def compute(task):
            folder.checkpoints("first").mkdir(parents=True)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            folder.stage("first", "First", compute)
        assert folder.checkpoints("first").is_dir()
        folder.stage("first", "First", lambda task: {"a": np.zeros(1)})
        assert not folder.checkpoints("first").exists()

    def test_files_that_are_not_ours_are_kept_and_foreign_folders_left_alone(self, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(InvalidArgumentError, match="expected a run of a study"):
            RunFolder(tmp_path, _config())
        folder = RunFolder(tmp_path / "run", _config())
        folder.stage("first", "First", lambda task: {"a": np.zeros(1)})
        (folder.path / "notes.txt").write_text("mine")
        RunFolder(tmp_path / "run", _config(n=2), force=True)
        assert (tmp_path / "notes.txt").read_text() == (folder.path / "notes.txt").read_text() == "mine"
        assert not (folder.path / "stages").exists()

    def test_tables(self, tmp_path):
        folder = RunFolder(tmp_path / "run", _config())
        folder.write_table("t", {"name": ["a", "b"], "value": np.array([0.1, 1e-20]), "n": np.array([1, 2])})
        assert (folder.path / "results" / "t.csv").read_text() == "name,value,n\na,0.1,1\nb,1e-20,2\n"
        folder.write_table("t", {"value": [0.5], "low": np.array([np.nan]), "high": [float("nan")]})
        assert (folder.path / "results" / "t.csv").read_text() == "value,low,high\n0.5,,\n", "there is no interval"
        with pytest.raises(InvalidArgumentError, match="columns of equal length"):
            folder.write_table("t", {"a": [1], "b": [1, 2]})

    def test_files_that_a_killed_run_was_writing_are_swept(self, tmp_path):
        folder = RunFolder(tmp_path / "run", _config())
        with atomic_file(folder.path / "results" / "t.csv") as left:
            left.write_text("a\n1\n")
        left.write_text("half")  # as a process leaves it that is killed in between
        RunFolder(tmp_path / "run", _config(), resume=True)
        assert not left.exists()
        assert (folder.path / "results" / "t.csv").read_text() == "a\n1\n"


class TestRunner:
    def test_folder_report_and_verdicts(self, small, tmp_path):
        result = studies.run("small", out=tmp_path / "run", progress=False)
        files = contents(tmp_path / "run")
        written = (
            "config.json claims.json report.json report.html results/claims.csv stages/first.npz stages/second.npz"
        )
        assert set(files) == set(written.split())
        config = json.loads(files["config.json"])
        assert config["settings"]["widths"] == [8, 16]
        assert {"equitangents", "jax", "numpy", "python"} <= config["versions"].keys()
        assert result.claims[0].outcome == json.loads(files["claims.json"])[0]["outcome"] == "holds"
        html = files["report.html"].decode()
        assert '<span class="badge holds">holds</span>' in html
        assert outside_resources(html) == []

    def test_a_false_claim_fails_and_is_no_error(self, small, tmp_path):
        result = studies.run("small", out=tmp_path / "run", settings={"rate": "0.1"}, progress=False)
        assert result.claims[0].outcome == "fails"
        assert '<span class="badge fails">fails</span>' in result.report.read_text()
        assert "--set rate=0.1" in result.report.read_text()

    def test_interrupted_and_resumed_equals_uninterrupted(self, small, tmp_path):
        whole = studies.run("small", out=tmp_path / "whole", progress=False)
        small.calls.clear()
        small.interrupt = True
        with pytest.raises(KeyboardInterrupt):
            studies.run("small", out=tmp_path / "cut", progress=False)
        small.interrupt = False
        resumed = studies.run("small", out=tmp_path / "cut", resume=True, progress=False)
        assert small.calls == ["first", "second"]
        assert resumed.claims == whole.claims
        a, b = contents(tmp_path / "whole"), contents(tmp_path / "cut")
        assert all(a[name] == b[name] for name in ("results/claims.csv", "claims.json"))


def test_catalogue_loads_without_heavy_imports():
    code = (
        "import sys; from equitangents_studies import registry; assert 'toy' in registry; "
        "heavy = {'jax', 'numpy', 'matplotlib', 'jinja2', 'scipy'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


class TestCtrlC:
    def test_lost_in_a_callback_of_the_garbage_collector_it_comes_back_with_the_next_step(self):
        code = """
import gc, signal
from equitangents_studies.framework.progress import StudyProgress
signal.signal(signal.SIGINT, signal.default_int_handler)
def lost(phase, info):
    gc.callbacks.remove(lost)
    signal.raise_signal(signal.SIGINT)
progress = StudyProgress(shown=False)
try:
    with progress.running(), progress.task("a stage") as task:
        gc.callbacks.append(lost)
        gc.collect()
        print("went on")
        task.step(1, 2)
        print("and on")
except KeyboardInterrupt:
    print("ended", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.split("\n")[:-1] == ["went on", "ended True"]
