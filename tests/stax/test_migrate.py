"""`python -m equitangents.stax.migrate`: what it says of a script is what it meets here; imports alone change."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jax
import numpy as np
import pytest

import equitangents
import equitangents.functional as functional
from equitangents import predict, stax
from equitangents.errors import InvalidArgumentError
from equitangents.stax import migrate, missing
from equitangents.stax.missing import Missing

GUIDE = Path(__file__).parents[2] / "docs/guide/neural-tangents.md"
BLOCK = re.search(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
IDIOMS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in GUIDE.read_text("utf-8").partition("## Twenty idioms")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| `")
]
START = "import neural_tangents as nt\nfrom neural_tangents import predict, stax\n"


def kinds(text: str) -> list[tuple[str, str]]:
    """(kind, text) of what is said below the imports."""
    return [(f.kind, f.text) for f in migrate.migrated(START + text).findings if f.line > 2]


def test_the_example_of_the_guide_comes_out_as_it_stands_there():
    assert BLOCK is not None
    ours = BLOCK[1]
    report = migrate.migrated(ours.replace("equitangents", "neural_tangents"))
    assert report.text == ours
    assert {finding.kind for finding in report.findings} == {"replaced", "unchanged"}


@pytest.mark.parametrize("module", [stax, predict], ids=["stax", "predict"])
def test_every_public_name_is_unchanged_or_says_what_calling_it_says(module):
    room = module.__name__.rpartition(".")[2]
    absent = set(missing.ABSENT) - {"utils", "experimental"} if module is stax else set()
    assert not absent & set(module.__all__)
    for name in (*module.__all__, *sorted(absent)):
        ((kind, text),) = kinds(f"print({room}.{name})")
        found = getattr(module, name)
        assert kind == ("by hand" if name in absent else "unchanged")
        assert isinstance(found, Missing) == (name in absent)
        if isinstance(found, Missing):
            with pytest.raises(NotImplementedError) as refused:
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
    ("text", "said"),
    [
        ("stax.Elementwise(nngp_fn=mine)", "takes a function fn alone"),
        ("nt.empirical_ntk_fn(mine, vmap_axes=1)", "vmap_axes=1 is not here"),
        ("stax.Conv(3, (3, 3), dimension_numbers=('NHWC', 'HWIO', 'NWHC'))", "move the axes"),
        ("stax.Dense(3, wstd=1)", "unexpected keyword argument 'wstd'"),
        ("stax.Desne(3)", "did you mean 'Dense'?"),
        ("nt.utils.utils.x(3)", "there are no helpers"),
        ("nt._src.batching.batch(mine)", "use the public names"),
        ("importlib.import_module('neural_tangents.stax')", "say 'equitangents.stax'"),
    ],
)
def test_what_needs_a_hand_says_why(text, said):
    assert [said in told for kind, told in kinds(text) if kind == "by hand"] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "stax.Aggregate(implementation=mine)",
        "stax.Conv(width, filter_shape, padding=mine)",
        "nt.empirical_ntk_fn(mine, vmap_axes=0, implementation=nt.NtkImplementation.JACOBIAN_CONTRACTION)",
        "stax.Dense(*mine, **more)",
        "other.stax.Desne(3)",
    ],
)
def test_what_the_script_does_not_state_is_not_held_against_it(text):
    assert all(kind == "unchanged" for kind, _ in kinds(text))


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
        f"{script}:2: replaced: import equitangents as nt\n"
        f"{script}: 0 uses unchanged, 1 imports replaced, 0 need a hand\n"
        f"written: {out}\n"
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


def test_names_are_looked_up_where_users_import_them():
    assert {"stax", "predict", *functional.__all__} - {"EmpiricalKernel"} <= set(equitangents.__all__) | {
        "ntk_vector_product"
    }
    ast.parse(START)


def test_layers_on_groups_of_the_other_package_are_named_where_imported_and_used():
    text = "from equivariant_ntk.layers import Z2ConvP4 as Lift, P4ConvP4\nimport equivariant_ntk.layers as g\n"
    report = migrate.migrated(text + "Lift(4, (3, 3))\ng.SO3Pool()\nP4ConvP4(4, (3, 3))\n")
    said = {(f.line, f.kind) for f in report.findings}
    assert said == {(line, "by hand") for line in (1, 2, 3, 4, 5)}
    assert report.text.startswith(text)
    at = {line: " ".join(f.text for f in report.findings if f.line == line) for line in (3, 4, 5)}
    assert "nn.Lift" in at[3]
    assert "nn.GroupPool" in at[4]
    assert ["twice" in at[line] for line in (3, 4, 5)] == [True, False, False]


def test_ours_for_layers_on_groups_are_there():
    for ours in missing.GROUP_LAYERS.values():
        for name in re.findall(r"nn\.(\w+)", ours):
            assert name in equitangents.nn.__all__


def test_products_of_branches_are_not_advised_to_be_sums():
    ((_, text),) = kinds("stax.FanInProd()")
    assert "Sum" not in text
    assert "Θ₁K₂ + K₁Θ₂" in text
