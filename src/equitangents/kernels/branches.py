"""Branches of a network: lists of operations on one field, or on as many fields, and how these are joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from equitangents.kernels.operation import Operation


@dataclass(frozen=True)
class Join:
    """One field of several, by their numbers: the sum, or with `shares` w_i of the channels these side by side.

    Sums: K = Σ K_i + Σ_{i≠j} m_i m_j', Θ = Σ Θ_i. With shares: K = Σ w_i K_i, Θ = Σ w_i Θ_i.
    """

    fields: tuple[int, ...]
    shares: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Parallel(Operation):
    """Branches, each a list of operations, and joins: one common input field, or one field per branch.

    Without branches the fields are joined as they are, without joins they go on side by side, up to the next. A branch
    without operations is the field itself, so that a residual block is the sum of () and another.
    """

    is_branching: ClassVar[bool] = True
    branches: tuple[tuple[Any, ...], ...]
    joins: tuple[Join, ...]

    @property
    def said(self) -> str:  # type: ignore[override]
        """Name of the operation in messages."""
        if self.is_closed:
            return type(self).__name__
        if not self.joins:
            return "parallel branches"
        return "sums" if self.shares is None else "concatenation"

    @property
    def held(self) -> tuple[tuple[Any, ...], ...]:
        """Operations on the incoming field, one list per branch."""
        return self.branches

    @property
    def is_open(self) -> bool:
        """Whether it leaves the fields of its branches side by side."""
        return not self.joins

    def signals_after(self, before: int) -> int:
        """One a join, or one a branch where nothing joins them."""
        return len(self.joins) or len(self.branches)

    @property
    def is_closed(self) -> bool:
        """Whether it has one input field and one output field."""
        return bool(self.branches) and [join.fields for join in self.joins] == [tuple(range(len(self.branches)))]

    @property
    def is_structured(self) -> bool:  # type: ignore[override]
        """Whether other programs than structured ones do not have it: it leaves fields side by side, or reads them."""
        return not self.is_closed

    @property
    def needs_variances(self) -> bool:  # type: ignore[override]
        """Whether it sums or joins branches; their means are then read."""
        return self.is_closed

    @property
    def keeps_constants(self) -> bool:  # type: ignore[override]
        """Whether all operations of its branches do."""
        return bool(self.branches) and all(op.keeps_constants for ops in self.branches for op in ops)

    @property
    def shares(self) -> tuple[float, ...] | None:
        """The shares of the channels, of its first join."""
        return self.joins[0].shares

    @property
    def residual(self) -> tuple[Any, ...] | None:
        """The operations whose result is added to the field itself; None where that is not all."""
        alone = self.is_closed and self.shares is None and len(self.branches) == 2 and not self.branches[0]
        return self.branches[1] if alone else None


def closed(branches: tuple[tuple[Any, ...], ...], shares: tuple[float, ...] | None = None) -> Parallel:
    """Branches of one field and their sum, or with `shares` their channels side by side."""
    return Parallel(branches, (Join(tuple(range(len(branches))), shares),))


def residual(ops: tuple[Any, ...]) -> Parallel:
    """A residual block: the field plus ops(field)."""
    return closed(((), ops))


def flat(ops: Iterable[Any]) -> Iterator[Any]:
    """All operations, those inside branches behind the one that holds them."""
    for op in ops:
        yield op
        for held in op.held:
            yield from flat(held)
