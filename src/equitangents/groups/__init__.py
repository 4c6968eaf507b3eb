"""Finite groups, their subgroups and irreducible representations; the rotation groups, sampled."""

from equitangents.groups.families import cyclic, dihedral, quaternion, symmetric
from equitangents.groups.group import Group
from equitangents.groups.irreps import Irrep
from equitangents.groups.matrix_group import MatrixGroup, from_matrices, generated_by_matrices
from equitangents.groups.permutation_groups import from_permutations, generated_by_permutations
from equitangents.groups.products import direct_product, semidirect_product
from equitangents.groups.rotation_group import RotationGroup, o3, so3
from equitangents.groups.solids import icosahedral, octahedral, tetrahedral
from equitangents.groups.subgroup import Subgroup
from equitangents.groups.table_group import TableGroup, from_table
from equitangents.groups.translation_group import TranslationGroup, translations
from equitangents.groups.wallpaper_group import WallpaperGroup, wallpaper

__all__ = [
    "Group",
    "Irrep",
    "MatrixGroup",
    "RotationGroup",
    "Subgroup",
    "TableGroup",
    "TranslationGroup",
    "WallpaperGroup",
    "cyclic",
    "dihedral",
    "direct_product",
    "from_matrices",
    "from_permutations",
    "from_table",
    "generated_by_matrices",
    "generated_by_permutations",
    "icosahedral",
    "o3",
    "octahedral",
    "quaternion",
    "semidirect_product",
    "so3",
    "symmetric",
    "tetrahedral",
    "translations",
    "wallpaper",
]
