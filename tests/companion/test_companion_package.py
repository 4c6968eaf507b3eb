"""The companion package: its subpackages by the library's names, and the library without them."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import equitangents as et
import equitangents_studies


def test_attributes_of_the_library_are_the_subpackages_of_the_companion():
    from equitangents import baselines, data, studies, systems

    assert studies is et.studies is equitangents_studies
    for module in (systems, baselines, data):
        name = module.__name__.split(".")[1]
        assert module is getattr(et, name) is getattr(equitangents_studies, name)
        with pytest.raises(AttributeError, match="Nothing"):
            _ = module.Nothing
    assert {"systems", "baselines", "data", "studies"} <= set(dir(et))


def test_modules_of_the_companion_have_one_name():
    with pytest.raises(ModuleNotFoundError, match="systems"):
        importlib.import_module("equitangents.systems")


def test_the_library_alone_starts_and_has_no_commands_of_studies():
    text = """
import sys
sys.modules["equitangents_studies"] = None
import typer
from equitangents.cli.main import app
words = typer.main.get_command(app).commands
assert "audit" in words and "reproduce" not in words
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
