"""Interfaces of maps (g, x) ↦ ρ(g) x.

The actions of `equitangents.actions` are such maps, and so is a user's own object that has a group and can be called.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from equitangents._aliases import Element, Tree
from equitangents.groups.group import Group
from equitangents.groups.symmetry_group import SymmetryGroup


@runtime_checkable
class GroupMap(Protocol):
    """A map (g, x) ↦ ρ(g) x of a group, finite or compact."""

    @property
    def group(self) -> SymmetryGroup:
        """The group whose elements move arrays."""

    def __call__(self, g: Element, x: Tree, /) -> Tree:
        """ρ(g) x for arrays x (N, …)."""


@runtime_checkable
class FiniteGroupMap(Protocol):
    """A map (g, x) ↦ ρ(g) x of a finite group, whose elements are numbered."""

    @property
    def group(self) -> Group:
        """The group whose elements move arrays."""

    def __call__(self, g: int, x: Tree, /) -> Tree:
        """ρ(g) x for arrays x (N, …)."""


class OrbitMap(Protocol):
    """An action of a finite group, or of some of its elements, with an orbit."""

    def orbit(self, x: Tree, /) -> Tree:
        """ρ(g) x along a new first axis, for all elements of the action."""
