"""Fitted infinite ensembles on disk: their attributes as JSON, and arrays with checksums; no pickle is in it.

What only means at the fitted time t need is kept beside the whole state, so that it can be loaded without it: with
α = φ_t(Θ) Y, N·outputs numbers in place of N², μ_t(x) = Θ(x, X) α.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from equitangents._types import Network
from equitangents._version import FORMAT, __version__
from equitangents.archives import Archive
from equitangents.ensembles.infinite.predictor import MeansAtATime
from equitangents.ensembles.storage.array_folder import check_place, damaged, read_model, write_folder
from equitangents.ensembles.storage.kinds import is_of
from equitangents.ensembles.storage.structure import Described, build, restored, state_of
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError, StoreError
from equitangents.kernels.content import VERSION, described
from equitangents.scale.identity import action_hash, network_hash

CLASSES = "InfiniteEnsemble", "InfiniteEnsembleClassifier"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of a function, which is another one in another process
_ABOUT = {
    "class": "text", "network": "text", "network_left_out": "bool", "fingerprint": "text", "facts": "{any}",
    "first": "(real)", "means": "any", "state": "any",
}  # fmt: skip
_FACTS = {
    "time": "real", "sample_shape": "(int)", "samples": "int", "dtype": "text", "outputs": "none|int",
    "positions": "(int)", "classes": "none|(any)", "solver": "text", "temperature": "none|real",
}  # fmt: skip
_SAME = 1e-4  # relative: how well a network that is given at loading has to agree with the one that was saved


def save(ensemble: BaseEstimator, path: Path, *, means_only: bool = False) -> None:
    """Write a fitted ensemble to the folder `path`; see InfiniteEnsembleBase.save."""
    check_place(path)
    compact = means(ensemble)
    if means_only and compact is None:
        raise InvalidArgumentError(
            "means_only", True, "False, since the means of this solution need the whole state", ensemble.solver_
        )
    whole = None if means_only else state_of(ensemble)
    means_described, state, left_out = _described(compact, whole, ensemble.net)
    about = {
        "format": FORMAT,
        "version": __version__,
        "numbers": VERSION,
        "class": type(ensemble).__name__,
        "network": repr(ensemble.net),
        "network_left_out": left_out,
        "fingerprint": fingerprint(ensemble),
        "facts": facts(ensemble),
        "first": _first(ensemble),
        "means": means_described.tree,
        "state": state.tree,
    }
    write_folder(path, about, state.arrays)


def load(cls: type, path: Path, net: Network = None, about: Archive | None = None) -> BaseEstimator:
    """Read a fitted ensemble of class `cls`, that of `about` if it is given; see InfiniteEnsembleBase.load."""
    about = about_model(path, [cls.__name__]) if about is None else about
    state = _built(about, net, "state")
    if state is None:
        raise StoreError(
            "path",
            str(path),
            "a model that was saved whole, for standard deviations and other times",
            "it was saved with means_only",
        )
    try:
        ensemble = restored(cls, state, {"net": net})
    except ValueError as error:
        raise damaged(about.path, error) from None
    if net is not None and about["network_left_out"]:
        _compare(np.array(_first(ensemble)), about, net)
    return ensemble


def load_means(path: Path, net: Network = None, about: Archive | None = None) -> MeansAtATime | None:
    """What gives means at the fitted time, without the rest; None for an ensemble whose means need all of it.

    `about`: what `about_model` found, so that all is of one save.
    """
    about = about_model(path) if about is None else about
    found: MeansAtATime | None = _built(about, net, "means")
    if not isinstance(found, MeansAtATime | None):
        raise damaged(about.path, "its means are none")
    if found is not None and about["network_left_out"]:
        _compare(found.first(), about, net)
    return found


def about_model(path: Path, classes: Sequence[str] = CLASSES) -> Archive:
    """What a folder says about the model in it; errors for other folders, damaged ones, and other versions."""
    about = read_model(path, classes, _ABOUT, {"format": FORMAT, "version": __version__, "numbers": VERSION})
    facts = about["facts"]
    wrong = [name for name, words in _FACTS.items() if not is_of(words, facts.get(name))]
    if wrong or np.dtype(facts["dtype"]).kind not in "biuf":
        raise damaged(about.path, f"{(*wrong, 'dtype')[0]} is not as written")
    return about


def fingerprint(ensemble: BaseEstimator) -> str:
    """A hash of what a fitted ensemble's predictions depend on: network, parameters, training data, versions."""
    training, units = ensemble._solved, ensemble.standardisation_
    ridge, shape = training.settings.ridge, training.x.shape[1:]
    parts = [__version__, VERSION, repr(training.augmentation), repr(training.label_action)]
    parts += [f"{name}={_ADDRESS.sub('', repr(value))}" for name, value in sorted(ensemble.get_params(False).items())]
    if training.augmentation is not None:
        parts += [action_hash(training.augmentation, shape, training.x), described(training.copies())]
    try:
        parts += [network_hash(ensemble.net, shape)]
    except (InvalidTypeError, NetworkError):  # one's own, with functions of one's own, or one that ends on positions
        ask: Any = training.kernel
        ask = ask.kernel if training.positions is None else ask.net.kernel_field
        kernels = ask(training.x[:1], training.x[:8])
        parts += [f"{float(value):.5e}" for value in np.ravel(getattr(kernels, training.settings.field))[:64]]
    digest = hashlib.sha256(json.dumps(parts).encode())
    arrays = [training.x, training.y, *(() if units is None else (units.shift, units.scale))]
    for array in [*arrays, *(() if ridge.above is None else (ridge.least + ridge.above,))]:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def means(ensemble: BaseEstimator) -> MeansAtATime | None:
    """The means at the fitted time of an ensemble in memory; None where they need all of its state."""
    found = ensemble._solved.mean_problem.mean(float(ensemble.time))
    return None if found is None else replace(found, standardisation=ensemble.standardisation_)


