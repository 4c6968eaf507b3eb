"""The command line as a user meets it: what it prints, where, and with which exit status."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from equitangents import __version__
from equitangents.cli.main import main
from equitangents.errors import InvalidArgumentError
from equitangents_studies.framework.catalogue import registry

HEAVY = ("jax", "numpy", "scipy", "matplotlib", "sklearn", "optax", "jinja2")


@pytest.fixture
def run(command):
    return command


def assert_one_line(text: str) -> None:
    assert text.startswith("equitangents: ")
    assert text.count("\n") == 1
    assert text.endswith("\n")


def modules_after(statement: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after `statement`."""
    program = f"{statement}\nimport sys\nprint('LOADED', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names = done.stdout.rpartition("LOADED")[2].split()
    return {name.partition(".")[0] for name in names} & set(HEAVY)


@pytest.mark.quick(1)
@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["reproduce", "toi"]])
def test_light_commands_load_nothing_heavy(arguments: list[str]) -> None:
    command = f"from equitangents.cli.main import main\ntry: main({arguments!r})\nexcept SystemExit: pass"
    assert modules_after(command) == set()


@pytest.mark.slow
def test_importing_the_package_loads_nothing_heavy() -> None:
    assert modules_after("import equitangents") == set()
    assert "jax" in modules_after("import equitangents.precision"), "the probe itself must see what is loaded"


def test_version_and_help(run: Callable) -> None:
    assert run("--version") == (0, f"equitangents {__version__}\n", "")
    for arguments in ([], ["--help"]):
        status, out, err = run(*arguments)
        assert (status, err) == (0, "")
        for command in ("list", "reproduce", "doctor"):
            assert command in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
        (["reproduce"], "STUDY"),
        (["reproduce", "toy", "--set", "members"], "key=value"),
        (["reproduce", "toy", "--set", "=3"], "key=value"),
        (["reproduce", "no-such-study"], "no-such-study"),
        (["reproduce", "toy", "--preset", "enormous"], "enormous"),
        (["reproduce", "toy", "--set", "no_such_setting=3"], "no_such_setting"),
        (["reproduce", "toy", "--out", "/dev/null/x"], "out is"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    run: Callable, tmp_path, monkeypatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert_one_line(err)
    assert said.lower() in err.lower()
    assert not list(tmp_path.iterdir()), "bad input must leave nothing behind"


def raising(error: BaseException):
    def run_study(*_, **__):
        raise error

    return run_study


def test_error_of_the_package(run, monkeypatch) -> None:
    monkeypatch.setattr("equitangents_studies.run", raising(InvalidArgumentError("members is 0;\n may be 1 or more")))
    status, out, err = run("reproduce", "toy")
    assert (status, out, err) == (2, "", "equitangents: members is 0; may be 1 or more\n")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "page.html"), "Permission denied: page.html"),
    ],
)
def test_a_file_that_cannot_be_written_is_an_error_of_one_line(run, monkeypatch, error: OSError, said: str) -> None:
    monkeypatch.setattr("equitangents_studies.run", raising(error))
    status, out, err = run("reproduce", "toy")
    assert (status, out) == (2, "")
    assert err == f"equitangents: a file or folder cannot be read or written: {said}\n"


@pytest.mark.parametrize("how", ["option", "environment"])
def test_debug_shows_the_traceback(run, monkeypatch, how: str) -> None:
    monkeypatch.setattr("equitangents_studies.run", raising(InvalidArgumentError("members is 0")))
    if how == "environment":
        monkeypatch.setenv("EQUITANGENTS_DEBUG", "1")
    status, _, err = run(*(["--debug"] if how == "option" else []), "reproduce", "toy")
    assert status == 2
    assert "Traceback" in err
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


def test_the_list_as_json_says_what_the_table_says(run, tmp_path) -> None:
    table = run("list", "--json", str(tmp_path / "list.json"))[1].splitlines()
    told = json.loads((tmp_path / "list.json").read_text("utf-8"))
    assert [each["name"] for each in told] == list(registry)
    assert all(each["name"] in line and each["title"] in line for each, line in zip(told, table, strict=True))


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["Toy"], "toy"),
        (["toy", "--preset", "quik"], "quick"),
        (["toy", "--set", "member=3"], "members"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest(run, tmp_path, monkeypatch, arguments, meant) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = run("reproduce", *arguments)
    assert status == 2
    assert f"did you mean {meant!r}?" in err
