"""Signals on the sphere: real harmonics, grids with exact quadrature, rotations, zonal filters."""

from equitangents.sphere.directions import from_directions, from_profile
from equitangents.sphere.grids import driscoll_healy, gauss_legendre
from equitangents.sphere.harmonics import degrees, harmonics, orders
from equitangents.sphere.transforms import evaluate, from_grid, project, to_grid
from equitangents.sphere.wigner import rotate, wigner
from equitangents.sphere.zonal import zonal_filter

__all__ = [
    "degrees",
    "driscoll_healy",
    "evaluate",
    "from_directions",
    "from_grid",
    "from_profile",
    "gauss_legendre",
    "harmonics",
    "orders",
    "project",
    "rotate",
    "to_grid",
    "wigner",
    "zonal_filter",
]
