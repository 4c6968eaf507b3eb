"""Characters of an abelian group, by extending those of a subgroup one generator at a time.

If H is a subgroup and s^k the first power of s in H, then every character χ of H extends to ⟨H, s⟩ in k ways:
χ(s) is any of the k-th roots of χ(s^k). Phases are kept as integers, in units of 1/(product of all k).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

if TYPE_CHECKING:
    from equitangents.groups.group import Group


def character_phases(group: Group) -> Int[np.ndarray, "characters order"]:
    """χ_a(g) = exp(2πi · phases[a, g] / |G|)."""
    elements = np.array([group.identity])
    phases = np.zeros((1, 1), np.int64)  # in units of 1/|H| of a turn, columns numbered as `elements`
    for s in group.generators:
        powers = [group.identity]
        while not np.any(elements == (next_power := group.compose(powers[-1], s))):
            powers.append(next_power)
        k, size = len(powers), len(elements)
        of_power = phases[:, np.flatnonzero(elements == next_power)[0]]
        # χ(s) = (χ(s^k) + whole turns) / k, now in units of 1/(k·|H|)
        root = (of_power[:, None] + size * np.arange(k)).ravel()
        extended = k * np.repeat(phases, k, axis=0)
        phases = (extended[:, None, :] + np.arange(k)[:, None] * root[:, None, None]) % (k * size)
        phases = phases.reshape(len(root), -1)
        elements = group._compose(np.array(powers)[:, None], elements).ravel()
    ordered = np.empty_like(phases)
    ordered[:, elements] = phases
    return ordered


def abelian_irreps(group: Group, *, real: bool) -> list[tuple[np.ndarray, Any]]:
    """(matrices, kind) of every irrep: characters over the complex numbers; over the reals, signs and plane turns."""
    n = group.order
    phases = character_phases(group)
    turns = np.exp(2j * np.pi * np.arange(n) / n)
    # multiples of a quarter turn exactly
    for quarter in range(4):
        if quarter * n % 4 == 0:
            turns[quarter * n // 4] = 1j**quarter
    irreps: list[tuple[np.ndarray, Any]] = []
    for phase in phases:
        conjugate = -phase % n
        chi = turns[phase]
        if np.array_equal(phase, conjugate):
            irreps.append(((chi.real if real else chi)[:, None, None], "real"))
        elif not real:
            irreps.append((chi[:, None, None], "complex"))
        elif tuple(phase) < tuple(conjugate):
            c, s = chi.real, chi.imag
            irreps.append((np.stack([np.stack([c, -s], 1), np.stack([s, c], 1)], 1), "complex"))
    return irreps
