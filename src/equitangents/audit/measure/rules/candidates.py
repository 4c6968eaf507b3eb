"""The rules that an output might follow, fitted on some inputs: permutations, orthogonal matrices, known kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from equitangents.actions.kinds import KINDS
from equitangents.audit.contract.contract import Contract
from equitangents.audit.contract.labels import after, cycles, labels_action
from equitangents.audit.contract.leaf_actions import LeafAction, to_last
from equitangents.audit.contract.named import leaf_of_kind
from equitangents.audit.contract.words import along_words, products
from equitangents.audit.measure.rules.matrices import (
    ChannelAction,
    defect,
    orthogonal,
    permutation,
    representation,
    snapped,
)
from equitangents.audit.measure.rules.pairs import Pairs
from equitangents.audit.measure.rules.segments import segments
from equitangents.errors import EquitangentsError
from equitangents.groups import Group

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
                    action = leaf_of_kind(known, name, pairs.y.shape, layout)
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
        action = (
            labels_action(group, table, layout)
            if base is None
            else LeafAction(_on_channels(group, np.swapaxes(np.eye(C)[table], 1, 2), base[1]), layout)
        )
        said = f"{also}the {what} are permuted {_under(contract, [cycles(p) for p in found])}"
        rows = [p.tolist() for p in found]
        by_hand = f"equitangents.audit.Labels({rows[0] if len(rows) == 1 else rows})" if base is None else None
        yield Candidate("permutation", action, said, by_hand, 0.0)
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
    assert isinstance(contract.group, Group)
    if len(said) == 1:
        return said[0]
    labels = [contract.label(g) for g in contract.group.generators]
    return "; ".join(f"{text or 'not at all'} under {label}" for label, text in zip(labels, said, strict=True))


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
