"""Choice of an infinitely wide classifier for a few hundred images or vectors, by left-out samples, within minutes.

The time of a candidate is known from `kernel_cost`, scaled by how far earlier estimates were off, and then from its own
first tiles; it is tried if it ends in time (`searching`). Both kernels, all ridges and all folds are scored from one
computation (`assessing`), and the chosen model is solved with the kernels already computed. Finally the learning curve
and predictions of rotated left-out images are computed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import numpy as np
import scipy.special
from jaxtyping import Float, Int

from equitangents._types import AnyAction, Numbers, Targets
from equitangents.actions import Action
from equitangents.actions.images import ExactRotations, ImageMotions, ResampledRotations
from equitangents.actions.kinds import ActionLike
from equitangents.ensembles import InfiniteEnsembleClassifier
from equitangents.ensembles.estimator import indices_of
from equitangents.ensembles.standardisation import Standardisation
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.fit.assessing import Folds, Subset, fit_and_predict, make_folds, near_duplicates
from equitangents.fit.baselines import NAMES, fit_baselines
from equitangents.fit.candidates import candidates, of_features
from equitangents.fit.result import Choice, LearningCurvePoint, RotationScore, scored
from equitangents.fit.searching import KernelTrial, Progress, Search, TrialResult
from equitangents.groups import cyclic
from equitangents.kernels import orbit_average
from equitangents.kernels.invariance import known_invariant
from equitangents.statistics import bootstrap
from equitangents.validation import check_choice, check_number, check_whole

MIN_SAMPLES, MAX_SAMPLES = 4, 2_000
"""Samples of a choice: kernels are held in memory and decomposed for every fold."""

_SEARCH = 0.8  # of the time: the rest is for the fit and for rotated copies
_ROTATIONS = 0.1  # of the time, at most, for rotated copies
_BASELINES = 0.3  # of the time, after which no further baseline is begun
_SHARES, _MIN_TRAINING = (0.125, 0.25, 0.5, 1.0), 10  # of the samples, for the learning curve; the fewest samples
_ANGLES, _MIN_COPIES, _MAX_COPIES = 8, 40, 1_600  # rotated copies in all
_PRECISIONS, _ROUNDING = ("float32", "float64"), 1e-6  # of the standard deviation of pixels
_SQUARE, _OBLONG = (None, "C4", "D4", "C8", "D8"), (None, "C2", "D2")  # groups of augmentation="auto"


def auto(
    x: Numbers,
    y: Targets,
    *,
    augmentation: ActionLike | None = None,
    together: Numbers | None = None,
    minutes: float = 5.0,
    baselines: bool = True,
    standardise: bool = True,
    precision: str | None = None,
    fast: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Choice:
    """Choose the classifier of the smallest log loss on left-out samples: a dense, convolutional, pooled or staged
    network, or a dense one on colours, edges and their directions.

    Among candidates within one standard error of the smallest log loss, the best is chosen that needs at most 1,000
    times the least work of these. Each sample is predicted by the model trained without its set, exactly. Ridge, kernel
    (all layers trained, or the last one) and image size are chosen with the network. The reported score is not the one
    that chose: each of five folds is predicted by a choice made on the others, temperature included. If there is no
    time for all candidates, their scores on one fold order them, and that fold is not scored. Inputs are standardised
    by all samples.

    Args:
        x: (N, features), or images (N, H, W, C); 4 to 2,000 of them.
        y: (N,) labels of any type.
        augmentation: name of a group, or an action, all of whose copies are trained on: see `InfiniteEnsemble`. With a
            resampled one, such as C8 or D8, the network is an `orbit_average` instead, which is only nearly invariant.
            "auto", for images: the best of none, C4, D4, C8 and D8 (none, C2 and D2 if height and width differ).
        together: (N,) a value shared by samples that belong together, such as the slide of a tile: they are left out
            together, and lie in one fold. None: samples are left out one by one.
        minutes: time limit, fit included; the cheapest network is tried in any case. Ctrl-C takes the best so far.
        baselines: fit the majority, nearest neighbours, a random forest and a support vector machine on the same folds.
        standardise: as in `InfiniteEnsemble`.
        precision: of kernels, "float32" or "float64"; None: float32 for images, unless that moves a pixel by more than
            1e-6 of their standard deviation, and the precision of vectors. Systems are solved in float64.
        fast: only networks that predict 20 images per second or more on this machine, and the cheapest.
        seed: of the folds, the forest and the rotated copies.
        progress: called with a `Step` now and then.

    Raises InvalidArgumentError for other inputs and labels, fewer than three sets, a class in one set only, a group
    under which kernels are not known to be invariant, and if no candidate has a score.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(40, 3))
    >>> choice = auto(x, x[:, 0] > 0, baselines=False, minutes=1)
    >>> choice.score.accuracy.value > 0.7, choice.model.predict(x[:1]).tolist() == [bool(x[0, 0] > 0)]
    (True, True)
    """
    start = time.perf_counter()
    check_number("minutes", minutes, "a positive number", lambda m: 0 < m < math.inf)
    seed, end = check_whole("seed", seed, 0, 2**32 - 1), start + 60 * minutes
    search = Search(start + 60 * minutes * _SEARCH, progress, fast)
    shape = np.shape(x)
    if len(shape) not in (2, 4):
        raise ShapeError("x", shape, "vectors (N, features) or images (N, H, W, C)")
    if not MIN_SAMPLES <= shape[0] <= MAX_SAMPLES:
        allowed = range(MIN_SAMPLES, MAX_SAMPLES + 1)
        raise InvalidArgumentError("x", shape[0], allowed, "take InfiniteEnsemble", verb="has samples,")
    x = _in_precision(x, precision)
    options = {"standardise": standardise, "calibrate": True}
    first, trials, search.refused = _trials(x, y, _groups(augmentation, shape), options)
    labels = indices_of(first._data[1], first.classes_)
    problem = make_folds(labels, tuple(map(str, first.classes_)), together, seed)
    upright = trials[0].training.x
    probabilities: dict[str, np.ndarray] = {}
    try:
        for name, of_baseline in fit_baselines(upright, problem, _largest_action(trials), seed) if baselines else ():
            probabilities[name] = of_baseline
            search.report(name, 1.0)
            if time.perf_counter() > start + 60 * minutes * _BASELINES:
                break
        search.run(trials, problem)
    except KeyboardInterrupt:
        if not search.results:
            raise
        search.interrupted = True
    if not search.results:
        name, why = search.refused[-1]
        raise InvalidArgumentError("net", name, "a network with a score", why)
    model = search.fitted(x, y, options)
    part = problem.split()[0][0] if search.screened else Subset(np.arange(len(labels)), problem.sets)
    score = scored("chosen", search.probabilities(problem), problem, part)
    best, images = search.best(), np.asarray(x)
    rotations: tuple[RotationScore, ...] = ()
    curve: tuple[LearningCurvePoint, ...] = ()
    with suppress(KeyboardInterrupt):
        curve = () if search.interrupted else learning_curve(best, problem, part.rows, seed)
        if images.ndim == 4 and not search.interrupted:
            search.report("rotated copies", 0.0)
            left = min(60 * minutes * _ROTATIONS, end - time.perf_counter())
            rotations = rotation_scores(best, images, model.standardisation_, problem, left, seed)
    return Choice(
        model=model,
        tried=tuple(each.tried for each in search.results),
        chosen=search.chosen,
        score=score,
        baselines=tuple(scored(name, p, problem, part, score.held) for name, p in probabilities.items()),
        rows=part.rows,
        untried=tuple(search.untried),
        refused=tuple(search.refused),
        uncompared=NAMES[len(probabilities) :] if baselines else (),
        folds=len(problem.folds) - search.screened,
        sets=None if together is None else len(problem.sets),
        near_duplicates=near_duplicates(upright, problem.sets) if images.ndim == 4 else (),
        rotations=rotations,
        curve=curve,
        interrupted=search.interrupted,
    )


def _in_precision(x: Numbers, precision: str | None) -> Numbers:
    """x in the precision of the kernels; what is no array of real numbers is refused later."""
    if precision is not None:
        check_choice("precision", precision, _PRECISIONS)
        return np.asarray(x, precision)
    exact = np.asarray(x)
    if exact.ndim != 4 or exact.dtype.kind not in "buif" or exact.dtype == np.float32:
        return x
    with np.errstate(over="ignore", invalid="ignore"):
        single = exact.astype(np.float32)
        lost = np.abs(single - exact.astype(np.float64)).max(initial=0.0)
    return single if lost <= _ROUNDING * exact.std() else x


def _groups(augmentation: ActionLike | None, shape: tuple[int, ...]) -> Sequence[ActionLike | None]:
    if augmentation != "auto":
        return (augmentation,)
    if len(shape) != 4:
        raise InvalidArgumentError("augmentation", "auto", "images (N, H, W, C)", "leave it out for vectors")
    return _SQUARE if shape[1] == shape[2] else _OBLONG


def _trials(
    x: Numbers, y: Targets, groups: Sequence[ActionLike | None], options: dict[str, Any]
) -> tuple[InfiniteEnsembleClassifier, list[KernelTrial], list[tuple[str, str]]]:
    """(a classifier that has read x and y, all candidates with all groups, names and reasons of those refused).

    With a resampled group the network is the orbit average, and no copies are trained on.
    """
    refused: list[tuple[str, str]] = []
    networks, trials = candidates(np.shape(x)[1:]), list[KernelTrial]()
    upright = InfiniteEnsembleClassifier(networks[0].net, **cast(Any, options))._prepare(x, y)
    if len(np.shape(x)) == 4:
        networks += of_features(upright.x)
    for group in groups:
        model = InfiniteEnsembleClassifier(networks[0].net, augmentation=group, **cast(Any, options))
        training = model._prepare(x, y)
        action = training.augmentation
        if isinstance(action, Action) and not action.exact:
            averages = (replace(each, net=orbit_average(each.net, action)) for each in networks)
            trials += [KernelTrial(each, None, upright) for each in averages]
            continue
        if action is not None and training.reason is not None:
            expected = "a group of turns and reflections, such as C4 or D4"
            raise InvalidArgumentError("augmentation", group, expected, "or name a network for it")
        for each in networks:
            trial = KernelTrial(each, group, training)
            if action is None or known_invariant(each.net, action, upright.x.shape[1:]):
                trials.append(trial)
            else:
                refused.append((trial.name, "not known to be invariant"))
    return model, trials, refused


def _largest_action(trials: list[KernelTrial]) -> AnyAction:
    """The action of the largest exact group, or of the only one; None without a group."""
    actions = list({trial.group_name: trial.action for trial in trials}.values())
    exact = [action for action in actions if action is None or action.exact] or actions
    return max(exact, key=lambda action: 1 if action is None else action.group.order)


def learning_curve(
    result: TrialResult, problem: Folds, rows: Int[np.ndarray, " scored"], seed: int
) -> tuple[LearningCurvePoint, ...]:
    """Accuracy on the scored samples, each fold predicted after training on shares of the sets of the other folds.

    Ridge and temperature are chosen on each share.
    """
    rng, every = np.random.default_rng(seed), np.arange(len(problem.sets))
    orders = [rng.permutation(np.setdiff1d(every, fold)) for fold in problem.folds]
    points = []
    for share in _SHARES:
        right, counts = np.full(len(problem.labels), np.nan), []
        for fold, order in zip(problem.folds, orders, strict=True):
            part = problem.subset(order[: max(1, round(share * len(order)))].tolist())
            inside = problem.subset(fold).rows
            counts.append(len(part.rows))
            if len(part.rows) >= _MIN_TRAINING and len(part.sets) > 1:
                with suppress(InvalidArgumentError):
                    _, outputs = fit_and_predict(result.gram, problem, part, result.gram.matrix[inside])
                    right[inside] = outputs.argmax(axis=1) == problem.labels[inside]
        if np.isfinite(right[rows]).all():
            points.append(LearningCurvePoint(round(float(np.mean(counts))), bootstrap(right[rows], bounds=(0.0, 1.0))))
    return tuple(points)


def rotation_scores(
    result: TrialResult,
    x: Float[np.ndarray, "n height width channels"],
    standardisation: Standardisation | None,
    problem: Folds,
    seconds: float,
    seed: int,
) -> tuple[RotationScore, ...]:
    """Scores of the upright images and of copies at each angle, for as many copies as are predicted in `seconds`.

    With r rotations in the group the angles are 360°/r · k/9, k = 1 … 8; beyond its border an image is continued by its
    edge. Empty if images are not square, for other groups, and if there is time for fewer than 40 copies.
    """
    n, group = len(x), result.trial.action
    rotates = group is None or isinstance(group, (ExactRotations, ResampledRotations))
    count = min(_MAX_COPIES, _ANGLES * n, int(seconds * result.tried.images_per_second))
    if not rotates or x.shape[1] != x.shape[2] or count < _MIN_COPIES:
        return ()
    order = (1 if group is None else group.turns) * (_ANGLES + 1)
    action = ImageMotions(cyclic(order), lambda g: (360.0 * g / order, False), outside="edge")
    at = np.arange(count)  # every image once before any twice, and at no angle twice
    rows, elements = np.random.default_rng(seed).permutation(n)[at % n], 1 + (at % n + at // n) % _ANGLES
    copies = np.empty((count, *x.shape[1:]))
    for k in range(1, _ANGLES + 1):  # rotated before they are standardised
        copies[elements == k] = action(k, np.asarray(x[rows[elements == k]], np.float64))
    logits = left_out_logits(result, problem, copies if standardisation is None else standardisation(copies), rows)
    upright, used = problem.merge(each for _, each in result.score.folds), np.unique(rows)
    by_angle = [(upright[used], used), *((logits[elements == k], rows[elements == k]) for k in range(1, _ANGLES + 1))]
    scores = []
    for k, (outputs, images) in enumerate(by_angle):
        p = scipy.special.softmax(outputs, axis=1)
        accuracy = bootstrap((p.argmax(axis=1) == problem.labels[images]) * 1.0, bounds=(0.0, 1.0))
        scores.append(RotationScore(360.0 * k / order, len(images), accuracy, float(p.max(axis=1).mean())))
    return tuple(scores)


def left_out_logits(
    result: TrialResult, problem: Folds, copies: Float[np.ndarray, "m height width channels"], rows: np.ndarray
) -> Float[np.ndarray, "m classes"]:
    """Logits of copies of the samples in `rows`, each by the network trained without the sample's fold."""
    dtype = np.dtype(result.gram.precision)
    kernels = result.trial.kernel.kernel(copies.astype(dtype), result.trial.training.x.astype(dtype))
    cross = np.asarray(getattr(kernels, result.tried.kernel), np.float64)
    logits = np.full((len(rows), len(problem.classes)), np.nan)
    for rest, inside in problem.split():
        here = np.isin(rows, inside)
        if here.any():
            best, outputs = fit_and_predict(result.gram, problem, rest, cross[here])
            logits[here] = best.beta * outputs
    return logits
