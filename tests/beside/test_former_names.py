"""What rooms beside the library had under public names one version ago: it warns, and is what it was."""

from __future__ import annotations

import importlib

import pytest

from equitangents.former import former_homes
from equitangents_studies import contenders, data, systems

ROOMS = (systems, data, contenders)
NAMES = [(room, *pair) for room in ROOMS for pair in former_homes(room.__name__, room.FORMER).items()]


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
