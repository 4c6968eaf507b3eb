"""A penalty on what a member's predictions lose of equivariance along the orbits of the training samples.

With u_g(x) = ρ_Y(g)⁻¹ f(ρ_X(g) x) the loss of a sample is that of its copies in the mean, and

    (γ/2) (1/|G|) Σ_g |u_g(x) − ū(x)|²,    ū = (1/|G|) Σ_g u_g.

For orthogonal ρ_Y the mean square over the copies is ½|ū − y|² + (1/2|G|) Σ_g |u_g − ū|²: augmentation is a penalty of
weight 1 already, γ = −1 takes it away, which is training of the orbit's mean ū (feature averaging).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.groups.group_maps import GroupMap
from equitangents.inference.augmented import augment_targets


@dataclass(frozen=True)
class Penalty:
    """γ, and the matrices R with rows u = f R that take the outputs at each copy back, (copies, outputs, outputs).

    They are kept as bytes, so that training programs are found again by them; None: labels are invariant.
    """

    weight: float
    back: bytes | None = None

    @classmethod
    def of(cls, weight: float, label_action: GroupMap | None, elements: np.ndarray, outputs: int) -> Penalty:
        """The penalty for copies by these elements of a group, which acts so on labels."""
        if label_action is None:
            return cls(weight)
        moved = augment_targets(label_action, np.eye(outputs), elements).reshape(-1, outputs, outputs)
        return cls(weight, np.linalg.inv(moved).tobytes())

    def of_samples(self, outputs: jax.Array) -> jax.Array:
        """The penalty of each sample, (N,), given outputs (copies, N, outputs)."""
        u = outputs
        if self.back is not None:
            back = np.frombuffer(self.back).reshape(len(u), u.shape[2], u.shape[2])
            u = jnp.einsum("gnk,gkl->gnl", u, jnp.asarray(back, u.dtype))
        return 0.5 * self.weight * ((u - u.mean(axis=0)) ** 2).mean(axis=0).sum(axis=-1)
