"""Training at infinite width by the most literal means: matrix exponentials, inverses, loops."""

from __future__ import annotations

import numpy as np
import scipy.linalg


def response(Theta, s):
    """∫_0^s e^{−Θu} du = Θ⁻¹(1 − e^{−Θs}), also for singular Θ: a block of the exponential of [[−Θ, 1], [0, 0]] s."""
    n = len(Theta)
    block = np.zeros((2 * n, 2 * n))
    block[:n, :n], block[:n, n:] = -Theta, np.eye(n)
    return scipy.linalg.expm(block * s)[:n, n:]


def operator(Theta, cross, *, time, learning_rate=1.0, delta=0.0, dynamics="flow"):
    """A with μ = A Y."""
    n = len(Theta)
    shifted = Theta + delta * np.eye(n)
    if np.isinf(time):
        return cross @ np.linalg.inv(shifted)
    if dynamics == "flow":
        return cross @ response(shifted, learning_rate * time / n)
    total, power = np.zeros((n, n)), np.eye(n)
    for _ in range(int(time)):
        total, power = total + learning_rate / n * power, power @ (np.eye(n) - learning_rate / n * shifted)
    return cross @ total


def covariance(A, K, K_cross, K_test):
    """Of f(x) − A f(X), f the prior."""
    joint = np.block([[K, K_cross.T], [K_cross, K_test]])
    map_ = np.hstack([-A, np.eye(len(A))])
    return map_ @ joint @ map_.T


def posterior_covariance(A, K, K_cross, K_test, delta):
    """As `covariance`, with targets that carry noise of variance δ of their own in every network."""
    return covariance(A, K, K_cross, K_test) + delta * A @ A.T


def trained(net, x, y, x_test, *, kernel="ntk", time, ridge=0.0, learning_rate=1.0, dynamics="flow"):
    """Mean and covariance at `x_test` of networks trained on the samples x, y as they are."""
    k, cross = net.kernel(x), net.kernel(x_test, x)
    Theta, Theta_cross = getattr(k, kernel), getattr(cross, kernel)
    delta = ridge * np.trace(Theta) / len(x)
    A = operator(Theta, Theta_cross, time=time, delta=delta, dynamics=dynamics, learning_rate=learning_rate)
    noise = delta if kernel == "nngp" else 0.0
    return A @ y, posterior_covariance(A, k.nngp, cross.nngp, net.kernel(x_test).nngp, noise)


def descend(features, start, targets, test_features, start_test, *, learning_rate, steps, delta=0.0):
    """Full-batch gradient descent on the parameters w of f(x) = f_0(x) + features(x)·w from w = 0.

    Loss (1/2N) Σ |f − y|² + (δ/2N) |w|². Returns f at the test inputs.
    """
    n = len(features)
    w = np.zeros((features.shape[1], targets.shape[1]))
    for _ in range(steps):
        residual = start + features @ w - targets
        w = w - learning_rate / n * (features.T @ residual + delta * w)
    return start_test + test_features @ w
