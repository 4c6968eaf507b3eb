"""What a shell is offered, and that it is taken by the command, and comes without JAX."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import typer

from equitangents.cli import completion
from equitangents.cli.main import app, main
from equitangents.groups.names import parse_group_name
from equitangents.planning.violations import MEASURES
from equitangents.solvers.choosing import as_method
from equitangents_studies import registry, systems

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


def test_studies_come_with_their_titles_where_a_shell_shows_them():
    assert registry["toy"].title in offered("equitangents reproduce toy", "zsh")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_names_the_command(shell, capsys, monkeypatch):
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell)  # which process has started this one
    with pytest.raises(SystemExit) as stop:
        main(["--show-completion"])
    assert (stop.value.code or 0) == 0
    assert "_EQUITANGENTS_COMPLETE" in capsys.readouterr().out


def test_what_is_offered_is_there():
    for name in completion.NETS(""):
        assert name in ("mlp", "cnn") or systems.architecture(name, 1)
    for name in completion.SOLVERS(""):
        as_method(name)
    measure = next(p for p in COMMANDS["plan"].params if p.name == "measure")
    assert {item.value for item in measure.shell_complete(None, "")} == set(MEASURES)
    for name in completion.GROUPS(""):
        parse_group_name("group", name)


TYPOS = [
    ("fit --data tiels --out m", "--data is 'tiels'; expected a file or folder; did you mean 'tiles'?"),
    ("fit --data tiles --out m --targets lables.csv", "did you mean 'labels.csv'?"),
    ("fit --data tiles --out m --solver eihg", "'nystrom'; did you mean 'eigh'?"),
    (
        "fit --data tiles --out m --group C4x",
        "--group is 'C4x'; expected C4, D4 (any number), S_n, S5 (any number)",
    ),
    ("fit --data tiles --out m --net cn", "'FILE.json' or 'package.module:object'"),
    ("fit --data tiles --out m --input-shape 3x3", "expected sizes such as 32,32,3"),
    (
        "fit --data tiles --out m --precision flaot32",
        "did you mean 'float32'?",
    ),
    ("predict modle --data tiles --out p.csv", "model is 'modle'; expected a file or folder"),
    ("gram --data tiles --out k.zarr --net VCE", "'package.module:object'; did you mean 'VEC'?"),
    ("gram --data tiles --out k.zarr --shard 3/3", "expected I/N"),
    ("plan --data x.npz --group C4 --measure ops", "did you mean 'osp'?"),
    ("plan --data y.npz --group C4", "--data is 'y.npz'; expected a file or folder"),
    (
        "systems --data x.npz --architectures FNC,GAP",
        "--architectures is 'FNC'; expected 'FCN', 'LCN'",
    ),
    ("systems --data x.npz --architectures FCN,VECC", "did you mean 'VEC'?"),
    ("systems --data x.npz --kernel nkt", "--kernel is 'nkt'; expected 'ntk' or 'nngp'; did you mean 'ntk'?"),
    ("reproduce comparison --data mien.npz", "--data is 'mien.npz'; expected a file or folder"),
    ("audit m.onnx --data x.npz --group C4 --layout channels_frist", "did you mean 'channels_first'?"),
    ("audit m.onnx --data xx.npz --group C4", "data is 'xx.npz'; expected a file"),
]
ALL = """
import sys
from equitangents.cli.main import main
for line in sys.argv[1:]:
    try:
        main(line.split())
    except SystemExit as stop:
        assert stop.code == 2, line
assert "jax" not in sys.modules
"""


@pytest.mark.quick(1)
def test_typos_are_told_in_one_line_each_before_jax_is_imported(tmp_path):
    (tmp_path / "tiles").mkdir()
    for name in ("labels.csv", "m.onnx"):
        (tmp_path / name).touch()
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 4, 4, 1)), y=np.arange(3))
    done = subprocess.run(
        [sys.executable, "-c", ALL, *(line for line, _ in TYPOS)], capture_output=True, text=True, check=False,
        cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    for (line, said), told in zip(TYPOS, done.stderr.splitlines(), strict=True):
        assert said in told, line


def test_the_names_that_are_looked_at_first_are_those_that_there_are():
    from equitangents_studies.commands.systems import ARCHITECTURES

    assert ARCHITECTURES == systems.ARCHITECTURES
    assert set(completion.NETS("")) == {"mlp", "cnn", *ARCHITECTURES}
