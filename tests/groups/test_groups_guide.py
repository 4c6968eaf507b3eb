"""The examples in the guide to groups, and in the docstrings, run as they are printed."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

from equitangents import groups

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "groups.md"


def test_guide():
    result = doctest.testfile(str(GUIDE), module_relative=False, encoding="utf-8")
    assert result.attempted > 10
    assert result.failed == 0


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(groups.__path__)])
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(f"equitangents.groups.{name}")).failed == 0
