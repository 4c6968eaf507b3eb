"""How far predicted distributions move along orbits: the Jensen-Shannon divergence in bits, between 0 and 1.

JS(p, q) = H((p + q)/2) − (H(p) + H(q))/2 with the entropy H in bits. Source: Lin 1991.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.special
from jaxtyping import Float

from equitangents.audit.measure.orbits import Orbits
from equitangents.errors import InvalidArgumentError


def output_kind(orbits: Orbits, stated: str) -> Literal["values", "logits", "probabilities"]:
    """What the first output is: as stated, else probabilities if every row is a distribution, else values."""
    if stated == "logits":
        return "logits"
    if stated == "probabilities" and not orbits.probabilities:
        raise InvalidArgumentError(
            "outputs is 'probabilities', but the rows of f(x) are not distributions: non-negative and of sum 1"
        )
    return "probabilities" if stated == "probabilities" or (stated == "auto" and orbits.probabilities) else "values"


def divergences(orbits: Orbits, stated: str) -> Float[np.ndarray, "E K"] | None:
    """JS between the prediction for x and that for ρ(g)x, pulled back; None without probabilities."""
    kind, scores = output_kind(orbits, stated), orbits.scores
    if scores is None or kind == "values":
        return None
    p = scipy.special.softmax(scores, axis=2) if kind == "logits" else scores
    return jensen_shannon(p[1:], p[0])


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """JS in bits along the last axis."""
    entropy = lambda r: scipy.special.entr(r).sum(axis=-1) / np.log(2)
    return np.maximum(entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2, 0.0)
