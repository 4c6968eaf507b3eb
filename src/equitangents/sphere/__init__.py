"""Signals on the sphere: real harmonics, grids with exact quadrature, rotations, zonal filters."""

from equitangents.sphere.directions import from_directions
from equitangents.sphere.harmonics import degrees, harmonics
from equitangents.sphere.transforms import (
    from_grid,
    gauss_legendre,
    project,
    rotate,
    to_grid,
    wigner,
)

__all__ = [
    "degrees",
    "from_directions",
    "from_grid",
    "gauss_legendre",
    "harmonics",
    "project",
    "rotate",
    "to_grid",
    "wigner",
]
