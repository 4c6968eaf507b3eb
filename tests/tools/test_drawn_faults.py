"""Faults drawn at random can be planted, are those of their seed, and change what the function does."""

from __future__ import annotations

import ast
import builtins
import itertools
from pathlib import Path

import pytest
from tools.mutate.drawn import draw, span
from tools.mutate.faults import Fault, explained
from tools.mutate.switches import with_switches

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


def test_the_reason_of_a_listed_fault_holds_for_a_drawn_one_that_is_the_same_change(project):
    (drawn,) = draw(project, 1, 3)
    source = (project / drawn.path).read_text()
    same = Fault("p", drawn.path, "", source, drawn.planted(source), (), (), reason="why")
    other = Fault("p", drawn.path, "", "max(", "min(", (), (), reason="not this one")
    assert [fault.reason for fault in explained([drawn], [other, same], project)] == ["why"]
    assert [fault.reason for fault in explained([drawn], [other], project)] == [None]


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


def outcomes(source: str) -> list[str]:
    """What `area` gives, or raises, by the arguments."""
    there: dict[str, object] = {}
    exec(source, there)
    found = []
    for width, height in itertools.product((-1, 0, 0.25, 1, 3), repeat=2):
        try:
            found.append(repr(there["area"](width, height)))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def test_a_switch_that_is_off_changes_nothing_and_one_that_is_on_is_the_fault(project, monkeypatch):
    faults = [fault for seed in range(20) for fault in draw(project, 1, seed)]
    assert len({fault.name for fault in faults}) >= 7
    for number, fault in enumerate(faults):
        source, there = with_switches(SOURCE, [(number, fault)])
        assert there == [number]
        for on, expected in ((number, fault.planted(SOURCE)), (number + 1, SOURCE)):
            monkeypatch.setattr(builtins, "eqt_fault", lambda asked, on=on: asked == on, raising=False)
            assert outcomes(source) == outcomes(expected), fault.name


def test_faults_that_overlap_are_not_planted_together(project):
    faults = [fault for seed in range(20) for fault in draw(project, 1, seed)]
    source, there = with_switches(SOURCE, list(enumerate(faults)))
    ast.parse(source)
    assert 1 <= len(there) < len(faults)
    spans = sorted(span(SOURCE, faults[number].place) for number in there)
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))


def test_a_statement_left_out_stands_behind_its_switch():
    text = "def f(a):\n    a.append(\n        1)\n    if a: a.append(2)\n"
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    faults = [
        Fault(
            "p",
            "f.py",
            str(i),
            "",
            "",
            (),
            (),
            place=(c.lineno, c.col_offset, c.end_lineno, c.end_col_offset),
            becomes="pass",
        )
        for i, c in enumerate(calls)
    ]
    source, there = with_switches(text, list(enumerate(faults)))
    assert source == "def f(a):\n    if not eqt_fault(0): a.append(\n        1)\n    if a: a.append(2)\n"
    assert there == [0]
