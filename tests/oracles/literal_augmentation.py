"""Training on all augmented samples by the most literal means: the N|G| samples, their kernels, loops and inverses."""

from __future__ import annotations

import numpy as np

from oracles import literal_training


def augmented_samples(action, x, labels):
    """All ρ(g) x_i with labels[g, i]: g slowest."""
    inputs = np.concatenate([action(g, x) for g in range(action.group.order)])
    return inputs, np.concatenate(list(labels))


def copies_of_labels(group, label_action, y):
    """The label of every copy, (|G|, N, outputs)."""
    return np.stack([y if label_action is None else label_action(g, y) for g in range(group.order)])


def explicit(net, action, x, labels, x_test, *, kernel, time, ridge, dynamics="flow", learning_rate=1.0, weights=None):
    """Mean and covariance at x_test; `labels` (|G|, N, outputs), `weights` (|G|·N,) of mean 1."""
    inputs, targets = augmented_samples(action, x, labels)
    return train(
        net,
        inputs,
        targets,
        x_test,
        kernel=kernel,
        time=time,
        ridge=ridge,
        dynamics=dynamics,
        learning_rate=learning_rate,
        weights=weights,
    )


def train(net, inputs, targets, x_test, *, kernel, time, ridge, dynamics="flow", learning_rate=1.0, weights=None):
    """Mean and covariance of training on samples as they are, loss (1/2N) Σ ω_i |f(x_i) − y_i|²."""
    n = len(inputs)
    k, cross = net.kernel(inputs), net.kernel(x_test, inputs)
    theta, theta_cross = getattr(k, kernel), getattr(cross, kernel)
    root = np.sqrt(np.ones(n) if weights is None else weights)
    weighted = theta * np.outer(root, root)
    delta = ridge * np.trace(weighted) / n
    if np.isinf(time) and not ridge and np.linalg.matrix_rank(weighted, tol=1e-10 * n) < n:
        A = theta_cross * root @ np.linalg.pinv(weighted, rcond=1e-11, hermitian=True)
    else:
        A = literal_training.operator(
            weighted, theta_cross * root, time=time, delta=delta, dynamics=dynamics, learning_rate=learning_rate
        )
    noise = delta * A @ A.T if kernel == "nngp" else 0
    A = A * root
    return A @ targets, literal_training.covariance(A, k.nngp, cross.nngp, net.kernel(x_test).nngp) + noise


def largest_eigenvalue(net, action, x, kernel, ridge):
    """λ_max of the explicit problem, ridge included."""
    inputs, _ = augmented_samples(action, x, np.zeros((action.group.order, len(x), 1)))
    theta = getattr(net.kernel(inputs), kernel)
    return np.linalg.eigvalsh(theta)[-1] + ridge * np.trace(theta) / len(inputs)
