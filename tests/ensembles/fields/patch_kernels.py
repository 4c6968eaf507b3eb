"""Kernel fields in NumPy: functions of two patches of a torus, as those of convolutions are, and their literal fits."""

from __future__ import annotations

import itertools

import numpy as np

from equitangents.kernels import Kernels


class PatchKernels:
    """Θ((x, p), (x′, p′)) = exp(−|patch − patch′|²/w) + 1/2, K half of it with another width, over 3×3 patches.

    profile (3, 3): weights of a patch; a profile that a motion changes makes a kernel that it changes. local: whether
    different positions share nothing, as without shared weights.
    """

    def __init__(self, profile=None, local=False):
        self.profile = np.ones((3, 3)) if profile is None else np.asarray(profile, float)
        self.local = local

    def field_symmetry(self, action, input_shape, moves):
        """Motions of the torus move patches to patches, in another order; shifts leave the order, too."""
        if np.ptp(self.profile) > 0 or not action.permutes_positions:
            return None
        shifts = action.group.torus == input_shape[:-1] and action.group.order == moves.shape[1]
        return "equivariant" if shifts and not self.local else "invariant"

    def patches(self, x):
        shifts = itertools.product((-1, 0, 1), repeat=2)
        parts = [np.roll(x, (-i, -j), (1, 2)) * self.profile[i + 1, j + 1] for i, j in shifts]
        return np.concatenate(parts, axis=-1).reshape(len(x), x.shape[1] * x.shape[2], -1)

    def kernel_field(self, x1, x2=None):
        a, b = self.patches(x1), self.patches(x1 if x2 is None else x2)
        squares = ((a[:, :, None, None] - b[None, None]) ** 2).sum(-1)
        same = np.eye(a.shape[1])[None, :, None] if self.local else 1.0
        return Kernels(same * (np.exp(-squares / 12) + 0.25) / 2, same * (np.exp(-squares / 20) + 0.5))


def flat(field):
    n1, p1, n2, p2 = field.shape
    return field.reshape(n1 * p1, n2 * p2)


def literal_fit(net, x, y, x_test, *, time, learning_rate=1.0, ridge=0.0, kernel="ntk"):
    """(mean (T·P, outputs), covariance (T·P, T·P)) by dense linear algebra on all N·P points."""
    points = y.reshape(-1, y.shape[-1])
    train, cross, test = net.kernel_field(x), net.kernel_field(x_test, x), net.kernel_field(x_test)
    theta, theta_cross = flat(getattr(train, kernel)), flat(getattr(cross, kernel))
    delta = ridge * np.trace(theta) / len(theta)
    values, vectors = np.linalg.eigh(theta + delta * np.eye(len(theta)))
    rate = learning_rate * time / len(x)
    response = 1 / values if np.isinf(time) else -np.expm1(-rate * values) / values
    A = theta_cross @ (vectors * response) @ vectors.T
    K, K_cross = flat(train.nngp), flat(cross.nngp)
    if kernel == "nngp":
        K = K + delta * np.eye(len(K))
    return A @ points, flat(test.nngp) + A @ K @ A.T - A @ K_cross.T - K_cross @ A.T
