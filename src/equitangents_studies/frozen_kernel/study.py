"""How far the tangent kernel of finite networks moves in training: ‖Θ_t − Θ_0‖ / ‖Θ_0‖ against width.

In NTK parametrisation it is O(1/√n) at all times if the nonlinearity is Lipschitz and twice differentiable with a
bounded second derivative (Erf and GELU are, ReLU is not); perturbation theory in 1/n expects 1/n. With a mean-field
output scale it does not fall: features are learnt at every width.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents import kernels, nn
from equitangents.extending import FiniteNetwork, Params
from equitangents_studies.common.images import Images, load_images
from equitangents_studies.common.networks import mlp
from equitangents_studies.framework.citations import TANGENT_KERNEL, WIDE_NETWORKS
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check
from equitangents_studies.frozen_kernel.claims import claims
from equitangents_studies.frozen_kernel.parametrisations import PARAMETRISATIONS, TITLES, parametrised
from equitangents_studies.frozen_kernel.results import Kind, Results
from equitangents_studies.frozen_kernel.settings import NAMES, NONLINEARITIES, PRESETS, Settings


def network(settings: Settings, nonlinearity: str, width: int) -> nn.Sequential:
    """An MLP with one output, in NTK parametrisation."""
    phi, s = NONLINEARITIES[nonlinearity], settings
    return mlp(width, s.hidden_layers, W_std=s.W_std, b_std=s.b_std, phi=phi, flatten=True)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Widths enough for an exponent, networks for an interval, and images that are there."""
    at_least(settings, hidden_layers=1, networks=2, kernel_images=1, train_images=2)
    widths, steps = settings.widths, settings.steps
    check(len(set(widths)) == len(widths) >= 3, "widths", widths, "at least three different widths")
    check(len(steps) >= 1 and min(steps) >= 1, "steps", steps, "a list of positive numbers")
    check(
        settings.kernel_images <= settings.train_images, "kernel_images", settings.kernel_images, "at most train_images"
    )
    check(settings.rate > 0, "rate", settings.rate, "positive")
    check(settings.b_std > 0, "b_std", settings.b_std, "positive: standard parametrisation divides by it")
    load_images(settings, data_dir)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """A stage for every nonlinearity, parametrisation and width."""
    images, widths = load_images(settings, folder.data_dir), sorted(settings.widths)
    kinds = [(phi, p) for phi in settings.nonlinearities for p in PARAMETRISATIONS]
    stages = folder.stages(
        {
            (kind, width): Stage(
                f"{kind[0]}-{kind[1]}-{width}",
                f"{settings.networks} networks of width {width}, {NAMES[kind[0]]}, {TITLES[kind[1]]}",
                partial(_networks, settings, images, kind, width),
            )
            for kind in kinds
            for width in widths
        }
    )
    of = lambda key: {kind: np.stack([stages[kind, width][key] for width in widths]) for kind in kinds}
    return Results(np.array(widths), recorded_steps(settings), of("movement"), of("loss"), of("rate"))


def recorded_steps(settings: Settings) -> np.ndarray:
    """When kernels are measured, initialisation apart."""
    return np.array(sorted(set(settings.steps)))


def labels(images: Images) -> Float[np.ndarray, "n 1"]:
    """1 for odd classes, −1 for even ones."""
    return np.where(images.train_y % 2, 1.0, -1.0)[:, None].astype(np.float32)


def _networks(settings: Settings, images: Images, kind: Kind, width: int, task: Task) -> Arrays:
    """One network after another, each with weights of its own."""
    x, y, n = images.train_x, labels(images), settings.kernel_images
    seen = np.concatenate([x[:n], images.sets["test"]])
    net = parametrised(network(settings, kind[0], width), width, kind[1])
    measured = []
    for i in range(settings.networks):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(settings.seed), width), i)
        params = net.init(key, x.shape[1:])
        measured.append(trained(net, params, x, y, seen, settings.rate, recorded_steps(settings)))
        task.step(i + 1, settings.networks)
    return {key: np.array([one[key] for one in measured]) for key in measured[0]}


def trained(
    net: FiniteNetwork,
    params: Params,
    x: np.ndarray,
    y: np.ndarray,
    seen: np.ndarray,
    fraction: float,
    steps: np.ndarray,
) -> Arrays:
    """Movement of the kernel on `seen` after `steps` of gradient descent on (1/2N) Σ (f − y)², and the loss."""
    largest = float(np.linalg.eigvalsh(np.asarray(kernels.empirical(net, params, x), np.float64))[-1])
    rate = fraction * 2 * len(x) / largest
    start = np.asarray(kernels.empirical(net, params, seen), np.float64)
    params, loss = _descend(net, params, x, y, rate, 0)
    movement, losses, done = [], [float(loss)], 0
    for step in steps:
        params, loss = _descend(net, params, x, y, rate, int(step) - done)
        done = int(step)
        now = np.asarray(kernels.empirical(net, params, seen), np.float64)
        movement.append(float(np.linalg.norm(now - start) / np.linalg.norm(start)))
        losses.append(float(loss))
    return {"movement": np.array(movement), "loss": np.array(losses), "rate": np.array(rate)}


@partial(jax.jit, static_argnums=0)
def _descend(net: FiniteNetwork, params: Params, x: Any, y: Any, rate: Any, steps: Any) -> tuple[Any, Any]:
    """Parameters after `steps` of full-batch gradient descent, and the loss there."""
    loss = lambda p: jnp.mean((net.apply(p, x) - y) ** 2) / 2
    move = lambda _, p: jax.tree.map(lambda a, slope: a - rate * slope, p, jax.grad(loss)(p))
    params = jax.lax.fori_loop(0, steps, move, params)
    return params, loss(params)


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (TANGENT_KERNEL, WIDE_NETWORKS), check_settings)
