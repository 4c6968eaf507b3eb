"""The companion package imports subpackages of the library and names of their `__all__`: what users can import."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import equitangents
import equitangents_studies

PACKAGE = Path(equitangents_studies.__file__).parent
SOURCES = sorted(path for path in PACKAGE.rglob("*.py*") if path.suffix in {".py", ".pyi"})  # and no bytecode
SUBPACKAGES = {name for name in equitangents.__all__ if isinstance(getattr(equitangents, name), ModuleType)}


def names_of(subpackage: str) -> set[str]:
    """What is public in the library or one of its subpackages."""
    return set(
        equitangents.__all__ if not subpackage else importlib.import_module(f"equitangents.{subpackage}").__all__
    )


def inner_names(text: str) -> Iterator[str]:
    """What a file imports of the library, or reads off one of its subpackages, that no user should."""
    tree = ast.parse(text)
    bound = {}  # names of this file that are the library or a subpackage of it
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "equitangents":
            _, _, subpackage = (node.module or "").partition(".")
            for alias in node.names:
                if subpackage not in {"", *SUBPACKAGES} or alias.name not in names_of(subpackage):
                    yield f"{node.module}.{alias.name}"
                elif not subpackage and alias.name in SUBPACKAGES:
                    bound[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                library, _, subpackage = alias.name.partition(".")
                if library == "equitangents" and subpackage not in {"", *SUBPACKAGES}:
                    yield alias.name
                elif library == "equitangents":
                    bound[alias.asname or library] = subpackage if alias.asname else ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in bound:
            subpackage = bound[node.value.id]
            if node.attr not in names_of(subpackage):
                yield f"equitangents.{subpackage}.{node.attr}".replace("..", ".")


def test_there_is_something_to_read():
    assert len(SOURCES) > 80
    assert {"nn", "extending", "errors", "kernels"} <= SUBPACKAGES
    assert sum("from equitangents" in path.read_text(encoding="utf-8") for path in SOURCES) > 60


@pytest.mark.slow
def test_no_file_imports_what_users_cannot():
    found = {path.name: inner for path in SOURCES if (inner := list(inner_names(path.read_text(encoding="utf-8"))))}
    assert found == {}


def private_names(text: str) -> set[str]:
    """Attributes that begin with an underscore, and that the file does not make itself."""
    nodes = list(ast.walk(ast.parse(text)))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    own |= {n.target.id for n in nodes if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return {name for name in read - own if name.startswith("_") and not name.startswith("__")}


@pytest.mark.slow
def test_no_file_reads_what_objects_keep_to_themselves():
    assert private_names("group._compose(a, b)") == {"_compose"}
    found = {path.name: inner for path in SOURCES if (inner := private_names(path.read_text(encoding="utf-8")))}
    assert found == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from equitangents.nn.layer import Layer", "equitangents.nn.layer.Layer"),
        ("from equitangents.nn import sequential", "equitangents.nn.sequential"),
        ("from equitangents import files", "equitangents.files"),
        ("from equitangents._types import ArrayLike", "equitangents._types.ArrayLike"),
        ("def f():\n    import equitangents.kernels.cost", "equitangents.kernels.cost"),
        ("from equitangents import kernels\nkernels.engines.engines()", "equitangents.kernels.engines"),
        ("import equitangents as et\net.validation.check_whole", "equitangents.validation"),
        ("import equitangents.nn as N\nN.layer.Layer", "equitangents.nn.layer"),
    ],
)
def test_a_planted_import_is_seen(text, found):
    assert list(inner_names(text)) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "from equitangents import nn\nnn.Dense(1)",
        "import equitangents as et\net.nn",
        "from equitangents_studies import data",
    ],
)
def test_public_names_pass(text):
    assert list(inner_names(text)) == []


def test_tools_for_packages_built_on_the_library_are_those_of_where_they_live():
    from equitangents import extending, files, precision

    assert extending.atomic_file is files.atomic_file
    assert extending.precision is precision
    assert set(dir(extending)) == set(extending.__all__)
    for name in extending.__all__:
        assert getattr(extending, name) is not None
    with pytest.raises(AttributeError, match="whole_fil"):
        extending.whole_fil
