"""Kernels of random finite networks approach those of infinite width: on the plane, and on the sphere.

One network's kernels fluctuate around the infinite ones with a standard deviation of one over the square root of the
width, and are off on average by one over the width. So the mean over many wide networks tests the analytic kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np

from equitangents import kernels, nn
from equitangents.groups import so3, wallpaper
from equitangents.report import Figure, Section, figures
from equitangents.report.palette import BLUE, MUTED, VERMILLION
from equitangents.report.verdict import Verdict
from equitangents.statistics import Estimate, bootstrap, exactly, power_law, shared_level
from equitangents.studies.framework import drawing
from equitangents.studies.framework.citations import EQUIVARIANT_KERNELS
from equitangents.studies.framework.claims import judge, say
from equitangents.studies.framework.folder import Arrays, Columns, RunFolder
from equitangents.studies.framework.progress import Task
from equitangents.studies.framework.settings import check
from equitangents.studies.framework.study import Presentation, Study
from equitangents.studies.framework.tables import columns

SPACES = {"plane": "C4 ⋉ ℤ² on a torus, ReLU", "sphere": "SO(3), Erf"}
KINDS = ("nngp", "ntk")


@dataclass(frozen=True)
class Settings:
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


PRESETS = {
    "quick": Settings(),
    "paper": Settings(widths=(8, 16, 32, 64, 128, 256), batches=50, samples=20, lattice=6, bandlimit=4, sampled=6),
}


@dataclass(frozen=True, eq=False)
class Results:
    """`exact` by (space, kind): (N, N). `means` by (space, kind): (widths, batches, N, N), means over one batch of
    networks; `errors`: (widths, N, N), standard errors of the mean over all networks.
    """

    exact: dict[tuple[str, str], np.ndarray]
    means: dict[tuple[str, str], np.ndarray]
    errors: dict[tuple[str, str], np.ndarray]


def network(space: str, width: int, settings: Settings) -> nn.Sequential:
    """Lift, nonlinearity, group convolution, nonlinearity, mean over the group, dense layer of as many outputs."""
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


def inputs(space: str, settings: Settings) -> np.ndarray:
    """Independent Gaussian values of two channels, of unit variance everywhere."""
    rng = np.random.default_rng(settings.seed)
    if space == "plane":
        return rng.normal(size=(settings.inputs, settings.lattice, settings.lattice, 2))
    c = rng.normal(size=(settings.inputs, settings.bandlimit**2, 2))
    return c * (4 * np.pi) ** 0.5 / settings.bandlimit


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Analytic kernels, and batches of random networks of every width."""
    check(len(settings.widths) >= 3, "widths", settings.widths, "at least three widths")
    check(settings.batches >= 3, "batches", settings.batches, "at least 3")
    check(settings.samples >= 2, "samples", settings.samples, "at least 2")
    check(settings.sampled >= settings.bandlimit, "sampled", settings.sampled, "at least bandlimit")
    exact, means, errors = {}, {}, {}
    for space, title in SPACES.items():
        found = kernels_of(space, settings)
        parts = [
            folder.stage(f"{space}-{n}", f"{title}, width {n}", partial(_batches, space, n, settings))
            for n in settings.widths
        ]
        for kind in KINDS:
            exact[space, kind] = found[kind]
            means[space, kind] = np.stack([part[kind] for part in parts])
            errors[space, kind] = np.stack([part[f"{kind}_error"] for part in parts])
    return Results(exact, means, errors)


def kernels_of(space: str, settings: Settings) -> Arrays:
    """Of infinite width."""
    found = network(space, 1, settings).kernel(inputs(space, settings))
    return {"nngp": np.asarray(found.nngp), "ntk": np.asarray(found.ntk)}


def _batches(space: str, width: int, settings: Settings, task: Task) -> Arrays:
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


def deviations(results: Results, space: str, kind: str) -> np.ndarray:
    """Squared deviations of batch means, relative to the kernel: (batches, widths)."""
    exact = results.exact[space, kind]
    off = ((results.means[space, kind] - exact) ** 2).mean(axis=(2, 3)) / (exact**2).mean()
    return off.T


