"""What a model answered for inputs and for the same inputs moved, output by output, and how far apart these are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents.audit.contract.leaf_actions import LeafAction
from equitangents.audit.measure.orbits import Orbits
from equitangents.audit.measure.spread import RunningSpread
from equitangents.metrics.measure import norms


@dataclass(frozen=True, eq=False)
class Pairs:
    """One output: y = f(x), and z[k] = f(ρ(g_k) x) for some elements; class numbers as one column a class."""

    elements: list[Any]
    y: Float[np.ndarray, " n *shape"]
    z: list[np.ndarray]
    classes: bool
    """Whether these are class numbers."""

    def rows(self, chosen: np.ndarray) -> Pairs:
        """The pairs of some of the inputs."""
        return replace(self, y=self.y[chosen], z=[z[chosen] for z in self.z])

    def apart(self, action: LeafAction | None, inverse: Any = None) -> Float[np.ndarray, "E n"]:
        """‖f(ρ(g)x) − ρ_Y(g) f(x)‖ of every element and input; of class numbers 1 where the class is another.

        `inverse`: a function of elements; what it makes of g acts in place of g.
        """
        found = []
        for g, z in zip(self.elements, self.z, strict=True):
            h = g if inverse is None else inverse(g)
            expected = self.y if action is None else action.act(h, self.y)
            found.append(norms(z - expected))
        return np.array(found) if not self.classes else np.array(found).astype(bool).astype(np.float64)

    def predictions_agree(self, action: LeafAction | None) -> Float[np.ndarray, "E n"]:
        """1 where the largest of f(ρ(g)x) is that of ρ_Y(g) f(x), else 0; of scores, one column a class."""
        expected = [self.y if action is None else action.act(g, self.y) for g in self.elements]
        same = [z.argmax(axis=1) == e.argmax(axis=1) for z, e in zip(self.z, expected, strict=True)]
        return np.array(same).astype(np.float64)

    def sizes(self) -> Float[np.ndarray, " n"]:
        """‖f(x)‖; of class numbers 1."""
        return norms(self.y)

    def spread(self) -> float:
        """How far outputs differ between the inputs and their moved copies; 0 for one input."""
        found = RunningSpread(1 + len(self.z))
        for part in (self.y, *self.z):
            found.add(part.reshape(len(part), -1))
        return found.value if len(self.y) > 1 else 0.0


def pairs_of(orbits: Orbits, elements: list[Any], o: int, chosen: list[int]) -> Pairs:
    """Output `o` of a measured pass, under the elements at the positions `chosen`; any action is taken back."""
    widths = [int(np.prod(shape)) for shape in orbits.output_shapes]
    at = sum(widths[:o])
    part = orbits.signals[:, :, at : at + widths[o]].reshape(*orbits.signals.shape[:2], *orbits.output_shapes[o])
    action = orbits.actions[o]
    moved = [
        part[k + 1] if action is None else action.act(elements[k], np.ascontiguousarray(part[k + 1])) for k in chosen
    ]
    return Pairs([elements[k] for k in chosen], part[0], moved, bool(orbits.class_numbers[o]))
