"""The rules that an output might follow, fitted on some inputs: permutations, orthogonal matrices, known kinds, irreps.

They are fitted to pairs of answers, for inputs and for the same inputs moved. Irreps stand side by side: which channels
form a block of which irrep of the rotations. In space blocks are of degree l and parity e or o, "2x0e+1x1o", in the
basis of e3nn (that of l = 1 is x, y, z); in the plane, pairs that turn by m times the angle. The blocks are chosen by
dynamic programming over the channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents.actions.given_maps import MatrixAction
from equitangents.actions.kinds import KINDS, Kinds
from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.irreps import Block, irreps_matrix
from equitangents.audit.contract.labels import Labels, LabelsAction, after, along_words, cycles, products
from equitangents.audit.contract.layouts import to_last
from equitangents.audit.contract.leaf_actions import LeafAction, Place
from equitangents.audit.contract.named import leaf_of_kind
from equitangents.audit.measure.orbits import Orbits
from equitangents.audit.measure.rules.matrices import (
    ChannelAction,
    defect,
    orthogonal,
    permutation,
    representation,
    snapped,
)
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


MOST_CHANNELS = 64
_DEGREES = 5  # l = 0 .. 4
_FREQUENCIES = 6
_LEFT = 1 / 16  # share of a block's squared error without the irrep that may be left with it


def segments(kinds: Kinds, pairs: Pairs) -> MatrixAction | None:
    """The action of the irreps that the channels are best read as; None where all of them are scalars."""
    C = pairs.y.shape[-1] if pairs.y.ndim > 1 else 1
    if kinds.space not in ("space", "plane") or not 1 < C <= MOST_CHANNELS:
        return None
    motions = [kinds.motion(g) for g in pairs.elements]
    blocks = _space_blocks(motions) if kinds.space == "space" else _plane_blocks()
    y, z = pairs.y.reshape(-1, C), [part.reshape(-1, C) for part in pairs.z]
    scalar = np.array([sum(float(((b[:, j] - y[:, j]) ** 2).sum()) for b in z) for j in range(C)])
    costs = {b.name: _costs(b, motions, y, z) for b in blocks[1:]}
    chosen = _cheapest(blocks, costs, scalar)
    if all(b is blocks[0] for b in chosen):
        return None
    each_once = [(1, b) for b in chosen]
    return MatrixAction(kinds.group, lambda g: irreps_matrix(each_once, kinds.motion(g)), C, _said(chosen))


def _space_blocks(motions: list[np.ndarray]) -> list[Block]:
    """Scalars first; with reflections each degree twice, even and odd."""
    reflects = any(np.linalg.det(R) < 0 for R in motions)
    found = []
    for l in range(_DEGREES):
        for parity in "eo" if reflects else "e" if l % 2 == 0 else "o":
            natural = (l % 2 == 0) == (parity == "e")
            found.append(Block(f"{l}{parity}", 2 * l + 1, l, flips=not natural))
    return found


def _plane_blocks() -> list[Block]:
    ms = [sign * m for m in range(1, _FREQUENCIES + 1) for sign in (1, -1)]
    return [Block("scalar", 1, 0), *(Block(f"frequency {m}", 2, m) for m in ms)]


def _costs(block: Block, motions: list[Any], y: np.ndarray, z: list[np.ndarray]) -> Float[np.ndarray, " starts"]:
    """Squared error of the block at every place where it fits."""
    matrices, d = [block.matrix(motion) for motion in motions], block.size
    return np.array(
        [
            sum(float(((b[:, a : a + d] - y[:, a : a + d] @ M.T) ** 2).sum()) for M, b in zip(matrices, z, strict=True))
            for a in range(y.shape[1] - d + 1)
        ]
    )


def _cheapest(blocks: list[Block], costs: dict[str, np.ndarray], scalar: np.ndarray) -> list[Block]:
    """The blocks, side by side over all channels, with the least squared error."""
    C = len(scalar)
    best, last = [0.0], [blocks[0]]
    for end in range(1, C + 1):
        options = [(best[end - 1] + scalar[end - 1], blocks[0])]
        for b in blocks[1:]:
            at = end - b.size
            if at >= 0 and costs[b.name][at] < _LEFT * scalar[at:end].sum():
                options.append((best[at] + costs[b.name][at], b))
        cost, block = min(options, key=lambda option: option[0])
        best.append(float(cost))
        last.append(block)
    chosen, end = [], C
    while end:
        chosen.append(last[end])
        end -= last[end].size
    return chosen[::-1]


def _said(chosen: list[Block]) -> str:
    """ "2x0e+1x1o", or "1 scalar, frequency 2" in the plane."""
    runs = [(name, len(list(run))) for name, run in groupby(b.name for b in chosen)]
    if chosen[0].name[0].isdigit():
        return "irreps " + "+".join(f"{count}x{name}" for name, count in runs)
    return "irreps " + ", ".join(name if count == 1 else f"{count} times {name}" for name, count in runs)


RuleKind = Literal["permutation", "orthogonal", "kind"]
_MOST_CHANNELS = 2048  # that are permuted
_MOST_MIXED = 256  # that a matrix acts on
_ALIKE = 1.01  # errors of kinds that differ by less than this factor: the plainer name is taken


@dataclass(frozen=True, eq=False)
class Candidate:
    """One rule with the words for it."""

    kind: RuleKind
    action: LeafAction
    said: str
    """After "equivariant if …"."""
    by_hand: str | None
    """What to give as output_action; None where only "find" gives it."""
    defect: float
    """How far the fitted generators are from the group's relations; 0 where they hold exactly."""


