"""`scripts/gpu_day.sh`: steps that have ended are not run again, and none begins when time is up.

All of it runs, emulated, in `.ci/run`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STEPS = ("machine", "install", "selftest", "against_cpu", "speed", "layouts")


def run(folder, **settings):
    environment = os.environ | {"EQUITANGENTS_GPU_EMULATE": "1", "INSTALLED": sys.executable} | settings
    command = ["bash", str(ROOT / "scripts/gpu_day.sh"), str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture
def ended(tmp_path):
    for name in STEPS:
        (tmp_path / f"{name}.done").touch()
    return tmp_path


def test_what_has_ended_is_not_run_again(ended):
    done = run(ended)
    assert (done.returncode, done.stdout, list(ended.glob("*.log"))) == (0, "", [])


def test_it_goes_on_with_the_step_that_is_missing(ended):
    (ended / "machine.done").unlink()
    done = run(ended)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in ended.glob("*.log")] == ["machine.log"]
    assert (ended / "machine.done").exists()
    assert (ended / "summary.txt").read_text().startswith("machine: done in ")


def test_no_step_begins_when_time_is_up(ended):
    (ended / "layouts.done").unlink()
    done = run(ended, ALL_SECONDS="10")
    assert done.returncode == 3
    assert "layouts: not begun, 10 seconds are over; the same command goes on" in done.stdout


def test_a_step_that_fails_says_so_and_the_others_are_run(ended, tmp_path):
    for name in ("selftest", "speed"):
        (ended / f"{name}.done").unlink()
    false = tmp_path / "no-python"
    false.write_text("#!/bin/sh\necho broken; exit 7\n")
    false.chmod(0o755)
    done = run(ended, INSTALLED=str(false))
    assert done.returncode == 1
    assert "selftest: failed with status" in done.stdout
    assert "speed: failed with status 7" in done.stdout
    assert not (ended / "speed.done").exists()


def test_without_a_package_nothing_is_measured(tmp_path):
    false = tmp_path / "no-python"
    false.write_text("#!/bin/sh\nexit 7\n")
    false.chmod(0o755)
    done = run(tmp_path / "day", INSTALLED=str(false))
    assert done.returncode == 1
    assert not (tmp_path / "day/selftest.log").exists()