def facts(ensemble: BaseEstimator) -> dict[str, Any]:
    """What predictions in files need to know of the ensemble."""
    classes = getattr(ensemble, "classes_", None)
    return {
        "time": float(ensemble.time),
        "sample_shape": list(ensemble.sample_shape_),
        "samples": len(ensemble._data[0]),
        "dtype": np.dtype(ensemble._data[0].dtype).name,
        "outputs": None if getattr(ensemble, "_squeeze", False) else _outputs(ensemble),
        "positions": list(getattr(ensemble, "positions_", ())),
        "classes": None if classes is None else classes.tolist(),
        "solver": ensemble.solver_,
        "temperature": getattr(ensemble, "temperature_", None),
    }


def _outputs(ensemble: BaseEstimator) -> int:
    return len(ensemble.classes_) if hasattr(ensemble, "classes_") else int(ensemble.n_outputs_)


def _first(ensemble: BaseEstimator) -> list[float]:
    """The mean at the first training input, by which a network given later is recognised."""
    problem = ensemble._solved.mean_problem
    return [float(v) for v in problem.means(problem.inputs[:1], np.array([float(ensemble.time)])).ravel()]


def _described(
    means: MeansAtATime | None, state: dict[str, Any] | None, net: Network
) -> tuple[Described, Described, bool]:
    """(means, state, whether the network was left out, as it holds functions or is not of this package)."""
    try:
        first = Described(means)
        return first, Described(state, beside=first), False
    except InvalidTypeError:
        first = Described(means, {"net": net})
        return first, Described(state, {"net": net}, first), True


def _built(about: Archive, net: Network, part: str) -> Any:
    if about["network_left_out"] and net is None:
        raise InvalidArgumentError(
            "net", None, "the network, which could not be saved with the model (--net)", about["network"]
        )
    try:
        return build(about[part], about.array, {"net": net})
    except ValueError as error:
        raise damaged(about.path, error) from None


def _compare(first: np.ndarray, about: dict[str, Any], net: Network) -> None:
    """Raise InvalidArgumentError unless a network that was given predicts what the saved one did."""
    saved = np.array(about["first"])
    scale = max(float(np.max(np.abs(saved))), 1e-30)
    if not np.max(np.abs(np.ravel(first) - saved)) <= _SAME * scale:
        raise InvalidArgumentError(
            "net", net, "the network that was saved, whose predictions are others", about["network"]
        )