def candidates(contract: Contract, pairs: Pairs, finite: bool) -> Iterator[Candidate]:
    """Rules in the order in which they are preferred, plainer ones first.

    `finite`: the elements of `pairs` are the generators of a listed group, so that matrices can be fitted.
    """
    group = contract.group
    kind = best_kind(contract, pairs)
    fitted: list[Candidate] = []
    if finite and isinstance(group, Group):
        for base in (None, *_positions(contract, pairs)):
            fitted += _fitted(contract, group, pairs, base)
    yield from (c for c in fitted if c.kind == "permutation")
    if kind is not None:
        yield kind
    yield from (c for c in fitted if c.kind == "orthogonal")


def best_kind(contract: Contract, pairs: Pairs) -> Candidate | None:
    """The kind of thing that the group moves which these outputs are nearest to."""
    if pairs.classes:
        return None
    kinds = [(said, action) for said, action in _kinds(contract, pairs) if not action.action.permutes_entries]
    errors = [float(np.square(pairs.apart(action)).sum()) for _, action in kinds]
    if not errors:
        return None
    most = _ALIKE * min(errors) + 1e-18 * float(np.square(pairs.apart(None)).sum())
    said, action = next(kind for kind, error in zip(kinds, errors, strict=True) if error <= most)
    named = contract.kinds is not None and said in KINDS[contract.kinds.space]
    by_hand = f'"{said}"' if named else None
    return Candidate("kind", action, f"the outputs move as {said}", by_hand, 0.0)


def _kinds(contract: Contract, pairs: Pairs) -> Iterator[tuple[str, LeafAction]]:
    """Everything that the group is known to move and that fits the outputs' shape, the plainest first."""
    known, layout = contract.kinds, contract.output_layout
    if known is not None:
        for name, kind in KINDS[known.space].items():
            if kind.action is not None and kind.sought:
                try:
                    action = leaf_of_kind(Place(known.group, known, pairs.y.shape, layout), name)
                    assert action is not None
                    action.check("f(x)", pairs.y)
                except EquitangentsError:
                    continue
                yield name, action
        irreps = segments(known, pairs)
        if irreps is not None:
            yield irreps.name, LeafAction(irreps)
        return
    for action in contract.inputs:
        if action is not None:
            try:
                action.check("f(x)", pairs.y)
            except EquitangentsError:
                continue
            yield "the inputs do", action


def _positions(contract: Contract, pairs: Pairs) -> list[tuple[str, LeafAction]]:
    """Motions of the outputs' positions, which leave channels alone: rank 3 and more."""
    if pairs.y.ndim < 3 or pairs.classes:
        return []
    return [(n, a) for n, a in _kinds(contract, pairs) if n in ("images", "points", "the inputs do")]


