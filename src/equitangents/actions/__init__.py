"""How finite groups act on images, positions, vectors, point clouds, channels and labels."""

from equitangents.actions.action import Action, RoundTrip
from equitangents.actions.functions import from_function
from equitangents.actions.images import image_dihedral
from equitangents.actions.positions import grid, permutations, translations
from equitangents.actions.products import direct_sum, pullback, restrict, tensor_product
from equitangents.actions.rotated_images import image_rotations
from equitangents.actions.vectors import channels, labels, linear, rotations, trivial

__all__ = [
    "Action",
    "RoundTrip",
    "channels",
    "direct_sum",
    "from_function",
    "grid",
    "image_dihedral",
    "image_rotations",
    "labels",
    "linear",
    "permutations",
    "pullback",
    "restrict",
    "rotations",
    "tensor_product",
    "translations",
    "trivial",
]
