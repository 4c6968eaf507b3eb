"""Some classes are seen in all orientations, others in part: is the symmetry learnt for the others?

Images are read along rings, where C_n acts exactly for every n, and as pixels, where D4 does. Trained are kernels of an
MLP, and of a CNN whose mean over positions makes it invariant. Claimed: in orientations never seen, a plain network
errs on the partly seen classes; denser orbits help; an invariant network does not see the difference.

Θ is invariant under G, and Θ̂ is its matrix for all copies of the data, plus the ridge. K = Θ̂⁻¹ has the Fourier
transform over G of one inverse for each irrep, and (K Y)_(g,i) = (Θ̂₀⁻¹ y)_i, the same at every orientation g, with Θ̂₀
the trivial irrep's block. Trained without the copies M, the predictor is off their targets by e_M = (K_MM)⁻¹ (K Y)_M,
and has the weights α = K Y − K_(·,M) e_M. It is also solved for on the copies that are seen, without irreps.

Source of the form for one missing copy: Perin & Deny 2025, arXiv 2412.11521.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float

from equitangents import actions, nn
from equitangents.errors import NotPositiveDefiniteError
from equitangents.inference import GroupFourier, fourier_irreps
from equitangents.kernels import KernelFunction
from equitangents.report import Figure, Table, palette
from equitangents.solvers import solve
from equitangents.statistics import Estimate, exactly, t_interval
from equitangents_studies import data
from equitangents_studies.common import networks
from equitangents_studies.common.images import standardise
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import Claim, claim, exact, identity, table, theirs, to_rounding
from equitangents_studies.framework.measured import Keyed, Measured, Part, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets
from equitangents_studies.framework.works import PARTIAL_ORBITS as THEIRS
from equitangents_studies.systems.curves import centred_classes
from equitangents_studies.systems.grams import GroupGrams, group_grams, irrep_blocks

SETS = ("digits", "letters")
MODELS = {"mlp": "MLP", "invariant": "invariant CNN"}
RIDGE = 1e-4


@dataclass(frozen=True)
class Settings:
    """In each of `draws` draws, `per_class` images of each of `classes` classes (half of them partly seen) and
    `test_per_class` further ones. Rings under C_n for n in `orders`, one orientation missing, and half of them; D4 on
    `pixels` × `pixels`. `rings` × `angles` samples an image; `angles` is a multiple of all orders.
    """

    classes: int = 6
    per_class: int = 5
    test_per_class: int = 5
    draws: int = 5
    orders: tuple[int, ...] = (4, 8, 16)
    rings: int = 4
    angles: int = 32
    pixels: int = 8
    hidden_layers: int = 2
    seed: int = 0


PRESETS = presets(
    Settings(),
    desk="classes=10 per_class=8 test_per_class=8 draws=6",
    paper="classes=10 per_class=8 test_per_class=8 draws=50 orders=4,8,16,32,64 angles=64 rings=8",
)


Case = tuple[str, str, str, str]
"""(set, model, group, what is missing)."""
_CASE = "data network group missing"
_WHAT = {
    "unseen": "training images, unseen orientations",
    "one": "one orientation of one image missing",
    "further_seen": "further images, seen orientations",
    "further_unseen": "further images, unseen orientations",
    "whole_unseen": "further images of classes seen whole",
}


class Results(Measured):
    """Accuracies on images of `_WHAT`, and how `different` predictions by irreps are from those of the exact solve."""

    accuracy: Keyed[np.ndarray] = by(f"{_CASE} images", "draw", of="{images}")
    different: Keyed[np.ndarray] = by(_CASE, "draw")

    def estimate(self, case: Case, what: str) -> Estimate:
        """The mean over draws of one accuracy."""
        return t_interval(self.accuracy[*case, what], bounds=(0, 1))

    def gap(self, case: Case) -> np.ndarray:
        """Accuracies in orientations seen minus unseen, further images of partly seen classes: (draws,)."""
        return self.accuracy[*case, "further_seen"] - self.accuracy[*case, "further_unseen"]


def cases(settings: Settings) -> list[Case]:
    """All cases, in the order of stages."""
    groups = [f"C{n}" for n in settings.orders]
    rings = [(s, m, g, missing) for s in SETS for m in MODELS for g in groups for missing in ("one", "half")]
    return [*rings, *((s, "mlp", "D4", missing) for s in SETS for missing in ("one", "half"))]


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Rings that every group turns exactly, and images enough."""
    at_least(settings, classes=2, per_class=1, test_per_class=1, draws=2, rings=1, pixels=2, hidden_layers=1)
    orders = settings.orders
    check(
        list(orders) == sorted(set(orders)) and min(orders, default=0) >= 2, "orders", orders, "increasing, from 2 on"
    )
    check(
        all(settings.angles % n == 0 for n in orders), "angles", settings.angles, f"a multiple of all orders, {orders}"
    )
    check(settings.classes <= 10, "classes", settings.classes, "at most 10, the digits")
    each = settings.per_class + settings.test_per_class
    check(each <= 21, "per_class", settings.per_class, f"so that {each} of the 21 images of a letter suffice")


