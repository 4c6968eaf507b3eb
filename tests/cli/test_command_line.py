"""The command line as a user meets it: what it prints, where, and with which exit status."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import jax
import numpy as np
import pytest
import typer

from equitangents import __version__, kernels, nn
from equitangents.cli import doctor
from equitangents.cli import main as command_line
from equitangents.cli.main import main
from equitangents.errors import InvalidArgumentError
from equitangents.kernels.result import Kernels
from equitangents_studies.framework.catalogue import registry

COMMANDS = typer.main.get_command(command_line.app).commands
HEAVY = ("jax", "numpy", "scipy", "matplotlib", "sklearn", "optax", "jinja2")


def modules_after(statement: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after `statement`."""
    program = f"{statement}\nimport sys\nprint('LOADED', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names = done.stdout.rpartition("LOADED")[2].split()
    return {name.partition(".")[0] for name in names} & set(HEAVY)


@pytest.mark.quick(1)
@pytest.mark.parametrize("arguments", [["--help"], ["list"]])
def test_light_commands_load_nothing_heavy(arguments: list[str]) -> None:
    command = f"from equitangents.cli.main import main\ntry: main({arguments!r})\nexcept SystemExit: pass"
    assert modules_after(command) == set()


@pytest.mark.slow
def test_importing_the_package_loads_nothing_heavy() -> None:
    assert modules_after("import equitangents") == set()
    assert "jax" in modules_after("import equitangents.precision"), "the probe itself must see what is loaded"


def test_version_and_help(command: Callable) -> None:
    assert command("--version") == (0, f"equitangents {__version__}\n", "")
    for arguments in ([], ["--help"]):
        status, out, err = command(*arguments)
        assert (status, err) == (0, "")
        assert {"list", "reproduce", "doctor"} <= set(out.split())


def raising(error: BaseException):
    def run_study(*_, **__):
        raise error

    return run_study


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InvalidArgumentError("members is 0;\n may be 1 or more"), "members is 0; may be 1 or more"),
        (OSError(errno.ENOSPC, "No space left on device"), "a file or folder cannot be read or written: No space left"),
        (PermissionError(errno.EACCES, "Permission denied", "page.html"), "Permission denied: page.html"),
    ],
)
def test_errors_of_the_package_and_of_the_disk_are_one_line(command, monkeypatch, error: Exception, said: str) -> None:
    monkeypatch.setattr("equitangents_studies.run", raising(error))
    status, out, err = command("reproduce", "toy")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("equitangents: ")
    assert said in err


@pytest.mark.parametrize("how", ["option", "environment"])
def test_debug_shows_the_traceback(command, monkeypatch, how: str) -> None:
    monkeypatch.setattr("equitangents_studies.run", raising(InvalidArgumentError("members is 0")))
    if how == "environment":
        monkeypatch.setenv("EQUITANGENTS_DEBUG", "1")
    status, _, err = command(*(["--debug"] if how == "option" else []), "reproduce", "toy")
    assert (status, "Traceback" in err) == (2, True)
    assert "InvalidArgumentError: members is 0" in err


def test_a_crash_is_not_mistaken_for_bad_input(monkeypatch) -> None:
    monkeypatch.setattr("equitangents_studies.run", raising(ZeroDivisionError("crash")))
    with pytest.raises(ZeroDivisionError):
        main(["reproduce", "toy"])


def test_characters_that_an_encoding_lacks_do_not_lose_the_answer() -> None:
    program = "from equitangents.cli.main import main; import typer, equitangents.cli.main as m;"
    program += "m.app.command('say')(lambda: typer.echo('∞ members'));main(['say'])"
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=False)
    assert (found.returncode, found.stdout) == (0, b"? members\n"), found.stderr


def test_the_list_as_json_says_what_the_table_says(command, tmp_path) -> None:
    table = command("list", "--json", str(tmp_path / "list.json"))[1].splitlines()
    told = json.loads((tmp_path / "list.json").read_text("utf-8"))
    assert [each["name"] for each in told] == list(registry)
    assert all(each["name"] in line and each["title"] in line for each, line in zip(told, table, strict=True))


