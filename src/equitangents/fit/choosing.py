"""The best infinitely wide classifier of some hundred images or vectors, by left-out samples, within some minutes.

What a candidate costs is known from `kernel_cost`, scaled by how far earlier ones were off, and then from its own first
tiles: it is tried where it ends in time (`searching`). Both of its kernels, all ridges and all folds are read from one
computation (`assessing`); the model that is chosen is solved with the kernels that are there. At last it is asked how
accuracy grows with samples, and about turned copies of left-out images.
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
from equitangents.fit.assessing import Problem, make_problem, near_duplicates, predicted
from equitangents.fit.baselines import NAMES
from equitangents.fit.baselines import baselines as baselines_of
from equitangents.fit.candidates import candidates, of_features
from equitangents.fit.result import Choice, Grown, Turned, scored
from equitangents.fit.searching import Progress, Result, Search, Trial
from equitangents.groups import cyclic
from equitangents.kernels import orbit_average
from equitangents.kernels.invariance import known_invariant
from equitangents.statistics import bootstrap
from equitangents.validation import check_number, check_whole

LEAST, MOST = 4, 2_000
"""Samples of a choice: kernels are held in memory and decomposed for every fold."""

_SHARE = 0.8  # of the time, after which nothing new is begun: the model is fitted, and what turning changes measured
_TURNING = 0.1  # of the time, at most, for turned copies
_SHARES, _ENOUGH = (0.125, 0.25, 0.5, 1.0), 10  # of the samples, for the learning curve; the fewest of them
_ANGLES = 8
_FEWEST, _COPIES = 40, 1_600  # turned copies in all
_BASELINES = 0.3  # of the time, after which no further baseline is begun
_PRECISIONS, _ROUNDING = ("float32", "float64"), 1e-6  # of the standard deviation of pixels
_UNKNOWN = "not known to be invariant"
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
    """The classifier of the smallest log loss of left-out samples, of dense, convolutional and pooled networks, and
    dense ones on colours, edges and their directions.

    Of those whose log loss is behind the smallest by at most a standard error the best is taken that has at most
    1,000 times the least work of these.
    Scores are exact: each sample is predicted by the model trained without its set. Ridges, both kernels (all layers
    trained, or the last alone) and sizes of images are chosen with the network. The score that is reported is not the
    one that chose it: each of five folds is predicted by a choice made on the others, the temperature included. Where
    not all candidates fit into the time, they are ordered by their scores on one fold, which is then not reported on.
    Inputs are standardised by all samples.

    Args:
        x: (N, features), or images (N, H, W, C); 4 to 2,000 of them.
        y: (N,) labels of any type.
        augmentation: the name of a group or an action, all of whose copies are trained on: see `InfiniteEnsemble`. With
            a resampled one, such as C8 or D8, the network is the `orbit_average` in place of that, which is only nearly
            invariant. "auto", of images: the best of none, C4, D4, C8 and D8 (none, C2 and D2 of oblong ones).
        together: (N,) what samples that belong together have in common, such as the slide that a tile is of: they are
            left out together, and lie in one fold. None: each sample is left out alone.
        minutes: what the choice may take, fit included; the cheapest network is tried in any case. Ctrl-C takes the
            best so far.
        baselines: whether the majority, nearest neighbours, a random forest and a support vector machine are fitted on
            the same folds.
        standardise: as in `InfiniteEnsemble`.
        precision: of kernels, "float32" or "float64"; None: float32 for images, unless rounding to it moves a pixel by
            more than 1e-6 of their standard deviation, and the precision of vectors. Systems are solved in float64.
        fast: only networks that predict 20 images a second or more on this machine, and the cheapest.
        seed: of the folds, the forest and the turned copies.
        progress: is called with a `Step` now and then.

    Raises InvalidArgumentError for other inputs and labels, fewer than three sets, a class in one set alone, a group
    under which kernels are not known to be invariant, and where no candidate has a score.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(40, 3))
    >>> choice = auto(x, x[:, 0] > 0, baselines=False, minutes=1)
    >>> choice.score.accuracy.value > 0.7, choice.model.predict(x[:1]).tolist() == [bool(x[0, 0] > 0)]
    (True, True)
    """
    start = time.perf_counter()
    check_number("minutes", minutes, "a positive number", lambda m: 0 < m < math.inf)
    seed = check_whole("seed", seed, 0, 2**32 - 1)
    search = Search(start + 60 * minutes * _SHARE, progress, fast)
    shape = np.shape(x)
    if len(shape) not in (2, 4):
        raise ShapeError("x", shape, "vectors (N, features) or images (N, H, W, C)")
    if not LEAST <= shape[0] <= MOST:
        raise InvalidArgumentError("x", shape[0], range(LEAST, MOST + 1), "take InfiniteEnsemble", verb="has samples,")
    x = _in_precision(x, precision)
    options = {"standardise": standardise, "calibrate": True}
    first, trials, search.refused = _trials(x, y, _groups(augmentation, shape), options)
    labels = indices_of(first._data[1], first.classes_)
    problem = make_problem(labels, tuple(map(str, first.classes_)), together, seed)
    plain = trials[0].training.x
    others: dict[str, np.ndarray] = {}
    try:
        for name, probabilities in baselines_of(plain, problem, _largest(trials), seed) if baselines else ():
            others[name] = probabilities
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
    part = problem.split()[0][0] if search.screened else problem.whole
    score = scored("chosen", search.probabilities(problem), problem, part)
    best, images = search.best(), np.asarray(x)
    turned: tuple[Turned, ...] = ()
    curve: tuple[Grown, ...] = ()
    with suppress(KeyboardInterrupt):
        curve = () if search.interrupted else growth(best, problem, part.rows, seed)
        if images.ndim == 4 and not search.interrupted:
            search.report("turned copies", 0.0)
            left = min(60 * minutes * _TURNING, start + 60 * minutes - time.perf_counter())
            turned = turning(best, images, model.standardisation_, problem, left, seed)
    return Choice(
        model=model,
        tried=tuple(each.tried for each in search.results),
        chosen=search.chosen,
        score=score,
        others=tuple(scored(name, found, problem, part, score.held) for name, found in others.items()),
        rows=part.rows,
        untried=tuple(search.untried),
        refused=tuple(search.refused),
        uncompared=NAMES[len(others) :] if baselines else (),
        folds=len(problem.folds) - search.screened,
        sets=None if together is None else len(problem.sets),
        near_duplicates=near_duplicates(plain, problem.sets) if images.ndim == 4 else (),
        curve=curve,
        turned=turned,
        interrupted=search.interrupted,
    )


def _in_precision(x: Numbers, precision: str | None) -> Numbers:
    """x as kernels read it; what is no array of real numbers is refused later."""
    if precision is not None:
        if precision not in _PRECISIONS:
            raise InvalidArgumentError("precision", precision, _PRECISIONS)
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
) -> tuple[InfiniteEnsembleClassifier, list[Trial], list[tuple[str, str]]]:
    """(a classifier that has read x and y, all candidates with all groups, names and reasons of those that cannot be).

    Of a resampled group the network is the orbit average: no copies are trained on.
    """
    refused: list[tuple[str, str]] = []
    every, trials = candidates(np.shape(x)[1:]), list[Trial]()
    upright = InfiniteEnsembleClassifier(every[0].net, **cast(Any, options))._prepare(x, y)
    if len(np.shape(x)) == 4:
        every += of_features(upright.x)
    for group in groups:
        model = InfiniteEnsembleClassifier(every[0].net, augmentation=group, **cast(Any, options))
        training = model._prepare(x, y)
        action = training.augmentation
        if isinstance(action, Action) and not action.exact:
            averages = (replace(each, net=orbit_average(each.net, action)) for each in every)
            trials += [Trial(each, None, upright) for each in averages]
            continue
        if action is not None and training.reason is not None:
            raise InvalidArgumentError(
                "augmentation", group, "a group of turns and reflections, such as C4 or D4", "or name a network for it"
            )
        for each in every:
            trial = Trial(each, group, training)
            if action is None or known_invariant(each.net, action, upright.x.shape[1:]):
                trials.append(trial)
            else:
                refused.append((trial.name, _UNKNOWN))
    return model, trials, refused


def _largest(trials: list[Trial]) -> AnyAction:
    """That of the largest exact group, or of the one there is; None without one."""
    actions = list({trial.group_name: trial.action for trial in trials}.values())
    exact = [action for action in actions if action is None or action.exact] or actions
    return max(exact, key=lambda action: 1 if action is None else action.group.order)


def growth(result: Result, problem: Problem, rows: Int[np.ndarray, " scored"], seed: int) -> tuple[Grown, ...]:
    """How accuracy on the scored samples grows: each fold by networks trained on parts of the others, of whole sets.

    The ridge and temperature of a part are its own.
    """
    rng, every = np.random.default_rng(seed), np.arange(len(problem.sets))
    orders = [rng.permutation(np.setdiff1d(every, fold)) for fold in problem.folds]
    found = []
    for share in _SHARES:
        right, counts = np.full(len(problem.labels), np.nan), []
        for fold, order in zip(problem.folds, orders, strict=True):
            part = problem.part(order[: max(1, round(share * len(order)))].tolist())
            counts.append(len(part.rows))
            if len(part.rows) < _ENOUGH or len(part.sets) < 2:
                break
            inside = problem.inside(fold)
            try:
                _, outputs = predicted(result.gram, problem, part, result.gram.matrix[inside])
            except InvalidArgumentError:
                break
            right[inside] = outputs.argmax(axis=1) == problem.labels[inside]
        if np.isfinite(right[rows]).all():
            found.append(Grown(round(float(np.mean(counts))), bootstrap(right[rows], bounds=(0.0, 1.0))))
    return tuple(found)


def turning(
    result: Result,
    x: Float[np.ndarray, "n height width channels"],
    standardisation: Standardisation | None,
    problem: Problem,
    seconds: float,
    seed: int,
) -> tuple[Turned, ...]:
    """The upright images and their copies at each angle, of as many images as can be predicted in `seconds`.

    With r turns in the group the angles are 360°/r · k/9, k = 1 … 8; beyond the image's border its edge is read on.
    Empty where images are no squares, the group is another one, or fewer than 40 copies can be predicted.
    """
    n, group = len(x), result.trial.action
    known = group is None or isinstance(group, (ExactRotations, ResampledRotations))
    count = min(_COPIES, _ANGLES * n, int(seconds * result.tried.images_a_second))
    if not known or x.shape[1] != x.shape[2] or count < _FEWEST:
        return ()
    order = (1 if group is None else group.turns) * (_ANGLES + 1)
    action = ImageMotions(cyclic(order), lambda g: (360.0 * g / order, False), outside="edge")
    at = np.arange(count)  # every image once before any twice
    rows, elements = np.random.default_rng(seed).permutation(n)[at % n], 1 + (at + at // n) % _ANGLES
    copies = np.empty((count, *x.shape[1:]))
    for k in range(1, _ANGLES + 1):  # turned as they were given, and then standardised
        copies[elements == k] = action(k, np.asarray(x[rows[elements == k]], np.float64))
    logits = left_out(result, problem, copies if standardisation is None else standardisation(copies), rows)
    used = np.unique(rows)
    upright = problem.together(each for _, each in result.assessed.folds)
    turned = [(logits[elements == k], rows[elements == k]) for k in range(1, _ANGLES + 1)]
    found = []
    for k, (outputs, images) in enumerate([(upright[used], used), *turned]):
        p = scipy.special.softmax(outputs, axis=1)
        right = bootstrap((p.argmax(axis=1) == problem.labels[images]) * 1.0, bounds=(0.0, 1.0))
        found.append(Turned(360.0 * k / order, len(images), right, float(p.max(axis=1).mean())))
    return tuple(found)


def left_out(
    result: Result, problem: Problem, copies: Float[np.ndarray, "m height width channels"], rows: np.ndarray
) -> Float[np.ndarray, "m classes"]:
    """Logits of inputs, each by the network trained without the fold of the sample in its row."""
    dtype = np.dtype(result.gram.precision)
    kernels = result.trial.kernel.kernel(copies.astype(dtype), result.trial.training.x.astype(dtype))
    cross = np.asarray(getattr(kernels, result.tried.kernel), np.float64)
    found = np.full((len(rows), len(problem.classes)), np.nan)
    for rest, inside in problem.split():
        here = np.isin(rows, inside)
        if here.any():
            best, outputs = predicted(result.gram, problem, rest, cross[here])
            found[here] = best.beta * outputs
    return found
