"""Actions of groups on images, positions, vectors, point clouds, channels and labels."""

from equitangents.actions.action import Action, GroupAction
from equitangents.actions.compact import CompactAction, from_function
from equitangents.actions.images import image_dihedral, image_rotations
from equitangents.actions.kinds import as_action
from equitangents.actions.positions import grid, permutations, translations
from equitangents.actions.products import direct_sum, restrict, tensor_product
from equitangents.actions.rings import ring_rotations, rotate_rings, to_rings
from equitangents.actions.subset import sampled, subset
from equitangents.actions.vectors import channels, labels, linear, represented, rotations, trivial

__all__ = [
    "Action",
    "CompactAction",
    "GroupAction",
    "as_action",
    "channels",
    "direct_sum",
    "from_function",
    "grid",
    "image_dihedral",
    "image_rotations",
    "labels",
    "linear",
    "permutations",
    "represented",
    "restrict",
    "ring_rotations",
    "rotate_rings",
    "rotations",
    "sampled",
    "subset",
    "tensor_product",
    "to_rings",
    "translations",
    "trivial",
]
