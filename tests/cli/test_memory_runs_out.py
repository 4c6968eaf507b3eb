"""Commands under `ulimit -v`: one line and exit status 2, whatever there is too little of."""

import subprocess
import sys

import numpy as np
import pytest

from equitangents.cli import main as command_line


@pytest.mark.parametrize("message", ["", "9 bytes\nand"])
def test_memory_that_runs_out_unforeseen_is_one_line(message, monkeypatch, capsys):
    def fails(*_):
        raise MemoryError(message)

    monkeypatch.setattr(command_line.TyperGroup, "invoke", fails)
    with pytest.raises(SystemExit) as stop:
        command_line.main(["list"])
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert said.startswith("equitangents: memory ran out (")
    assert said.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep to this limit")
@pytest.mark.parametrize("mebibytes", [400, 1000, 1700])
def test_a_fit_under_a_limit_of_addresses(mebibytes, tmp_path, rng):
    np.savez(tmp_path / "data.npz", x=rng.normal(size=(20_000, 40)), y=rng.integers(0, 3, 20_000))
    fit = [sys.executable, "-m", "equitangents", "fit", "--data", tmp_path / "data.npz", "--out", tmp_path / "model"]
    done = subprocess.run(
        ["bash", "-c", f'ulimit -v {mebibytes << 10}; exec "$@"', "bash", *fit],
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in done.stderr.splitlines() if line.startswith("equitangents: ")]
    assert (done.returncode, len(errors)) == (2, 1), done.stderr
    assert "Traceback" not in done.stderr
