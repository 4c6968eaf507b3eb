"""A file from a stranger runs nothing: no command, no import, nothing written elsewhere."""

from __future__ import annotations

import importlib
import pickle
import shutil
import sys
import traceback
import warnings
from pathlib import Path

import pytest
from hostile import Hostile, Planted
from kinds_of_files import KINDS, made
from watch import watched

from equitangents.errors import EquitangentsError


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a module that must not be imported."""
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "planted_module.py").write_text(f"with open({str(folder / 'planted')!r}, 'w'):\n    Thing = int\n")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


def run(place: Path, seeds: range, names: list[str] | None = None) -> tuple[list[str], int]:
    """(what hostile files brought about, in words, how many were used without an error)."""
    told, passed = [], 0
    command = f"touch {place / 'planted'}"
    names = list(KINDS) if names is None else names
    for seed in seeds:
        name = names[seed % len(names)]
        folder = place / "drawn"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        valid, path = made(name, place), folder / name
        shutil.copytree(valid, path) if valid.is_dir() else shutil.copyfile(valid, path)
        how = Hostile(seed, command).spoil(path)
        with watched(folder) as seen, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                KINDS[name].use(path)
                passed += 1
            except EquitangentsError as error:
                told += [f"{seed} {name} {how}: {len(str(error))} letters: {error!r:.300}"] * ("\n" in str(error))
            except (AttributeError, TypeError, ValueError, IndexError, ArithmeticError):
                if not name.startswith(("model", "deep")):  # of a model that is none, what its predictions meet
                    told.append(f"{seed} {name} {how}: {traceback.format_exc()}")
            except Exception:
                told.append(f"{seed} {name} {how}: {traceback.format_exc()}")
        told += [f"{seed} {name} {how}: {what}" for what in seen]
        if (place / "planted").exists():
            told.append(f"{seed} {name} {how}: the planted command has run")
            (place / "planted").unlink()
    return told, passed


@pytest.mark.slow
def test_500_hostile_files_do_nothing(place):
    told, passed = run(place, range(1000, 1500))
    assert told == []
    assert passed < 300


def test_the_watch_sees_commands_imports_pickles_and_changes_elsewhere(place):
    allowed = place / "allowed"
    allowed.mkdir(exist_ok=True)
    pickled = pickle.dumps(Planted(f"touch {place / 'planted'}"))
    with watched(allowed) as seen:
        (allowed / "inside").write_text("x")
        assert seen == []
        pickle.loads(pickled)
        importlib.import_module("planted_module")
        (place / "outside").write_text("x")
        (place / "outside").rename(place / "elsewhere")
    told = "\n".join(seen)
    assert all(word in told for word in ("os.system", "unpickled", "imported planted_module", "wrote", "os.rename"))
    (place / "planted").unlink()
