"""At which output scale do networks leave what their tangent kernel predicts, and what becomes of equivariance there?

A network of n hidden units times α, trained at a rate of 1/α² times the usual one, has one tangent kernel at its start
for every α. With α = 1 it is that of the closed form, with α = 1/√n that of the mean-field limit, f(x) =
(1/n) Σ_i a_i φ(w_i·x), in which units move as far as outputs do. Between them λ = α√n counts: weights move by shares of
order 1/λ. At λ = 1 augmentation and the training of orbit means (feature averaging) become one as n grows, and every
single network becomes invariant; the mean over networks is invariant at every n and λ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from equitangents import actions, nn
from equitangents.report import palette
from equitangents.statistics import Estimate, power_law, shared_level, squared_mean, surviving_share
from equitangents_studies.common.images import Chosen, Images, load_images
from equitangents_studies.common.infinite import gradient_descent, orbit_means
from equitangents_studies.common.orbits import deviations
from equitangents_studies.common.training import train_to_last
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import Claim, Records, claim, ours, proved
from equitangents_studies.framework.measured import Keyed, Measured, Part, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets
from equitangents_studies.framework.works import BEYOND_THE_LIMIT, LAZY_TRAINING, MEAN_FIELD

GROUP, LEFT, FALLS, LEAVES = "C4", 0.02, -0.4, 0.1
_TRAININGS = {"augmented": 0.0, "averaged": -1.0}
AUGMENTED, AVERAGED = _TRAININGS


@dataclass(frozen=True)
class Settings:
    """`members` networks of one hidden layer for each of `widths` n and `scales` λ = α√n, of which 1 is the mean-field
    scale; also λ = √n, that of the tangent kernel. They learn ±1 for odd and even classes of `data`, brought to
    `pixels`, for `steps` steps at `rate` times the largest stable rate of infinite width, in all quarter turns.
    """

    data: str = "digits"
    pixels: int | None = None
    train_images: int | None = 12
    test_images: int | None = 24
    widths: tuple[int, ...] = (16, 64, 256)
    scales: tuple[float, ...] = (1.0, 2.0)
    members: int = 32
    steps: int = 40
    rate: float = 0.1
    seed: int = 0

    @property
    def images(self) -> Chosen:
        """Images of `data` alone."""
        return Chosen(self.data, (), self.train_images, self.test_images, 0, self.pixels, self.seed)

    def scales_of(self, width: int) -> list[float]:
        """The scales λ of networks of a width, with that of the tangent kernel."""
        return sorted({*self.scales, math.sqrt(width)})


PRESETS = presets(
    Settings(),
    desk="widths=32,128,512 scales=1,2,4 members=128 steps=60",
    paper="data=mnist pixels=14 widths=64,256,1024,4096,16384 scales=0.5,1,2,4,8,16 members=256 steps=500 "
    "train_images=64 test_images=256",
)


class Results(Measured):
    """`outputs` of networks along the orbits of test images, `limit` the mean of infinitely wide ones by the tangent
    kernel. Distances are relative to the root mean square of the latter.
    """

    action: actions.Action
    outputs: Keyed[np.ndarray] = by("width scale", "member element image", of=f"{AUGMENTED}.test")
    averaged: Keyed[np.ndarray] = by("width scale", "member element image", of=f"{AVERAGED}.test")
    limit: np.ndarray

    def distance(self, width: int, scale: float, level: float = 0.95) -> Estimate:
        """Root mean square of E f − μ over that of μ, unbiased before the root."""
        f = self.outputs[width, scale].astype(np.float64)
        found = squared_mean((f - self.limit).reshape(len(f), -1), confidence=level).times(1 / self._size)
        root = lambda v: math.sqrt(max(v, 0.0)) if math.isfinite(v) else v
        return Estimate(root(found.value), root(found.low), root(found.high), level)

    def changes(self, width: int, scale: float) -> np.ndarray:
        """f(gx) − f(x) of every member, (members, values)."""
        return deviations(self.action, self.outputs[width, scale].astype(np.float64)).reshape(self._members, -1)

    def apart(self, width: int, scale: float) -> np.ndarray:
        """Mean square difference of each augmented network and the one that was averaged from the same start."""
        d = self.outputs[width, scale].astype(np.float64) - self.averaged[width, scale]
        return (d**2).reshape(self._members, -1).mean(axis=1) / self._size

    def violation(self, width: int, scale: float) -> np.ndarray:
        """Mean square change of each member."""
        return (self.changes(width, scale) ** 2).mean(axis=1) / self._size

    @property
    def _size(self) -> float:
        return float((self.limit**2).mean())

    @property
    def _members(self) -> int:
        return len(next(iter(self.outputs.values())))


def network(width: int, scale: float) -> nn.Sequential:
    """One hidden layer of `width` units, times α = λ/√n."""
    hidden = nn.Dense(width, W_std=2**0.5, b_std=0.1)
    return nn.Sequential(nn.Flatten(), hidden, nn.Relu(), nn.Dense(1), nn.Scale(scale / math.sqrt(width)))


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Members enough for intervals, widths enough for exponents, and images that are there."""
    at_least(settings, members=5, steps=1, train_images=2)
    distinct = len(set(settings.widths)) >= 3
    check(distinct, "widths", settings.widths, "at least three different widths")
    check(1.0 in settings.scales, "scales", settings.scales, "a list with 1, the mean-field scale")
    load_images(settings.images, data_dir)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Infinite width in closed form, then networks of every width and scale, augmented and averaged."""
    images = load_images(settings.images, folder.data_dir)
    action = actions.as_action("group", GROUP, (1, *images.train_x.shape[1:]))
    wide = measured(folder, Part("infinite", "Infinite width", partial(_wide, settings, images, action)), levels={})
    found = wide.stage("infinite")
    every = [(n, scale) for n in sorted(settings.widths) for scale in settings.scales_of(n)]
    parts = [
        Part(
            f"{how}-{{width}}-{{scale:.4g}}",
            lambda n, scale, how=how: f"Training {settings.members} networks of {n} units, {how}, λ = {scale:.3g}",
            partial(_trained, settings, folder, images, action, float(found["rate"]), how),
        )
        for how in _TRAININGS
    ]
    trained = measured(folder, *parts, levels={"width scale": every})
    return Results.read(trained, action=action, limit=found["limit"])


def _targets(images: Images) -> np.ndarray:
    return np.where(images.train_y % 2, 1.0, -1.0)


def _wide(settings: Settings, images: Images, action: actions.Action, task: Task) -> Arrays:
    net = nn.Sequential(*network(1, 1.0).layers[:-1])
    x = images.train_x.astype(np.float64)
    model = gradient_descent(net, x, _targets(images), settings.rate, augmentation=action)
    limit = orbit_means(model, action, images.sets["test"].astype(np.float64), np.array([float(settings.steps)]))
    return {"rate": np.array(model.learning_rate), "limit": limit[0, ..., 0]}


def _trained(
    settings: Settings,
    folder: RunFolder,
    images: Images,
    action: actions.Action,
    rate: float,
    how: str,
    width: int,
    scale: float,
    task: Task,
) -> Arrays:
    return train_to_last(
        folder.checkpoints(f"{how}-{width}-{scale:.4g}"),
        network(width, scale),
        images.train_x,
        _targets(images),
        task,
        augmentation=action,
        members=settings.members,
        learning_rate=rate * width / scale**2,
        equivariance_penalty=_TRAININGS[how],
        record={"test": images.sets["test"]},
        record_at=[settings.steps],
        orbits=action,
        keep=lambda recorded: {"test": recorded["test"][0, ..., 0].astype(np.float32)},
        seed=settings.seed,
    )


def _left(settings: Settings, results: Results) -> Records:
    """The share of a member's mean square violation that infinitely many leave, at every width and scale."""
    every = [(n, scale) for n in sorted(settings.widths) for scale in settings.scales_of(n)]
    return Records.over(
        lambda pair: surviving_share(results.changes(*pair), confidence=shared_level(len(every))),
        lambda pair: f"{pair[0]} units, {_scale(*pair)}",
        pair=every,
    )


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What holds in the mean-field limit, what holds at every width and scale, and where the closed form is left."""
    widths = sorted(settings.widths)
    exponent = lambda squares: power_law(np.array(widths), np.stack([squares(n, 1.0) for n in widths], axis=1))
    apart, violation = exponent(results.apart), exponent(results.violation)
    n = widths[-1]
    left = _left(settings, results)
    at_kernel, at_field = results.distance(n, math.sqrt(n)), results.distance(n, 1.0)
    return [
        claim(
            "At the mean-field scale augmented networks and those whose orbit means are trained become one as the "
            "width grows",
            {"all widths": apart},
            measure="Exponent of the root mean square difference, against width, of two networks from the same start: "
            "one trained on all turned copies, one on its outputs’ means over orbits.",
            covers="members",
            at_most=FALLS,
            by=proved(f"{MEAN_FIELD}; the bound is our choice", "theorem on the mean-field limit", "0 in the limit"),
        ),
        claim(
            "At the mean-field scale single networks become invariant as the width grows",
            {"all widths": violation},
            measure="Exponent of one network’s root mean square change along orbits, against width.",
            covers="members",
            at_most=FALLS,
            by=proved(f"{MEAN_FIELD}; the bound is our choice", "theorem on the mean-field limit", "0 in the limit"),
        ),
        claim(
            f"Infinitely many augmented networks leave at most {100 * LEFT:g} % of a member’s violation at every scale",
            left,
            measure="(E d)² / E d², with d = f(ρ(g)x) − f(x) of one trained network and E over networks; without bias.",
            covers="members",
            at_most=LEFT,
            by=proved(f"{BEYOND_THE_LIMIT}: exactly 0 at every width; the bound is our choice", "main theorem", "0"),
        ),
        claim(
            f"At the mean-field scale the mean of networks is more than {100 * LEAVES:g} % away from what the tangent "
            "kernel predicts",
            {f"{n} units": at_field},
            measure="Root mean square of E f − μ on test images over that of μ, the mean of infinitely wide networks "
            f"after as many steps; at the scale of the tangent kernel it is {at_kernel.value:.2g} at this width.",
            covers="members",
            at_least=LEAVES,
            by=ours(f"{LAZY_TRAINING}: weights move by a share of order 1/λ; the bound is our choice"),
        ),
    ]


def _scale(width: int, scale: float) -> str:
    return "scale of the tangent kernel" if scale == math.sqrt(width) else f"λ = {scale:g}"


_COLOURS = (palette.BLUE, palette.ORANGE, palette.VERMILLION, palette.GREEN, palette.PURPLE)


def present(settings: Settings, results: Results, folder: RunFolder) -> list[Shown]:
    """Distances from the closed form."""
    with drawing.panels(
        folder,
        "distance-over-scale",
        titles=["Distance of the mean of networks from the closed form"],
        xlabel="output scale λ = α√n",
        ylabel="relative distance",
        size=(6.4, 3.8),
        caption="E f − μ over the size of μ, on test images, with 95 % intervals over members, by width; one point of "
        "each line, the ring, is at the scale of the tangent kernel.",
        alt="Relative distance of networks from the closed form against their output scale, by width",
    ) as drawn:
        (axes,) = drawn
        for n, colour in zip(sorted(settings.widths), _COLOURS, strict=False):
            scales = settings.scales_of(n)
            found = [results.distance(n, scale) for scale in scales]
            values = np.array([[e.value, e.low, e.high] for e in found])
            axes.plot(scales, values[:, 0], "o-", ms=3.5, color=colour.light, label=f"{n} units")
            axes.fill_between(scales, values[:, 1], values[:, 2], color=colour.light, alpha=0.2, lw=0)
            lazy = values[scales.index(math.sqrt(n)), 0]
            axes.plot(math.sqrt(n), lazy, "o", ms=7, color=colour.light, mfc="white", zorder=3)
        drawing.logarithmic(axes, "x", sorted(settings.scales), base=2)
        axes.set_ylim(bottom=0)
    return [drawn.figure]


STUDY: Study[Settings, Results] = Study(
    PRESETS, measure, claims, (MEAN_FIELD, BEYOND_THE_LIMIT, LAZY_TRAINING), check_settings
)
