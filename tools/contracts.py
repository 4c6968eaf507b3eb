"""A kind of contract of import-linter: layers, one of which takes the modules that no layer names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grimp import ImportGraph
from importlinter.contracts.layers import Layer, LayersContract, ModuleTail
from importlinter.domain.contract import ContractCheck

REST = ModuleTail("*")


class LayersAndRest(LayersContract):
    """`layers`, in which `*` stands for every module of the containers that no layer names.

    A new module (a study, an engine, a layer of networks) is held to the contract without an entry of its own.
    """

    type_name = "layers_and_rest"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Whether the imports of all modules go downwards."""
        contract: Any = self  # whose fields are made when it is
        named = {tail.name for layer in contract.layers for tail in layer.module_tails}
        children = {child for container in contract.containers for child in graph.find_children(str(container))}
        rest = {child.rsplit(".", 1)[1] for child in children} - named
        contract.layers = [_filled(layer, rest) for layer in contract.layers]
        return super().check(graph, verbose)


def _filled(layer: Layer, rest: set[str]) -> Layer:
    if REST not in layer.module_tails:
        return layer
    tails = layer.module_tails - {REST} | {ModuleTail(name, is_optional=True) for name in rest}
    return replace(layer, module_tails=tails)