def standard_errors(results: Results, space: str, kind: str) -> np.ndarray:
    """Root mean square over entries of (mean - exact)/(standard error), by width."""
    off = results.means[space, kind].mean(axis=1) - results.exact[space, kind]
    return np.sqrt(((off / results.errors[space, kind]) ** 2).mean(axis=(1, 2)))


def claims(settings: Settings, results: Results) -> Sequence[Verdict]:
    """The rate, and agreement at the largest width."""
    level = shared_level(len(SPACES) * len(KINDS))
    label = lambda space, kind: f"{kind.upper()}, {SPACES[space]}"
    rates: dict[str, Estimate] = {}
    agreement: dict[str, Estimate] = {}
    for space in SPACES:
        for kind in KINDS:
            rates[label(space, kind)] = power_law(
                np.array(settings.widths, float), deviations(results, space, kind), level=level
            )
            agreement[label(space, kind)] = exactly(standard_errors(results, space, kind)[-1])
    return [
        judge(
            "Kernels of random networks approach the analytic ones as one over the square root of the width",
            rates,
            measure=f"Exponent of the root mean square deviation of means over {settings.samples} networks against the "
            "width.",
            at_least=-0.75,
            at_most=-0.25,
            source="theory; the bounds are our choice",
        ),
        judge(
            f"At width {settings.widths[-1]} their mean agrees with the analytic kernel",
            agreement,
            measure="Deviation of the mean over all networks in standard errors, root mean square over entries.",
            at_most=3,
            source="theory",
        ),
    ]


def _present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    text = (
        f"Root mean square deviation of the mean over {settings.samples} random networks from the kernel of infinite "
        "width, relative to it. Dotted: one over the square root of the width."
    )
    agree = say(
        verdicts[1],
        holds="Random networks have the analytic kernels, on the plane and on the sphere",
        fails="Random networks do not have the analytic kernels within three standard errors",
        undecided="Whether random networks have the analytic kernels is not decided",
    )
    sections = [Section("Convergence", [text], [_figure(settings, results, folder)])]
    facts = {
        "Networks": f"{settings.batches} × {settings.samples} of every width",
        "Inputs": f"{settings.inputs} random signals",
        "Seed": str(settings.seed),
    }
    return Presentation(
        f"{agree} (width {settings.widths[-1]}).", {"entries": entries(settings, results)}, sections, facts
    )


def entries(settings: Settings, results: Results) -> Columns:
    """Every entry of every kernel: exact, mean over networks, standard error."""
    rows = [
        (space, kind, n, i, j, results.exact[space, kind][i, j], results.means[space, kind][w, :, i, j].mean(),
         results.errors[space, kind][w, i, j])
        for space, kind in results.exact for w, n in enumerate(settings.widths)
        for i in range(settings.inputs) for j in range(i, settings.inputs)
    ]  # fmt: skip
    return columns(("space", "kernel", "width", "i", "j", "analytic", "mean", "standard_error"), rows)


def _figure(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    widths = np.array(settings.widths, dtype=float)
    with figures.canvas(8.6, 3.2) as canvas:
        for axes, space in zip(canvas.subplots(1, 2), SPACES, strict=True):
            drawing.logarithmic(axes, "both", widths, base=2, fine=True)
            for kind, colour in zip(KINDS, (BLUE, VERMILLION), strict=True):
                values = [bootstrap(d, np.sqrt) for d in deviations(results, space, kind).T]
                drawing.estimates(axes, widths, values, colour.light, label=kind.upper())
            axes.plot(widths, values[0].value * (widths / widths[0]) ** -0.5, color=MUTED.light, lw=0.9, ls=(0, (2, 2)))
            axes.set_title(SPACES[space])
            axes.set_xlabel("width")
            axes.set_ylabel("relative deviation")
            axes.legend(loc="lower left")
        svg = figures.save(canvas, folder.figures, "convergence")
    caption = "Means over batches of networks with 95 % intervals."
    return Figure("convergence", caption, svg, alt="Deviation of kernels against width")


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, _present, (EQUIVARIANT_KERNELS,))