@pytest.mark.slow
def test_this_installation_is_well(command) -> None:
    status, out, err = command("doctor")
    assert (status, err) == (0, "")
    assert jax.__version__ in out
    assert kernels.engines.engine_name() in out
    assert out.count(" ok\n") == len(doctor.ALLOWED)
    assert "WRONG" not in out


@pytest.mark.parametrize(("error", "well"), [(1e-6, True), (2e-6, False), (float("nan"), False), (float("inf"), False)])
def test_json_says_whether_all_is_well(command, monkeypatch, tmp_path, error, well) -> None:
    monkeypatch.setattr(doctor, "ALLOWED", {"float64": 1e-6})
    monkeypatch.setattr(doctor, "closed_form_error", lambda dtype: error)
    status, *_ = command("doctor", "--json", str(tmp_path / "d.json"))
    told = json.loads((tmp_path / "d.json").read_text("utf-8"), parse_constant=pytest.fail)  # NaN is no JSON
    assert (status, told["well"]) == (int(not well), well)
    assert told["installation"]["jax"] == jax.__version__
    assert [(each["name"][-7:], each["passed"]) for each in told["checks"]] == [("float64", well)]


@pytest.mark.parametrize(("planted", "value"), [("nngp", np.nan), ("ntk", np.nan), ("ntk", 1.0)])
def test_planted_numbers_make_doctor_fail(planted, value, command, monkeypatch) -> None:
    run = nn.Sequential.kernel

    def kernel(net, x1, x2=None, engine=None) -> Kernels:
        return replace(run(net, x1, x2, engine), **{planted: np.full((len(x1), len(x1)), value)})

    monkeypatch.setattr(nn.Sequential, "kernel", kernel)
    monkeypatch.setattr(doctor, "ALLOWED", {"float64": 1e-13})
    status, out, err = command("doctor")
    assert (status, "WRONG" in out, err.count("\n")) == (1, True, 1)


def test_packages_of_extras_need_not_be_installed(command, monkeypatch) -> None:
    """Without their metadata, too, which stays where only imports are blocked."""
    there = doctor.version

    def version(package: str) -> str:
        if package in doctor.OPTIONAL:
            raise PackageNotFoundError(package)
        return there(package)

    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setattr(doctor, "ALLOWED", {"float64": 1e-13})
    status, out, err = command("doctor")
    assert (status, err, "not installed (extra scale)" in out) == (0, "", True)


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
    limited = ["bash", "-c", f'ulimit -v {mebibytes << 10}; exec "$@"', "bash", *fit]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if line.startswith("equitangents: ")]
    assert (done.returncode, len(errors)) == (2, 1), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words", [("fit", "--data", "x.npz", "--out", "s3://b/m"), ("reproduce", "toy", "--out", "s3://b/r"),
              ("doctor", "--json", "s3://b/d"), ("list", "--json", "s3://b/l")],
)  # fmt: skip
def test_a_url_is_no_folder_of_this_machine(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", x=np.arange(12.0).reshape(6, 2), y=np.arange(6.0))
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert f"{words[-2]} is 's3:/b/{words[-1][-1]}'; expected a path of this machine" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["x.npz"]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_has_two_examples_and_one_sentence_an_option(name: str) -> None:
    options = [p for p in COMMANDS[name].params if p.name != "context"]
    examples = [part for part in COMMANDS[name].help.split("\n\n") if part.startswith(f"equitangents {name}")]
    assert len(examples) == 2
    assert max(map(len, examples)) <= 78, "what is longer is broken on a terminal of 80 columns"
    assert [p.name for p in options if not p.help.endswith((".", "…"))] == []
    assert {p.help for p in options if p.opts == ["--json"]} <= {"Write the result to this file, as JSON."}
