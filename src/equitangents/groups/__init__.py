"""Finite groups, their subgroups and representations; SO(2), O(2), SO(3), O(3) and S_n of any n by sampled elements."""

from equitangents.groups.families import (
    cyclic,
    dihedral,
    direct_product,
    from_permutations,
    generated_by_permutations,
    icosahedral,
    octahedral,
    permutations,
    quaternion,
    symmetric,
    tetrahedral,
)
from equitangents.groups.group import Group, from_table
from equitangents.groups.matrix_group import MatrixGroup, from_matrices
from equitangents.groups.names import group_named
from equitangents.groups.plane_rotations import o2, so2
from equitangents.groups.representations import direct_sum, regular
from equitangents.groups.rotation_group import o3, so3
from equitangents.groups.symmetry_group import SymmetryGroup
from equitangents.groups.wallpaper_group import WallpaperGroup, translations, wallpaper

__all__ = [
    "Group",
    "MatrixGroup",
    "SymmetryGroup",
    "WallpaperGroup",
    "cyclic",
    "dihedral",
    "direct_product",
    "direct_sum",
    "from_matrices",
    "from_permutations",
    "from_table",
    "generated_by_permutations",
    "group_named",
    "icosahedral",
    "o2",
    "o3",
    "octahedral",
    "permutations",
    "quaternion",
    "regular",
    "so2",
    "so3",
    "symmetric",
    "tetrahedral",
    "translations",
    "wallpaper",
]
