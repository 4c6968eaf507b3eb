"""Kernels between inputs and their copies under a finite group: Θ_g(x, x′) = Θ(x, ρ(g)x′), each pair of inputs once.

Of an invariant kernel Θ_{g⁻¹} = Θ_gᵀ, the mean over a subgroup H is the kernel of the network invariant under H, and
(g, i), (h, j) ↦ Θ_{g⁻¹h}(x_i, x_j) that of all copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents.actions import Action, as_action, check_finite_group
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.extending import ActionLike
from equitangents.groups import Group
from equitangents.kernels import KernelFunction, kernel_invariance_error
from equitangents_studies.systems.grams import KernelName
from equitangents_studies.systems.progress import Step

_INVARIANT = 1e-4, 1e-8  # relative, in float32 and float64


@dataclass(frozen=True, eq=False)
class GroupGrams:
    """Θ_g of N inputs with the first P of them, for one element of each pair g, g⁻¹ where P = N, else for all."""

    group: Group
    matrices: dict[int, Float[np.ndarray, "n pool"]]

    def of(self, g: int) -> Float[np.ndarray, "n pool"]:
        """The kernel matrix Θ_g of one element g."""
        return self.matrices[g] if g in self.matrices else self.matrices[self.group.inverse(g)].T

    def mean(self, elements: Iterable[int]) -> Float[np.ndarray, "n pool"]:
        """The mean over a subgroup's elements, in float64, exactly symmetric where P = N."""
        chosen = list(elements)
        total: np.ndarray = np.zeros(self.of(chosen[0]).shape)
        for g in chosen:
            total += self.of(g)
        total /= len(chosen)
        return (total + total.T) / 2 if total.shape[0] == total.shape[1] else total


def group_grams(
    net: KernelFunction, action: Action, x: np.ndarray, kernel: KernelName, step: Step, pool: int | None = None
) -> GroupGrams:
    """Raises InvalidArgumentError where the kernel is not invariant under the action, on a sample of inputs."""
    check_invariant(net, action, x)
    group = action.group
    whole = pool is None or pool == len(x)
    elements = [g for g in range(group.order) if not whole or g <= group.inverse(g)]
    matrices = {}
    for done, g in enumerate(elements, 1):
        moved = None if g == group.identity and whole else np.asarray(action(g, x[:pool]))
        matrices[g] = np.asarray(getattr(net.kernel(x, moved), kernel))
        step(done, len(elements))
    return GroupGrams(group, matrices)


def check_invariant(net: KernelFunction, action: Action, x: np.ndarray) -> None:
    """Raise InvalidArgumentError unless Θ(ρ(g)x, ρ(g)x′) = Θ(x, x′) on a sample."""
    bound = _INVARIANT[0] if x.dtype == np.float32 else _INVARIANT[1]
    error = kernel_invariance_error(net, action, x[:4])
    if not error <= bound:
        raise InvalidArgumentError(
            f"net has a kernel that is not invariant under {action.name} of {action.group.name}: moving both inputs "
            f"changes it by {error:.1e} of its size; irreps then say nothing of it"
        )


def finite_action(group: Group | ActionLike, x: np.ndarray) -> Action:
    """An exact action of a finite group on x: by name, of a group that has a name, or as it is."""
    action = as_action("group", group.name if isinstance(group, Group) else group, x.shape)
    check_finite_group("group", action, "a spectrum by irreps")
    if not isinstance(action, Action):
        raise InvalidTypeError(f"group is {group!r}; expected the name of a group, or an action")
    if not action.exact:
        raise InvalidArgumentError(
            f"group is {action.name}, which interpolates, so its maps do not form a group; take "
            "actions.ring_rotations of actions.to_rings(x, rings, angles), where rotations are exact"
        )
    action.check_signals("x", x)
    return action
