"""Actions y ↦ ρ(g) y on outputs (N, d) by a representation."""

from __future__ import annotations

import numpy as np

from equitangents._types import AnyAction
from equitangents.actions.given_maps import MatrixAction
from equitangents.actions.group_action import GroupAction
from equitangents.actions.vectors import linear
from equitangents.groups import Group, SymmetryGroup
from equitangents.groups.irreps import Irrep
from equitangents.groups.representations import Representation, RepresentationLike, as_representation
from equitangents.groups.symmetry_group import CompactIrrep


def represented(group: SymmetryGroup, representation: RepresentationLike) -> GroupAction:
    """The action of a group on vectors (N, d) by a representation: an irrep, a list of irreps, or matrices.

    Of a compact group, elements are given or drawn; of a finite one all are known. Irreps of SO(2), O(2), SO(3) and
    O(3) act for finite groups of rotations, too, as in `nn.Readout`.

    >>> from equitangents import groups
    >>> S3 = groups.symmetric(3)
    >>> represented(S3, S3.irreps("real")[2])(1, np.eye(2)).shape
    (2, 2)
    """
    found = as_representation("representation", representation)
    if isinstance(group, Group):
        return linear(group, found.at(group))
    found.at(group)  # raises where it is of another group
    return MatrixAction(group, found, found.dimension, f"vectors of the {found!r}".replace("<", "").replace(">", ""))


def as_output_action(given: AnyAction, group: SymmetryGroup) -> AnyAction:
    """`given` itself, or the action on outputs if it is a representation or matrices (order, d, d)."""
    if isinstance(given, Irrep | CompactIrrep | Representation) or (isinstance(given, np.ndarray) and given.ndim == 3):
        return represented(group, given)
    return given