def _fitted(contract: Contract, group: Group, pairs: Pairs, base: tuple[str, LeafAction] | None) -> Iterator[Candidate]:
    """The permutation and the orthogonal matrix of channels that fit best, after the positions moved by `base`."""
    layout = contract.output_layout if pairs.y.ndim > 2 else None
    back = pairs.z if base is None else [
        base[1].act(group.inverse(g), z) for g, z in zip(pairs.elements, pairs.z, strict=True)
    ]  # fmt: skip
    flat = lambda a: to_last(a if a.ndim > 1 else a[:, None], layout)
    y = flat(pairs.y)
    C = y.shape[-1]
    y, moved = y.reshape(-1, C), [flat(z).reshape(-1, C) for z in back]
    if C > _MOST_CHANNELS:
        return
    also = "" if base is None else f"the outputs move as {base[0]} and "
    what = "classes" if pairs.y.ndim == 2 else "channels"
    found = [permutation(y, z) for z in moved] if C > 1 else []
    if found and any((p != np.arange(C)).any() for p in found) and _multiply(group, found):
        spelled: list[np.ndarray] = along_words(group, found, np.asarray(np.arange(C)), after)
        table = np.stack(spelled)
        on_all = np.swapaxes(np.eye(C)[table], 1, 2)
        moves = LabelsAction(group, table) if base is None else _on_channels(group, on_all, base[1])
        said = f"{also}the {what} are permuted {_under(contract, [cycles(p) for p in found])}"
        by_hand = repr(Labels(np.stack(found))) if base is None else None
        yield Candidate("permutation", LeafAction(moves, layout), said, by_hand, 0.0)
    if pairs.classes or min(_MOST_MIXED, len(y)) < C:
        return
    fits = [orthogonal(y, z) for z in moved]
    signed = snapped(fits)
    matrices, off = representation(group, fits if signed is None else signed)
    if matrices is None and signed is not None:
        signed, (matrices, off) = None, representation(group, fits)
    if matrices is None or np.abs(matrices - np.eye(C)).max() < 1e-6:
        return
    if signed is not None:
        said = f"{also}{_signed_said(contract, signed, what)}"
    else:
        said = f"{also}an orthogonal {C} × {C} matrix acts on the {what if C > 1 else 'output'}"
    off = 0.0 if signed is not None and defect(group, matrices) == 0 else off
    yield Candidate("orthogonal", LeafAction(_on_channels(group, matrices, base and base[1]), layout), said, None, off)


def _on_channels(group: Group, matrices: np.ndarray, base: LeafAction | None) -> ChannelAction:
    return ChannelAction(group, matrices, None if base is None else base.action, "matrices on the channels")


def _multiply(group: Group, of_generators: list[np.ndarray]) -> bool:
    """Whether permutations of the generators respect every product."""
    table = along_words(group, of_generators, np.asarray(np.arange(len(of_generators[0]))), after)
    return all(np.array_equal(table[a][table[s]], table[b]) for a, s, b in products(group))


def _under(contract: Contract, said: list[str]) -> str:
    """One description a generator, with the generator's name where there are several."""
    if len(said) == 1:
        return said[0]
    pairs = zip(_names(contract), said, strict=True)
    return "; ".join(f"{text or 'not at all'} under {label}" for label, text in pairs)


def _signed_said(contract: Contract, signed: list[np.ndarray], what: str) -> str:
    """A permutation with signs in words."""
    if len(signed[0]) == 1:
        flips = [label for label, M in zip(_names(contract), signed, strict=True) if M[0, 0] < 0]
        return f"the sign changes under {' and '.join(flips)}"
    texts = []
    for M in signed:
        goes = M.argmax(axis=0) if (M >= 0).all() else np.abs(M).argmax(axis=0)
        moved = [
            f"{c}→{'−' if M[d, c] < 0 else ''}{d}" for c, d in enumerate(goes) if c != d or M[d, c] < 0
        ]  # fmt: skip
        texts.append(", ".join(moved))
    return f"the {what} are permuted with signs {_under(contract, texts)}"


def _names(contract: Contract) -> list[str]:
    assert isinstance(contract.group, Group)
    return [contract.label(g) for g in contract.group.generators]
