"""Kernels of random finite networks approach those of infinite width: on the plane, and on the sphere.

One network's kernels differ from the infinite ones by O(1/√width), their mean by O(1/width). So the mean over many wide
networks tests the analytic kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import numpy as np

from equitangents import kernels, nn
from equitangents.groups import so3, wallpaper
from equitangents.report import palette
from equitangents.statistics import Estimate, bootstrap, exactly, power_law, shared_level
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EQUIVARIANT_KERNELS as THEIRS
from equitangents_studies.framework.claims import IN_ERRORS, Claim, Records, claim, ours, theirs
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets

SPACES = {"plane": "C4 ⋉ ℤ² on a torus, ReLU", "sphere": "SO(3), Erf"}
KINDS = ("nngp", "ntk")
_FITTED = 3  # widest networks, to which limits are fitted


@dataclass(frozen=True)
class ConvergenceSettings:
    """`inputs` random signals: images of `lattice`² pixels, and harmonics below `bandlimit`. At every width `batches`
    times `samples` random networks; rotations are sampled as `so3(sampled)`.
    """

    widths: tuple[int, ...] = (4, 8, 16, 32)
    batches: int = 12
    samples: int = 8
    inputs: int = 3
    lattice: int = 3
    bandlimit: int = 2
    sampled: int = 3
    seed: int = 0


PRESETS = presets(
    ConvergenceSettings(),
    desk="widths=8,16,32,64,128 batches=60 samples=2",
    paper="widths=8,16,32,64,128,256 batches=50 samples=20 lattice=6 bandlimit=4 sampled=6",
)


class ConvergenceResults(Results):
    """`exact` kernels of infinite width, `means` over a batch of networks, standard `errors` of the mean over all."""

    exact: dict[tuple[str, str], np.ndarray]
    means: Keyed[np.ndarray] = by("space kind", "width batch i j", of="{kind}")
    errors: Keyed[np.ndarray] = by("space kind", "width i j", of="{kind}_error")


def network(space: str, width: int, settings: ConvergenceSettings) -> nn.Sequential:
    """Lift, nonlinearity, group convolution, nonlinearity, mean over the group, dense readout."""
    if space == "plane":
        group = wallpaper(4, False, (settings.lattice, settings.lattice))
        return nn.Sequential(
            nn.Lift(group, width, window=(2, 2), W_std=2**0.5, b_std=0.1), nn.Relu(),
            nn.GroupConv(width, window="full", W_std=2**0.5, b_std=0.1), nn.Relu(), nn.GroupPool(), nn.Dense(width),
        )  # fmt: skip
    return nn.Sequential(
        nn.SphereLift(so3(settings.sampled), width, W_std=0.7, b_std=0.1), nn.Erf(),
        nn.GroupConv(width, W_std=1.2, b_std=0.1), nn.Erf(), nn.GroupPool(), nn.Dense(width),
    )  # fmt: skip


def inputs(space: str, settings: ConvergenceSettings) -> np.ndarray:
    """Independent Gaussian values of two channels, of unit variance everywhere."""
    rng = np.random.default_rng(settings.seed)
    if space == "plane":
        return rng.normal(size=(settings.inputs, settings.lattice, settings.lattice, 2))
    c = rng.normal(size=(settings.inputs, settings.bandlimit**2, 2))
    return c * (4 * np.pi) ** 0.5 / settings.bandlimit


def check_settings(settings: ConvergenceSettings, data_dir: Path | None) -> None:
    """Require enough widths for a rate and enough batches for an interval; the study reads no data."""
    distinct = len(set(settings.widths)) == len(settings.widths)
    check(distinct and len(settings.widths) >= 3, "widths", settings.widths, "at least three different widths")
    at_least(settings, batches=3, samples=2)
    check(settings.sampled >= settings.bandlimit, "sampled", settings.sampled, "at least bandlimit")


def measure(settings: ConvergenceSettings, folder: RunFolder) -> ConvergenceResults:
    """Analytic kernels, and batches of random networks of every width."""
    title = lambda space, width: f"{SPACES[space]}, width {width}"
    part = Stages("{space}-{width}", title, partial(_batches, settings))
    found = measured(folder, part, levels={"space": tuple(SPACES), "width": settings.widths, "kind": KINDS})
    exact = {(space, kind): K for space in SPACES for kind, K in kernels_of(space, settings).items()}
    return ConvergenceResults.read(found, exact=exact)


def kernels_of(space: str, settings: ConvergenceSettings) -> Arrays:
    """The kernels of infinite width."""
    found = network(space, 1, settings).kernel(inputs(space, settings))
    return {"nngp": np.asarray(found.nngp), "ntk": np.asarray(found.ntk)}


def _batches(settings: ConvergenceSettings, space: str, width: int, task: Task) -> Arrays:
    net, x = network(space, width, settings), inputs(space, settings)
    batches: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
    for b in range(settings.batches):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(settings.seed), width), b)
        found = kernels.monte_carlo(net, x, key=key, samples=settings.samples)
        for kind in KINDS:
            batches[kind].append(getattr(found, kind))
        task.step(b + 1, settings.batches)
    stacked = {kind: np.stack(values) for kind, values in batches.items()}
    error = lambda v: v.std(axis=0, ddof=1) / len(v) ** 0.5
    return stacked | {f"{kind}_error": error(values) for kind, values in stacked.items()}


def deviations(results: ConvergenceResults, space: str, kind: str) -> np.ndarray:
    """Squared deviations of batch means, relative to the kernel: (batches, widths)."""
    exact = results.exact[space, kind]
    off = ((results.means[space, kind] - exact) ** 2).mean(axis=(2, 3)) / (exact**2).mean()
    return off.T


def limits(
    settings: ConvergenceSettings, results: ConvergenceResults, space: str, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Fit mean(n) = K + b/n to the widest networks: K and its standard error, each (N, N)."""
    n = np.array(settings.widths[-_FITTED:], float)
    means = results.means[space, kind][-_FITTED:].mean(axis=1)
    weights = 1 / results.errors[space, kind][-_FITTED:] ** 2
    total, first, second = (np.einsum("wij,w->ij", weights, n**-p) for p in (0, 1, 2))
    determinant = total * second - first**2
    value = np.einsum("wij,wij->ij", weights * (second - first / n[:, None, None]), means) / determinant
    return value, np.sqrt(second / determinant)


