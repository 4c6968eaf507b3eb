"""Signals on the sphere: real harmonics, grids with exact quadrature, rotations, zonal filters."""

from equitangents.sphere.directions import from_directions, from_profile
from equitangents.sphere.grids import SphereGrid, driscoll_healy, gauss_legendre
from equitangents.sphere.harmonics import degrees, harmonics, orders
from equitangents.sphere.transforms import Projection, evaluate, from_grid, project, to_grid
from equitangents.sphere.wigner import rotate, wigner
from equitangents.sphere.zonal import legendre_coefficients, zonal_filter

__all__ = [
    "Projection",
    "SphereGrid",
    "degrees",
    "driscoll_healy",
    "evaluate",
    "from_directions",
    "from_grid",
    "from_profile",
    "gauss_legendre",
    "harmonics",
    "legendre_coefficients",
    "orders",
    "project",
    "rotate",
    "to_grid",
    "wigner",
    "zonal_filter",
]
