"""How finite groups act on images, positions, vectors, point clouds, channels and labels."""

from equitangents.actions.action import Action
from equitangents.actions.images import image_dihedral
from equitangents.actions.positions import grid, permutations, translations
from equitangents.actions.rotated_images import image_rotations
from equitangents.actions.vectors import channels, labels, linear, rotations, trivial

__all__ = [
    "Action",
    "channels",
    "grid",
    "image_dihedral",
    "image_rotations",
    "labels",
    "linear",
    "permutations",
    "rotations",
    "translations",
    "trivial",
]
