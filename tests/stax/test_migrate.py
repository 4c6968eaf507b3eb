"""`python -m equitangents.stax.migrate`: names are looked up as calls find them; imports alone change."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import numpy as np
import pytest

import equitangents
from equitangents import predict, stax
from equitangents.errors import InvalidArgumentError
from equitangents.stax import migrate, missing
from equitangents.stax.missing import MissingName

GUIDE = Path(__file__).parents[2] / "docs/guide/neural-tangents.md"
BLOCK = re.search(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
IDIOMS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in GUIDE.read_text("utf-8").partition("## Twenty idioms")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| `")
]
START = "import neural_tangents as nt\nfrom neural_tangents import predict, stax\n"


def kinds(text: str) -> list[tuple[str, str]]:
    """(kind, text) of the findings below the imports."""
    return [(f.kind, f.text) for f in migrate.migrated(START + text).findings if f.line > 2]


def test_the_example_of_the_guide_comes_out_as_it_stands_there():
    assert BLOCK is not None
    ours = BLOCK[1]
    report = migrate.migrated(ours.replace("equitangents", "neural_tangents"))
    assert report.text == ours
    assert {finding.kind for finding in report.findings} == {"replaced", "unchanged"}


@pytest.mark.parametrize("module", [stax, predict], ids=["stax", "predict"])
def test_every_public_name_is_unchanged_or_has_the_reason_that_calling_it_raises(module):
    room = module.__name__.rpartition(".")[2]
    absent = set(missing.ABSENT) - {"utils", "experimental"} if module is stax else set()
    assert not absent & set(module.__all__)
    for name in (*module.__all__, *sorted(absent)):
        ((kind, text),) = kinds(f"print({room}.{name})")
        found = getattr(module, name)
        assert kind == ("by hand" if name in absent else "unchanged")
        assert isinstance(found, MissingName) == (name in absent)
        if isinstance(found, MissingName):
            with pytest.raises(NotImplementedError, match=f"{room}.{name}: ") as refused:
                found()
            assert text.rpartition(": ")[2] in str(refused.value)
    with pytest.raises(AttributeError, match="Misspelt"):
        module.Misspelt


def test_the_guide_names_all_that_is_missing():
    not_here = GUIDE.read_text("utf-8").partition("## Not here")[2]
    pooled = {"BatchNorm", "MaxPool"}  # which neural-tangents lacks as well
    assert [name for name in missing._INSTEAD if name not in not_here and name not in pooled] == []


def test_idioms_of_the_guide_are_what_their_column_says():
    assert len(IDIOMS) == 20
    for theirs, verdict, _ in IDIOMS:
        by_hand = [text for kind, text in kinds(theirs.strip("`")) if kind == "by hand"]
        assert bool(by_hand) == (verdict == "by hand"), (theirs, by_hand)


@pytest.mark.slow
def test_idioms_of_the_guide_run_as_they_stand():
    x = np.random.default_rng(0).normal(size=(5, 3))
    given = {"nt": equitangents, "stax": stax, "predict": predict, "jax": jax, "key": jax.random.key(0)}
    given |= {"x": x, "x2": x[:2] + 1, "y": x[:, :1], "loss": lambda fx, y: 0.5 * ((fx - y) ** 2).mean()}
    for theirs, verdict, _ in IDIOMS:
        if verdict == "by hand":
            with pytest.raises(NotImplementedError):
                exec(theirs.strip("`"), given)
        else:
            exec(theirs.strip("`"), given)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("stax.Desne(3)", "did you mean 'Dense'?"),
        ("nt.utils.utils.x(3)", "there are no helpers"),
        ("nt._src.batching.batch(mine)", "use the public names"),
        ("stax.FanInProd()", "Θ₁K₂ + K₁Θ₂"),
        ("import neural_tangents._src", "use the public names"),
        ("from neural_tangents import *", "one by one"),
    ],
)
def test_what_needs_a_hand_has_a_reason(text, reason):
    assert [reason in found for kind, found in kinds(text) if kind == "by hand"] == [True]


def test_names_of_other_modules_are_not_looked_up():
    assert not kinds("other.stax.Desne(3)\nimport numpy as np")


def test_imports_alone_change_and_the_rest_stays_to_the_last_byte():
    text = (
        "import os, neural_tangents as nt  # both\r\né = 1; import neural_tangents\r\n"
        "from neural_tangents.stax import (Dense,\r\n    Relu as R)\r\nif é: from neural_tangents import stax, _src\r\n"
        "import neural_tangents.predict as p\r\nnt.stax; R; Dense; p.gp_inference # neural_tangents\r\n"
    )
    assert migrate.migrated(text).text == (
        "import os, equitangents as nt  # both\r\né = 1; import equitangents as neural_tangents\r\n"
        "from equitangents.stax import Dense, Relu as R\r\n"
        "if é: from equitangents import stax; from neural_tangents import _src\r\n"
        "import equitangents.predict as p\r\nnt.stax; R; Dense; p.gp_inference # neural_tangents\r\n"
    )


def test_a_script_is_read_and_never_run(tmp_path, capsys):
    script, out = tmp_path / "old.py", tmp_path / "new.py"
    script.write_bytes("# coding: latin-1\nimport neural_tangents as nt\nopen('ran', 'w'); é = 1\n".encode("latin-1"))
    assert migrate.main([str(script), "--write", str(out)]) == 0
    assert out.read_bytes() == script.read_bytes().replace(b"neural_tangents", b"equitangents")
    assert capsys.readouterr().out == (
        f"{script}:2: replaced: import equitangents as nt\n0 unchanged, 1 replaced, 0 by hand\n"
    )
    script.write_text("from neural_tangents import stax\nstax.Slice[0]\n")
    assert migrate.main([str(script)]) == 1
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [b"def f(:\n", b"\xff\xfe\n", b"(" * 5000, b"x = 'a\0b'\n"])
def test_what_is_no_script_is_one_line(tmp_path, capsys, content):
    script = tmp_path / "old.py"
    script.write_bytes(content)
    for arguments in ([str(script)], [str(tmp_path / "none.py")], [str(script), "--write", str(script)]):
        assert migrate.main(arguments) == 2
        assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(InvalidArgumentError, match="no Python: 'invalid syntax'; line 1"):
        migrate.migrated("def f(:")
    with pytest.raises(InvalidArgumentError, match=r"no Python: .*null"):  # no line is known
        migrate.migrated("x = 'a\0b'")


def test_layers_on_groups_of_the_other_package_are_named_where_imported_and_used():
    text = "from equivariant_ntk.layers import Z2ConvP4 as Lift, P4ConvP4\nimport equivariant_ntk.layers as g\n"
    report = migrate.migrated(text + "Lift(4, (3, 3))\ng.SO3Pool()\nP4ConvP4(4, (3, 3))\n")
    assert {(f.line, f.kind) for f in report.findings} == {(line, "by hand") for line in (1, 2, 3, 4, 5)}
    assert report.text.startswith(text)
    at = {line: " ".join(f.text for f in report.findings if f.line == line) for line in (3, 4, 5)}
    assert "nn.Lift" in at[3]
    assert "twice" in at[3]
    assert "nn.GroupPool" in at[4]
