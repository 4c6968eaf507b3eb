"""The rules that an output might follow: permutations, fitted on some inputs, and known kinds.

They are fitted to pairs of answers, for inputs and for the same inputs moved: max tr(Pᵀ Σ z yᵀ), an assignment of
channels, from rows y of f(x) and z of f(ρ(s)x).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

from equitangents.actions.kinds import KINDS
from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.labels import Labels, LabelsAction, after, along_words, cycles, products
from equitangents.audit.contract.layouts import to_last
from equitangents.audit.contract.leaf_actions import LeafAction, Place
from equitangents.audit.contract.named import leaf_of_kind
from equitangents.audit.measure.orbits import Orbits
from equitangents.errors import EquitangentsError
from equitangents.groups import Group
from equitangents.metrics.measure import norms
from equitangents.metrics.on_orbits import RunningSpread


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


_MOST_CHANNELS = 2048  # that are permuted
_ALIKE = 1.01  # errors of kinds that differ by less than this factor: the plainer name is taken
_TIE = 1e-9  # of equally good assignments the one that moves fewer channels


@dataclass(frozen=True, eq=False)
class Candidate:
    """One rule, by name and as an action."""

    kind: Literal["permutation", "kind"]
    action: LeafAction
    name: str
    """"the classes are permuted 0→3→2→1"."""
    by_hand: str | None
    """What to give as output_action; None where only "find" gives it."""


def candidates(contract: Contract, pairs: Pairs) -> Iterator[Candidate]:
    """Rules in the order in which they are preferred; permutations where `pairs` are of the generators of a group."""
    if isinstance(contract.group, Group):
        yield from _permuted(contract, contract.group, pairs)
    kind = best_kind(contract, pairs)
    if kind is not None:
        yield kind


def best_kind(contract: Contract, pairs: Pairs) -> Candidate | None:
    """The kind of thing that the group moves which these outputs are nearest to."""
    if pairs.classes:
        return None
    kinds = [(name, action) for name, action in _kinds(contract, pairs) if not action.action.permutes_entries]
    errors = [float(np.square(pairs.apart(action)).sum()) for _, action in kinds]
    if not errors:
        return None
    most = _ALIKE * min(errors) + 1e-18 * float(np.square(pairs.apart(None)).sum())
    name, action = next(kind for kind, error in zip(kinds, errors, strict=True) if error <= most)
    named = contract.kinds is not None and name in KINDS[contract.kinds.space]
    return Candidate("kind", action, f"the outputs move as {name}", f'"{name}"' if named else None)


def _kinds(contract: Contract, pairs: Pairs) -> Iterator[tuple[str, LeafAction]]:
    """Everything that the group is known to move and that fits the outputs' shape, the plainest first."""
    known, layout = contract.kinds, contract.output_layout
    if known is None:
        yield from (("the inputs do", a) for a in contract.inputs if a is not None and _fits(a, pairs))
        return
    for name, kind in KINDS[known.space].items():
        if kind.action is None or not kind.sought:
            continue
        with contextlib.suppress(EquitangentsError):
            action = leaf_of_kind(Place(known.group, known, pairs.y.shape, layout), name)
            if action is not None and _fits(action, pairs):
                yield name, action


def _fits(action: LeafAction, pairs: Pairs) -> bool:
    """Whether the action can act on outputs of this shape."""
    try:
        action.check("f(x)", pairs.y)
    except EquitangentsError:
        return False
    return True


def permutation(y: Float[np.ndarray, "n C"], z: Float[np.ndarray, "n C"]) -> Int[np.ndarray, " C"]:
    """Where each channel goes: z[:, p[c]] ≈ y[:, c]."""
    gain = y.T @ z
    bonus = _TIE * float(np.abs(gain).max(initial=0.0)) * np.eye(len(gain))
    return linear_sum_assignment(gain + bonus, maximize=True)[1]


def _permuted(contract: Contract, group: Group, pairs: Pairs) -> Iterator[Candidate]:
    """The permutation of channels that fits best, if those of the generators respect every product."""
    layout = contract.output_layout if pairs.y.ndim > 2 else None
    flat = lambda a: to_last(a if a.ndim > 1 else a[:, None], layout)
    y = flat(pairs.y)
    C = y.shape[-1]
    if not 1 < C <= _MOST_CHANNELS:
        return
    found = [permutation(y.reshape(-1, C), flat(z).reshape(-1, C)) for z in pairs.z]
    unit: np.ndarray = np.arange(C)
    spelled: list[np.ndarray] = along_words(group, found, unit, after)
    table = np.stack(spelled)
    moves = any((p != np.arange(C)).any() for p in found)
    if not moves or not all(np.array_equal(table[a][table[s]], table[b]) for a, s, b in products(group)):
        return
    each = (f"{cycles(p) or 'not'} under {contract.label(s)}" for p, s in zip(found, group.generators, strict=True))
    how = cycles(found[0]) if len(found) == 1 else "; ".join(each)
    name = f"the {'classes' if pairs.y.ndim == 2 else 'channels'} are permuted {how}"
    action = LeafAction(LabelsAction(group, table), layout)
    yield Candidate("permutation", action, name, repr(Labels(np.stack(found))))
