"""What lay in the library and now lies beside it: the same objects by every way that names them."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
import warnings

import pytest

import equitangents as et
import equitangents_studies
from equitangents import beside
from equitangents.former import former_homes
from equitangents_studies import contenders, data, systems
from equitangents_studies.systems.power_laws import PowerLaw

PLACES = {
    "equitangents.studies": "equitangents_studies",
    "equitangents.studies.framework.claims": "equitangents_studies.framework.claims",
    "equitangents.studies.toy.study": "equitangents_studies.toy.study",
    "equitangents.systems": "equitangents_studies.systems",
    "equitangents.systems.power_laws": "equitangents_studies.systems.power_laws",
    "equitangents.contenders.outcome": "equitangents_studies.contenders.outcome",
    "equitangents.data": "equitangents_studies.data",
}
ROOMS = (systems, data, contenders)
NAMES = [(room, *pair) for room in ROOMS for pair in former_homes(room.__name__, room.FORMER).items()]


def test_attributes_of_the_library_are_the_rooms_beside_it():
    from equitangents import contenders, data, studies, systems

    assert studies is et.studies is equitangents_studies
    for room in (systems, contenders, data):
        assert room is getattr(et, room.__name__.split(".")[1]) is getattr(equitangents_studies, room.__name__[21:])
    assert set(beside.ROOMS) <= set(dir(et))


@pytest.mark.parametrize(("former", "now"), PLACES.items())
def test_a_former_place_is_the_module_of_now_and_says_so_once(former, now):
    sys.modules.pop(former, None)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = importlib.import_module(former)
    assert found is importlib.import_module(now)
    assert (found.__name__, found.__spec__.name) == (now, now)
    assert all(word.category is DeprecationWarning for word in said)
    assert [str(word.message).startswith(f"{former} is now {now}; ") for word in said][-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert importlib.import_module(former) is found


def test_what_was_pickled_under_a_former_name_is_read():
    law = et.systems.fit_power_law([10, 20, 40, 80, 160], [1.0, 0.7, 0.5, 0.36, 0.25])
    kept = pickle.dumps(law, protocol=0)
    former = kept.replace(b"cequitangents_studies.systems.", b"cequitangents.systems.")
    assert former != kept
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = pickle.loads(former)
    assert type(found) is PowerLaw
    assert str(found) == str(law)


@pytest.mark.parametrize("name", ["equitangents.system", "equitangents.datasets", "equitangents.systems.power_law"])
def test_other_names_are_as_unknown_as_before(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with pytest.raises(ModuleNotFoundError, match=r"power_law|system|datasets"):
            importlib.import_module(name)


def test_the_line_that_imports_is_named(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("import equitangents\n\nfrom equitangents.data import digits\n")
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    assert "mine.py:3: DeprecationWarning: equitangents.data is now equitangents_studies.data" in done.stderr


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


@pytest.mark.parametrize(("room", "name", "home"), NAMES, ids=lambda part: getattr(part, "__name__", part))
def test_a_former_name_warns_where_it_is_used_and_is_the_same_object(room, name, home):
    with pytest.warns(DeprecationWarning, match=rf"{room.__name__}\.{name} is now {home}\.{name}; ") as seen:
        found = getattr(room, name)
    assert seen[0].filename == __file__
    assert found is getattr(importlib.import_module(home), name)
    assert name not in room.__all__


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_other_names_are_unknown_and_say_so(room):
    with pytest.raises(AttributeError, match="Nothing"):
        _ = room.Nothing
