"""Faults drawn at random can be planted, are those of their seed, and change what the function does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tools.mutate.drawn import draw

SOURCE = '''"""A module."""


def area(width: float, height: float = 1) -> float:
    """The area, which is 0 or more."""
    if width < 0 or height < 0:
        raise ValueError(f"{width + 1} × {height}")
    return max(width * height, 0.5)
'''


@pytest.fixture
def project(tmp_path):
    for name, text in {
        "src/equitangents/shapes/areas.py": SOURCE,
        "tests/shapes/test_areas.py": "area(1, 2)",
        "tests/shapes/test_lines.py": "",
        "tests/other/test_other.py": "",
        "tests/browser/test_pages.py": "area",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_a_fault_changes_the_body_alone_and_still_compiles(project):
    seen = set()
    for seed in range(60):
        (fault,) = draw(project, 5, seed)
        changed = fault.planted(SOURCE)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))
        assert "height: float = 1) -> float" in changed
        assert '"""The area, which is 0 or more."""' in changed
        assert 'f"{width + 1} × {height}"' in changed
        seen.add(changed)
    assert len(seen) >= 8


def test_a_seed_gives_the_same_faults(project):
    assert draw(project, 1, 3) == draw(project, 1, 3)


def test_tests_that_name_the_function_come_first_and_other_folders_follow_none(project):
    (fault,) = draw(project, 1, 0)
    assert fault.package == "shapes"
    assert fault.tests[0] == "tests/shapes/test_areas.py"
    assert fault.wide == ("tests/shapes/test_areas.py", "tests/shapes/test_lines.py")


@pytest.mark.slow
def test_faults_of_the_project_can_be_planted():
    root = Path(__file__).parents[2]
    for fault in draw(root, 3, 1):
        assert fault.planted((root / fault.path).read_text())
        assert (root / fault.tests[0]).exists()