def network(model: str, settings: Settings) -> nn.Sequential:
    """An MLP, or a CNN on rings whose mean over positions no turn changes."""
    if model == "mlp":
        return networks.mlp(8, settings.hidden_layers, flatten=True, output_std=1)
    convolution = lambda: nn.Conv(8, (1, 3), padding="circular", W_std=2**0.5, b_std=0.1)
    return nn.Sequential(*networks.hidden(settings.hidden_layers, convolution), nn.GlobalAvgPool(), nn.Dense(1))


def images(name: str, settings: Settings, draw: int) -> tuple[np.ndarray, ...]:
    """(x, y, further x, further y) of one draw: classes, and images of each, at random; float64, standardised."""
    x, y = data.digits().pooled if name == "digits" else data.letters(16)
    rng = np.random.default_rng((settings.seed, SETS.index(name), draw))
    chosen = rng.permutation(np.unique(y))[: settings.classes]
    each = settings.per_class + settings.test_per_class
    rows = np.stack([rng.permutation(np.flatnonzero(y == c))[:each] for c in chosen])
    labels = np.repeat(np.arange(len(chosen))[:, None], each, axis=1)
    few, rest = slice(settings.per_class), slice(settings.per_class, each)
    take = lambda part: (standardise(x[rows[:, part].ravel()]).astype(np.float64), labels[:, part].ravel())
    return (*take(few), *take(rest))


def measure(settings: Settings, folder: RunFolder) -> Results:
    """One stage for each set, network, group and number of missing orientations."""
    part = Part("{data}-{network}-{group}-{missing}", label, partial(_draws, settings))
    return Results.read(measured(folder, part, levels={_CASE: cases(settings), "images": tuple(_WHAT)}))


def label(name: str, model: str, group: str, missing: str) -> str:
    """A case in words."""
    return f"{name}, {MODELS[model]}, {group}, {missing} missing"


def _draws(settings: Settings, name: str, model: str, group: str, missing: str, task: Task) -> Arrays:
    rows = []
    for draw in range(settings.draws):
        rows.append(run(settings, (name, model, group, missing), draw))
        task.step(draw + 1, settings.draws)
    return {what: np.array([row[what] for row in rows]) for what in rows[0]}


