"""What a shell is offered, and that it is taken by the command, and comes without JAX."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer

from equitangents.cli import options
from equitangents.cli.main import app, main
from equitangents.groups.names import parse_group_name
from equitangents.planning.violations import MEASURES
from equitangents.solvers.solving import as_method
from equitangents_studies import systems

COMMANDS = typer.main.get_command(app).commands


def offered(line, shell="bash"):
    """What is offered for the last word of a line, as a shell asks for it."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_TYPER_COMPLETE_ARGS": line}
    done = subprocess.run(
        [sys.executable, "-c", "import sys\nfrom equitangents.cli.main import main\ntry:\n    main()\nfinally:\n"
         "    assert 'jax' not in sys.modules"],
        env=os.environ | words | {"_EQUITANGENTS_COMPLETE": f"complete_{shell}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Error" not in done.stderr, done.stderr
    return done.stdout.split("\n") if shell == "bash" else done.stdout


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("equitangents reproduce comp", ["comparison"]),
        ("equitangents reproduce comparison --preset desk-", ["desk-c8", "desk-c16"]),
        ("equitangents fit --stand", ["--standardise"]),
        ("equitangents audit m.onnx --group SO", ["SO2", "SO3"]),
        ("equitangents fit --kernel ", ["ntk", "nngp"]),
    ],
)
def test_a_shell_is_offered_commands_options_and_values(line, expected):
    assert [word for word in offered(line) if word] == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_names_the_command(shell, capsys, monkeypatch):
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell)  # which process has started this one
    with pytest.raises(SystemExit) as stop:
        main(["--show-completion"])
    assert (stop.value.code or 0) == 0
    assert "_EQUITANGENTS_COMPLETE" in capsys.readouterr().out


def test_what_is_offered_is_there():
    for name in options._NETS:
        assert name in ("mlp", "cnn") or systems.architecture(name, 1)
    for name in options.SOLVERS:
        as_method(name)
    measure = next(p for p in COMMANDS["plan"].params if p.name == "measure")
    assert {item.value for item in measure.shell_complete(None, "")} == set(MEASURES)
    for name in options._GROUPS:
        parse_group_name("group", name)


def test_the_names_that_are_looked_at_first_are_those_that_there_are():
    from equitangents_studies.commands import ARCHITECTURES

    assert ARCHITECTURES == systems.ARCHITECTURES
    assert set(options._NETS) == {"mlp", "cnn", *ARCHITECTURES}
