"""ARCHITECTURE.md names files that are there, every subpackage of the library, and fits two screens."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from grimp import ImportGraph
from tools.contracts import LayersAndRest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
BASES = ("", "src/equitangents", "src/equitangents/kernels/duals")


def missing(text: str) -> list[str]:
    """What looks like a path between backticks and is not there."""
    quoted = {
        name for name in re.findall(r"`([^`\s]+)`", text) if "/" in name or re.search(r"\.(py|md|toml|json)$", name)
    }
    # the two names of a file inside a folder that the row names before
    return sorted(name for name in quoted if not any(_holds_something(ROOT / base / name) for base in BASES))


def _holds_something(path: Path) -> bool:
    """A file, or a folder with more in it than what Python compiled before its files went."""
    return path.is_file() or any(f.is_file() and f.suffix != ".pyc" for f in path.rglob("*"))


def test_every_path_is_there():
    assert len(re.findall(r"`src/[^`]+`", TEXT)) > 40
    assert missing(TEXT) == ["page.py", "study.py"]  # of a new study
    assert missing("`src/equitangents/nn/nowhere.py` and `kernels/nowhere.py`") == [
        "kernels/nowhere.py",
        "src/equitangents/nn/nowhere.py",
    ]


def test_every_subpackage_of_the_contract_stands_in_the_table_on_two_screens():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c.get("containers") == ["equitangents"])
    subpackages = [name for layer in layers for name in layer.split(" | ")]
    subpackages = [name for name in subpackages if (ROOT / "src/equitangents" / name).is_dir()]
    assert len(subpackages) > 20
    assert [name for name in subpackages if f"`{name}`" not in TEXT and f"equitangents/{name}`" not in TEXT] == []
    rows = [line for line in TEXT.split("## To add")[1].splitlines() if line.startswith("| a")]
    assert all(re.fullmatch(r"\d+", row.strip("| ").rsplit("|", 1)[1].strip()) for row in rows)
    assert len(TEXT.splitlines()) <= 90


def test_every_class_has_a_name_of_its_own():
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    names = Counter(node.name for text in files for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    # two public names: the nonlinearity, and what neural-tangents returns
    assert {name for name, count in names.items() if count > 1} == {"Gaussian"}


def kept(*imports, layers=("top", "* | special", "base")):
    graph = ImportGraph()
    for module in ("top", "special", "base", "one", "another", "one.inner"):
        graph.add_module(f"subpackage.{module}")
    graph.add_module("subpackage")
    for importer, imported in imports:
        graph.add_import(importer=f"subpackage.{importer}", imported=f"subpackage.{imported}")
    options = {"layers": list(layers), "containers": ["subpackage"], "exhaustive": "true"}
    return LayersAndRest("name", {"root_packages": ["subpackage"]}, options).check(graph, verbose=False).kept


@pytest.mark.parametrize("arrow", [("top", "one"), ("one.inner", "base"), ("one", "one.inner"), ("top", "base")])
def test_downwards_and_within_itself_a_module_imports_what_it_likes(arrow):
    assert kept(arrow)


@pytest.mark.parametrize("arrow", [("base", "one"), ("one", "top"), ("one", "another"), ("one.inner", "special")])
def test_upwards_and_sideways_no_module_does_also_one_that_is_not_named(arrow):
    assert not kept(arrow)


def test_modules_between_named_layers_may_import_one_another_where_the_layer_says_so():
    assert kept(("one", "another"), layers=("top", "* : special", "base"))
