"""A contract of layers that takes the modules that none of them names: a new one is held to it without an entry."""

import pytest
from grimp import ImportGraph
from tools.contracts import LayersAndRest


def kept(*imports, layers=("top", "* | special", "base")):
    graph = ImportGraph()
    for module in ("top", "special", "base", "one", "another", "one.inner"):
        graph.add_module(f"room.{module}")
    graph.add_module("room")
    for importer, imported in imports:
        graph.add_import(importer=f"room.{importer}", imported=f"room.{imported}")
    options = {"layers": list(layers), "containers": ["room"], "exhaustive": "true"}
    return LayersAndRest("name", {"root_packages": ["room"]}, options).check(graph, verbose=False).kept


@pytest.mark.parametrize("arrow", [("top", "one"), ("one.inner", "base"), ("one", "one.inner"), ("top", "base")])
def test_downwards_and_within_itself_a_module_imports_what_it_likes(arrow):
    assert kept(arrow)


@pytest.mark.parametrize("arrow", [("base", "one"), ("one", "top"), ("one", "another"), ("one.inner", "special")])
def test_upwards_and_sideways_no_module_does_also_one_that_is_not_named(arrow):
    assert not kept(arrow)


def test_modules_between_named_layers_may_import_one_another_where_the_layer_says_so():
    assert kept(("one", "another"), layers=("top", "* : special", "base"))