def run(settings: Settings, case: Case, draw: int) -> dict[str, float]:
    """One draw: of partly seen classes the last element, or the second half of all, is missing."""
    name, model, group, missing = case
    x, y, further, labels = images(name, settings, draw)
    if group == "D4":
        action: actions.Action = actions.image_dihedral(4)
        sized = lambda z: data.resize(z, (settings.pixels,) * 2)
    else:
        action = actions.ring_rotations(int(group[1:]))
        sized = lambda z: actions.to_rings(z, settings.rings, settings.angles)
    order = action.group.order
    unseen = np.arange(order) >= (order - 1 if missing == "one" else order // 2)
    part, tested = (z >= settings.classes // 2 for z in (y, labels))
    found = predicted(network(model, settings), action, sized(x), y, np.outer(unseen, part), sized(further))
    right = found.outputs[:, : len(x)].argmax(axis=2) == y
    known = found.outputs[:, len(x) :].argmax(axis=2) == labels
    at = lambda elements, inputs: float(known[elements][:, inputs].mean(axis=0).mean())
    return {
        "unseen": float(right[unseen][:, part].mean()),
        "one": float((found.one_missing.argmax(axis=1) == y)[part].mean()),
        "further_seen": at(~unseen, tested),
        "further_unseen": at(unseen, tested),
        "whole_unseen": at(unseen, ~tested),
        "different": float(np.abs(found.outputs[:, : len(x)] - found.exact).max() / np.abs(found.exact).max()),
    }


class Predicted(NamedTuple):
    """`outputs` at every orientation of the training and the further inputs, from irreps, and `exact` of the former.

    `one_missing`: at any orientation of each input, were it the only copy that is not trained on.
    """

    outputs: Float[np.ndarray, "order all classes"]
    exact: Float[np.ndarray, "order n classes"]
    one_missing: Float[np.ndarray, "n classes"]


def predicted(
    net: KernelFunction,
    action: actions.Action,
    x: Float[np.ndarray, "n ..."],
    labels: np.ndarray,
    missing: Bool[np.ndarray, "order n"],
    further: Float[np.ndarray, "m ..."],
    ridge: float = RIDGE,
) -> Predicted:
    """The NTK's regression on all copies of x but those `missing`; `ridge` is relative to its mean diagonal.

    Raises NotPositiveDefiniteError where the ridge is too small for the precision of the inputs.
    """
    group, n, y = action.group, len(x), centred_classes(labels, int(labels.max()) + 1)
    whole = group_grams(net, action, np.concatenate([x, further]), "ntk", lambda done, total: None, n)
    own = GroupGrams(group, {g: K[:n] for g, K in whole.matrices.items()})
    delta = ridge * float(np.diagonal(own.of(group.identity)).mean(dtype=np.float64))
    inverse = inverse_of_orbits(own, delta)
    pull = inverse.sum(axis=2) @ y
    one_missing = y - pull / np.diagonal(inverse[:, :, group.identity])[:, None]
    g, i = np.nonzero(missing)
    relative = group.compose(group.inverses[g][:, None], g[None, :])
    off = np.zeros((group.order, *y.shape))
    inner = inverse[i[:, None], i[None, :], relative]
    off[g, i] = solve((inner + inner.T) / 2, pull[i], solver="cholesky").coefficients
    weights = np.broadcast_to(pull, off.shape).copy()
    for h in np.unique(g):
        shifted = inverse[:, :, group.compose(group.inverses, h)]
        weights -= np.einsum("ijg,jk->gik", shifted, off[h], optimize=True)
    return Predicted(_outputs(whole, weights), _outputs(own, exact_weights(own, y, delta, missing)), one_missing)


def inverse_of_orbits(grams: GroupGrams, ridge: float) -> Float[np.ndarray, "n n order"]:
    """K_(g,i)(h,j) as a function of i, j and g⁻¹h, by the inverse of each irrep's block."""
    irreps, n, parts = fourier_irreps(grams.group), len(grams.of(grams.group.identity)), []
    for irrep, block in zip(irreps, irrep_blocks(grams, irreps), strict=True):
        d = irrep.dimension
        block[np.diag_indices(n * d)] += ridge
        try:  # Hermitian, which `solvers` do not take
            inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(block, lower=True), np.eye(n * d))
        except np.linalg.LinAlgError:
            what = "one with which every irrep's block is positive definite"
            raise NotPositiveDefiniteError("ridge", ridge, what, "take a larger one") from None
        parts.append(inverse.reshape(n, d, n, d).transpose(0, 2, 1, 3))
    return GroupFourier(irreps).inverse(parts)


def exact_weights(
    grams: GroupGrams, y: Float[np.ndarray, "n classes"], ridge: float, missing: Bool[np.ndarray, "order n"]
) -> Float[np.ndarray, "order n classes"]:
    """α by solving for the copies that are seen, 0 at those that are missing."""
    group = grams.group
    g, i = np.nonzero(~missing)
    K = np.empty((len(g), len(g)))
    for a in group.elements:
        for b in group.elements:
            rows, columns = np.flatnonzero(g == a), np.flatnonzero(g == b)
            block = grams.of(int(group.compose(group.inverse(a), b)))
            K[np.ix_(rows, columns)] = block[np.ix_(i[rows], i[columns])]
    K[np.diag_indices(len(K))] += ridge
    found = np.zeros((*missing.shape, y.shape[1]))
    found[g, i] = solve((K + K.T) / 2, y[i], solver="cholesky").coefficients
    return found


def _outputs(
    grams: GroupGrams, weights: Float[np.ndarray, "order n classes"]
) -> Float[np.ndarray, "order all classes"]:
    """f(ρ(g) x) = Σ_hj Θ_{g⁻¹h}(x, x_j) α_hj at every g."""
    group = grams.group
    of = lambda g, h: grams.of(int(group.compose(group.inverse(g), h))).astype(np.float64) @ weights[h]
    return np.stack([sum(of(g, h) for h in group.elements) for g in group.elements])


def density_gains(settings: Settings, results: Results) -> np.ndarray:
    """Share of right classes in the missing orientation, densest group minus sparsest; MLP, (sets, draws)."""
    least, most = f"C{settings.orders[0]}", f"C{settings.orders[-1]}"
    at = lambda name, group: results.accuracy[name, "mlp", group, "one", "one"]
    return np.array([at(name, most) - at(name, least) for name in SETS])


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The irrep basis is exact; plain networks do not learn the symmetry; dense orbits help; invariance removes it."""
    differences = {label(*k): exactly(float(value.max())) for k, value in results.different.items()}
    half = [k for k in cases(settings) if k[1] == "mlp" and k[3] == "half"]
    mean = np.mean([results.gap(k) for k in half], axis=0)  # paired by draw
    gaps = {label(*k): t_interval(results.gap(k), bounds=(-1, 1)).times(100) for k in half}
    least, most = f"C{settings.orders[0]}", f"C{settings.orders[-1]}"
    denser = density_gains(settings, results)
    density = {name: t_interval(row, bounds=(-1, 1)).times(100) for name, row in zip(SETS, denser, strict=True)}
    invariant = [c for c in cases(settings) if c[1] == "invariant"]
    same = {label(*c): exactly(float(np.abs(results.gap(c)).max())) for c in invariant}
    return [
        to_rounding(
            "The predictor in the irrep basis is the exact solution, to 10⁻⁸",
            differences,
            measure="Largest difference of predictions over the largest, all orientations of all training images.",
            by=identity(f"{THEIRS} has it for one missing copy; for any number the algebra is ours"),
        ),
        claim(
            "With half of the orientations missing, an MLP errs more in orientations in which partly seen classes were "
            "not seen",
            gaps,
            aggregate=("the mean over sets and groups", t_interval(mean, bounds=(-1, 1)).times(100)),
            measure="Accuracy on further images of partly seen classes in orientations that were seen minus that in "
            "orientations that were not, in percentage points.",
            covers=("draws of classes and images", settings.draws),
            at_least=0,
            unit="percentage points",
            by=theirs(THEIRS, "abstract", "networks do not learn the symmetry from the other classes"),
        ),
        claim(
            f"With one missing orientation of one image, dense orbits ({most}) are completed more often than "
            f"sparse ones ({least})",
            density,
            aggregate=("the mean over sets", t_interval(denser.mean(axis=0), bounds=(-1, 1)).times(100)),
            measure="Share of images of partly seen classes that get the right class in the missing orientation, "
            f"{most} minus {least}, in percentage points; MLP.",
            covers=("draws of classes and images", settings.draws),
            at_least=0,
            unit="percentage points",
            by=theirs(THEIRS, "abstract", "generalisation needs dense orbits"),
        ),
        exact(
            "An invariant network classifies unseen orientations exactly as seen ones",
            same,
            measure="Largest difference of accuracies on further images of partly seen classes, over draws.",
            at_most=1e-9,
            by=theirs(THEIRS, "abstract", "architectures that match the symmetry succeed"),
        ),
    ]


def present(settings: Settings, results: Results, folder: RunFolder) -> list[Shown]:
    """Accuracies against the order of the group, and their numbers."""
    return [_curves(settings, results, folder), _table(settings, results)]


def _curves(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy",
        titles=SETS,
        xlabel="order of the cyclic group",
        ylabel="share of right classes",
        sharey=True,
        caption=(
            "Images of partly seen classes, half of their orientations missing, MLP: further images in "
            "orientations seen and not seen; and, with the invariant CNN, those not seen. Means over "
            "draws with 95 % intervals over draws."
        ),
        alt="Accuracy against the order of the group",
    ) as drawn:
        lines = (
            ("mlp", "further_seen", "MLP, seen"),
            ("mlp", "further_unseen", "MLP, unseen"),
            ("invariant", "further_unseen", "invariant CNN, unseen"),
        )
        colours = (palette.BLUE, palette.VERMILLION, palette.GREEN)
        for axes, name in zip(drawn, SETS, strict=True):
            values = {
                label: [results.estimate((name, model, f"C{n}", "half"), what) for n in settings.orders]
                for model, what, label in lines
            }
            drawing.curves(axes, settings.orders, values, colours, apart=1.04)
            drawing.logarithmic(axes, "x", settings.orders, base=2)
    return drawn.figure


def _table(settings: Settings, results: Results) -> Table:
    rows = [[label(*case), *(results.estimate(case, what) for what in _WHAT)] for case in cases(settings)]
    return table("Shares of right classes; in brackets 95 % intervals over draws.", ["", *_WHAT.values()], rows)


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
