"""Faults of disks, files, versions and permissions in a study's folder: no wrong number, no complete stage lost."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from equitangents import studies
from equitangents.cli.main import main
from equitangents.errors import InvalidArgumentError
from equitangents_studies.framework import folder as run_folder
from studies.small import FiveStages, five_stages

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def numbers(folder):
    """What readers take from a run."""
    return [(folder / name).read_bytes() for name in ("results/claims.csv", "claims.json")]


@pytest.fixture
def whole(tmp_path, capsys):
    """A run that nothing disturbed."""
    five_stages(tmp_path / "whole")
    capsys.readouterr()
    return tmp_path / "whole"


class TestDamage:
    def test_of_any_byte_of_a_stage_gives_its_arrays_or_none(self, tmp_path, caplog):
        caplog.set_level("CRITICAL", "equitangents")
        path = tmp_path / "a.npz"
        arrays = {"x": np.arange(6.0).reshape(2, 3), "label": np.array(["a", "b"])}
        run_folder.write_stage(path, arrays, "print")
        good, lost = path.read_bytes(), 0
        for place in range(0, len(good), 2):
            path.write_bytes(good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1 :])
            found = run_folder.read_stage(path, "print")
            lost += found is None
            assert found is None or found.keys() == arrays.keys()
            assert found is None or all(np.array_equal(found[key], arrays[key]) for key in arrays), place
        assert lost > len(good) / 8
        for length in range(0, len(good), 7):
            path.write_bytes(good[:length])
            assert run_folder.read_stage(path, "print") is None

    def test_of_a_header_that_asks_for_less_is_no_shorter_array(self, tmp_path):
        path = tmp_path / "a.npz"
        run_folder.write_stage(path, {"x": np.random.default_rng(0).normal(size=9000)}, "print")  # the header is plain
        assert b"(9000,)" in path.read_bytes()
        path.write_bytes(path.read_bytes().replace(b"(9000,)", b"(1000,)"))
        assert run_folder.read_stage(path, "print") is None

    @pytest.mark.parametrize("how", ["flipped", "cut", "empty"])
    def test_of_a_stage_is_said_and_the_stage_is_computed_again(self, whole, capsys, how):
        good, path = numbers(whole), whole / "stages" / "stage-2.npz"
        data = path.read_bytes()
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"flipped": flipped, "cut": data[:middle], "empty": b""}[how])
        five_stages(whole, resume=True)
        assert capsys.readouterr().out == "2"
        assert numbers(whole) == good
        with np.load(path) as kept:
            assert np.array_equal(kept["0"], np.random.default_rng(2).normal(1, 0.1, 50))

    @pytest.mark.parametrize("how", ["flipped", "cut", "changed"])
    def test_of_the_configuration_is_said_and_can_be_replaced(self, whole, how):
        path, text = whole / "config.json", (whole / "config.json").read_text()
        changed = text.replace('"members": 10', '"members": 11')
        assert changed != text
        path.write_text({"flipped": "\x7f" + text[1:], "cut": text[:50], "changed": changed}[how])
        for resume in (False, True):
            with pytest.raises(InvalidArgumentError, match=r"a readable config\.json.*--force"):
                five_stages(whole, resume=resume)
        five_stages(whole, force=True)
        assert json.loads(path.read_text())["settings"]["members"] == 10


class TestTheDisk:
    def test_that_is_full_is_one_line_and_complete_stages_are_kept(self, tmp_path, whole, capsys, monkeypatch):
        out, stored = tmp_path / "run", run_folder.write_stage

        def until_full(path, arrays, fingerprint):
            if path.stem == "stage-2":
                soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
                try:
                    stored(path, arrays, fingerprint)
                finally:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            stored(path, arrays, fingerprint)

        with monkeypatch.context() as patch:
            patch.setattr(run_folder, "write_stage", until_full)
            made = FiveStages(slow=False)
            info = studies.StudyInfo("five", "Five", "nobody", ("quick",), "s", "none")
            studies.add(info, made.study(), made.present)
            with pytest.raises(SystemExit) as stop:
                main(["reproduce", "five", "--out", str(out)])
            del studies.registry["five"]
        said = capsys.readouterr()
        assert stop.value.code == 2
        assert "a file or folder cannot be read or written: File too large" in said.err
        assert "Traceback" not in said.err
        assert said.out == "012"
        assert sorted(path.name for path in (out / "stages").iterdir()) == ["stage-0.npz", "stage-1.npz"]
        five_stages(out, resume=True)
        assert capsys.readouterr().out == "234"
        assert numbers(out) == numbers(whole)

    def test_that_is_full_from_the_start_stops_with_the_cause_and_no_other(self, tmp_path, monkeypatch):
        """The note of the time cannot be written either, and hides nothing."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

        def filling(*_):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(run_folder, "write_stage", filling)
        try:
            with pytest.raises(OSError, match="No space left on device"):
                five_stages(tmp_path / "run")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def test_a_stage_that_may_not_be_read_is_not_taken_for_damaged(self, whole, capsys, monkeypatch):
        def denied(path, *_, **__):
            raise PermissionError(13, "Permission denied", str(path))

        with monkeypatch.context() as patch:
            patch.setattr(run_folder, "file_bytes", denied)
            with pytest.raises(PermissionError):
                run_folder.read_stage(whole / "stages" / "stage-1.npz", "print")


class TestVersions:
    def test_stages_of_two_are_not_put_together(self, whole, capsys, monkeypatch):
        path = whole / "config.json"
        config = json.loads(path.read_text())
        now = config["versions"]["equitangents"]
        config["versions"]["equitangents"] = "0.0.1"
        path.write_text(json.dumps(config))
        with pytest.raises(
            InvalidArgumentError, match=rf"a run by equitangents {now} to resume; it was begun by 0\.0\.1"
        ):
            five_stages(whole, resume=True)
        assert capsys.readouterr().out == ""
        five_stages(whole, force=True)
        assert capsys.readouterr().out == "01234"


@pytest.mark.slow
def test_killed_at_any_write_again_and_again_the_run_is_that_of_an_undisturbed_one(tmp_path, whole):
    script = Path(__file__).with_name("killed_study.py")
    command = [sys.executable, str(script), str(tmp_path / "run"), "25"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=True, env=ENVIRONMENT)
    assert int(done.stdout) > 15
    out = tmp_path / "run"
    finished = (out / "report.html").exists()
    five_stages(out, resume=(out / "config.json").exists() and not finished, force=finished)
    assert numbers(out) == numbers(whole)
    assert {p.name for p in out.iterdir()} == {p.name for p in whole.iterdir()}
    names = lambda folder: {p.relative_to(folder).as_posix() for p in folder.rglob("*")}
    assert names(out) == names(whole)
