"""The public face: strict type checkers see it, and stubs name what there is."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import equitangents

ROOT = Path(__file__).parents[2]
LAZY = (
    *(f"equitangents{room}" for room in ("", ".ensembles", ".testing", ".torch")),
    *("equitangents_studies", "equitangents_studies.systems"),
)


@pytest.mark.slow
def test_strict_mypy_of_a_users_file_passes_right_uses_and_sees_wrong_ones(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text((ROOT / "tests/typing/front_door.py").read_text())
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(file)]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("name", LAZY)
def test_a_stub_lists_what_it_imports_and_all_of_it_is_there(name):
    package = importlib.import_module(name)
    tree = ast.parse(Path(package.__file__ or "").with_suffix(".pyi").read_text())
    imported = {a.name for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names}
    imported |= {a.asname for node in tree.body if isinstance(node, ast.Import) for a in node.names} - {"_audit"}
    declared = {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    (listed,) = (ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
    assert set(listed) == imported | declared == set(dir(package)) == set(package.__all__)
    assert len(listed) == len(set(listed))
    for public in listed:
        assert getattr(package, public) is not None


def test_the_package_audit_is_called_and_has_its_names_as_attributes_of_its_class():
    audit = equitangents.audit
    for public in audit.__all__:
        assert getattr(type(audit), public) is getattr(audit, public)
    assert type(audit).__call__ is audit.audit