def errors_off(settings: ConvergenceSettings, results: ConvergenceResults, space: str, kind: str) -> float:
    """Root mean square over entries of (limit - exact)/(standard error)."""
    value, error = limits(settings, results, space, kind)
    return float(np.sqrt((((value - results.exact[space, kind]) / error) ** 2).mean()))


def rate(settings: ConvergenceSettings, results: ConvergenceResults) -> Estimate:
    """The exponent of the root mean square deviation of all kernels together against the width."""
    mean = np.mean([deviations(results, *key) for key in results.exact], axis=0)  # over spaces and kernels
    return power_law(np.array(settings.widths, float), mean)


def claims(settings: ConvergenceSettings, results: ConvergenceResults) -> Sequence[Claim]:
    """The rate, and the kernels' limit as the width grows."""
    level = shared_level(len(SPACES) * len(KINDS))
    widths = np.array(settings.widths, float)
    over = partial(
        Records.over, label=lambda space, kind: f"{kind.upper()}, {SPACES[space]}", space=tuple(SPACES), kind=KINDS
    )
    exponents = over(lambda space, kind: power_law(widths, deviations(results, space, kind), confidence=level))
    of_rate = partial(
        claim,
        aggregate=("all four kernels together", rate(settings, results)),
        measure=f"Exponent of the root mean square deviation of means over {settings.samples} networks, relative to "
        "the kernel, against the width.",
        covers="batches of networks",
    )
    return [
        of_rate(
            "Kernels of random networks approach the analytic ones as the width grows",
            exponents,
            at_most=0,
            by=theirs(THEIRS, "slides, convergence of kernels", "they converge"),
        ),
        of_rate(
            "They do so as one over the square root of the width",
            exponents,
            at_least=-0.6,
            at_most=-0.4,
            by=ours("theory of kernels that fluctuate as 1/√width; the bounds are our choice", stated="−1/2"),
        ),
        claim(
            "The limit of their means in growing width is the analytic kernel, to within three standard errors",
            over(lambda space, kind: exactly(errors_off(settings, results, space, kind))),
            measure="Deviation of the limit from the analytic kernel in its standard errors, root mean square over "
            f"entries. The limit is K in K + b/width, fitted to widths {settings.widths[-_FITTED]} to {widths[-1]:g}: "
            "means of finite networks are off by one over the width.",
            covers=IN_ERRORS,
            at_most=3,
            by=theirs(THEIRS, "slides, convergence of kernels", "equal"),
        ),
    ]


def present(settings: ConvergenceSettings, results: ConvergenceResults, folder: RunFolder) -> list[Shown]:
    """Deviations of kernels against width."""
    widths = np.array(settings.widths, dtype=float)
    with drawing.panels(
        folder,
        "convergence",
        titles=tuple(SPACES.values()),
        xlabel="width",
        ylabel="relative deviation",
        caption="Means over batches of networks with 95 % intervals over batches.",
        alt="Deviation of kernels against width",
    ) as drawn:
        for axes, space in zip(drawn, SPACES, strict=True):
            drawing.logarithmic(axes, "both", widths, base=2, fine=True)
            for kind, colour, shift in zip(KINDS, (palette.BLUE, palette.VERMILLION), (0.98, 1.02), strict=True):
                values = [bootstrap(d, np.sqrt) for d in deviations(results, space, kind).T]
                drawing.estimates(axes, shift * widths, values, colour.light, label=kind.upper())
            drawing.power(axes, widths, values[0].value, -0.5, label="∝ 1/√width")
    return [drawn.figure]


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
