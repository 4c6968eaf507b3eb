"""The examples in the guide to actions, and in the docstrings, run as they are printed."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

from equitangents import actions

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "actions.md"


def test_guide():
    result = doctest.testfile(str(GUIDE), module_relative=False, encoding="utf-8")
    assert result.attempted > 10
    assert result.failed == 0


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(actions.__path__)])
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(f"equitangents.actions.{name}")).failed == 0
