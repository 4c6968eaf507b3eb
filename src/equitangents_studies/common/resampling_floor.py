"""How invariant a perfectly invariant function can look on resampled pixels.

Pixels x stand for the continuous image c, the spline through them, zero outside the square; S samples at the places of
pixels, so that ρ(g)x = S R_g c. For any classifier f the function

    F[c] = (1/|G|) Σ_h f(S R_h c)

is invariant, F[R_g c] = F[c], exactly. But a test shows it the pixels of S R_g c, and the spline through those is not
R_g c: interpolation smooths, and corners are cut off. F(x) = (1/|G|) Σ_h f(ρ(h)x), and its orbit same predictions on
{ρ(g)x} fall short of |G| by what resampling does, and by nothing else. It is the floor for this f: a function that
ignores what resampling destroys has a higher one, a constant |G|. The control is F over quarter turns alone, which move
pixels to pixels: there it must be invariant to rounding.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from equitangents.actions import Action
from equitangents_studies.common.orbits import orbit_batch

DEFINITION = (
    "The resampling floor is the orbit same predictions of a function that is exactly invariant on continuous images: "
    "the mean of trained networks over all turns of the spline through an image’s pixels. It misses the perfect score "
    "only because turned images were resampled, which smooths them and cuts their corners, before it sees them. It "
    "belongs to these networks: a function that ignores what resampling destroys would do better. Control: over "
    "quarter turns, which move pixels to pixels,"
)


def twice_turned(action: Action, x: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "order_order_n ..."]:
    """All ρ(h)ρ(g)x as one batch, h slowest, then g."""
    return orbit_batch(action, orbit_batch(action, x))


def quarter_turns(action: Action) -> list[int]:
    """The elements of C_n that turn by multiples of 90°."""
    order = int(action.group.order)
    return [g for g in range(order) if (4 * g) % order == 0]


def control(action: Action, labels: Int[np.ndarray, "... order n"]) -> Float[np.ndarray, "... n"]:
    """For how many of the quarter turns the class is that of the image as it is."""
    return (labels[..., quarter_turns(action), :] == labels[..., action.group.identity, None, :]).sum(axis=-2) * 1.0
