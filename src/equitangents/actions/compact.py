"""Actions of compact groups, and of S_n for any n, at given or drawn elements or quadrature nodes.

Means over the group are quadratures: ∫ f(g) dg ≈ Σ_i w_i f(g_i) over `group.nodes`.
"""

from __future__ import annotations

from abc import abstractmethod

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents import precision
from equitangents._types import ArrayLike, Element, Elements
from equitangents.actions.action import check_orbit, scope_of
from equitangents.actions.group_action import GroupAction
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotAnActionError

_PAIRS = 8


class CompactAction(GroupAction):
    """An action of SO(2), SO(3), O(3), or S_n of any n. Subclasses say how one element acts.

    `action(g, x)` applies an element; `action.orbit(x)` goes through the nodes of the group's quadrature, and
    `action.orbit(x, elements)` through elements that are given. What sums over all elements exactly needs an `Action`.
    """

    @abstractmethod
    def _check_signals(self, x: ArrayLike) -> ArrayLike:
        """`x` as an array that the action can act upon, or an error that names x."""

    @abstractmethod
    def _act(self, g: Element, x: ArrayLike) -> ArrayLike:
        """ρ(g) x for a checked element and checked signals, NumPy or JAX."""

    @property
    def weights(self) -> Float[np.ndarray, " nodes"] | None:
        """Weights of the nodes of a mean over the group, summing to 1."""
        return self.group.weights

    def __call__(self, g: Element, x: ArrayLike) -> ArrayLike:
        """ρ(g) x for signals x (N, …)."""
        if not precision.is_traced(g):
            g = self.group.check_element("g", g)
        x = self._check_signals(x)
        with scope_of(x):
            y = self._act(g, x)
        return np.asarray(y) if isinstance(x, np.ndarray) and not precision.is_traced(y) else y

    def orbit(self, x: ArrayLike, elements: Elements = None) -> ArrayLike:
        """ρ(g) x for all nodes of the quadrature, or for `elements`, along a new first axis: (nodes, N, …)."""
        chosen = self._nodes() if elements is None else self.check_elements(elements)
        x = self._check_signals(x)
        check_orbit(len(chosen), x)
        with scope_of(x):
            return self._orbit(chosen, x)

    def _orbit(self, elements: Elements, x: ArrayLike) -> ArrayLike:
        images = [self._act(g, x) for g in elements]
        return np.stack(images) if isinstance(x, np.ndarray) else jnp.stack(images)

    def _nodes(self) -> Elements:
        nodes = self.group.nodes
        if nodes is None:
            raise InvalidTypeError(
                "group",
                self.group,
                "a group with a quadrature",
                "give elements, or draw some: actions.sampled(action, count)",
            )
        return nodes

    def check_elements(self, elements: Elements, name: str = "elements") -> np.ndarray:
        """Elements as an array, each in the group's own form."""
        if not len(elements):
            raise InvalidArgumentError(name, [], "at least one element")
        return np.stack([np.asarray(self.group.check_element(name, g)) for g in elements])

    def verify(self, x: ArrayLike) -> None:
        """Check on signals x that ρ(e) x = x and ρ(g) ρ(h) x = ρ(g·h) x for some random pairs.

        Raises NotAnActionError with the witness. An action that declares itself inexact is not held to it.
        """
        x = self._check_signals(x)
        if not self.exact:
            return
        group = self.group
        scale = max(float(np.abs(np.asarray(x)).max()), float(np.finfo(np.float32).tiny))
        tolerance = scale * (1e-8 if np.dtype(x.dtype) == np.float64 else 1e-4)
        error = _distance(self(group.identity, x), x)
        if not error <= tolerance:
            raise NotAnActionError(self.name, error, "ρ(e) x = x", verb="is off by")
        rng = np.random.default_rng(0)
        for g, h in zip(group.draw(_PAIRS, rng), group.draw(_PAIRS, rng), strict=True):
            error = _distance(self(g, self(h, x)), self(group.compose(g, h), x))
            if not error <= tolerance:
                raise NotAnActionError(
                    self.name, error, "ρ(g) ρ(h) x = ρ(g·h) x", verb="is off by", at=(group.label(g), group.label(h))
                )


def _distance(a: ArrayLike, b: ArrayLike) -> float:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())
