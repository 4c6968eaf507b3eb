"""Fitted infinite ensembles on disk: their attributes as JSON, and arrays with checksums; no pickles."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from equitangents._types import Network
from equitangents._version import FORMAT, __version__
from equitangents.ensembles.archives import Archive
from equitangents.ensembles.saved_folder import check_place, damaged, read_model, write_folder
from equitangents.ensembles.saved_objects import EncodedValue, build, restored, state_of
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.kernels.program import VERSION, described
from equitangents.scale.identity import action_hash, network_hash

CLASSES = "InfiniteEnsemble", "InfiniteEnsembleClassifier"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of a function, which is another one in another process
_ABOUT = {
    "class": str, "network": str, "network_left_out": bool, "fingerprint": str,
    "temperature": float | None, "images": dict | None, "first": list, "state": object,
}  # fmt: skip
_SAME = 1e-4  # relative: how well a network that is given at loading has to agree with the one that was saved


def save(ensemble: BaseEstimator, path: Path, images: dict[str, Any] | None = None) -> None:
    """Write a fitted ensemble to the folder `path`, with the format of its training images if it has one.

    See InfiniteEnsembleBase.save.
    """
    check_place(path)
    state = state_of(ensemble)
    try:
        described, left_out = EncodedValue(state), False
    except InvalidTypeError:  # a network that holds functions, or is not of this package
        described, left_out = EncodedValue(state, {"net": ensemble.net}), True
    about = {
        "format": FORMAT,
        "version": __version__,
        "numbers": VERSION,
        "class": type(ensemble).__name__,
        "network": repr(ensemble.net),
        "network_left_out": left_out,
        "fingerprint": fingerprint(ensemble),
        "temperature": getattr(ensemble, "temperature_", None),
        "images": images,
        "first": _first(ensemble),
        "state": described.tree,
    }
    write_folder(path, about, described.arrays)


def load(cls: type, path: Path, net: Network = None, about: Archive | None = None) -> BaseEstimator:
    """Read a fitted ensemble of class `cls`, from `about` if passed; see InfiniteEnsembleBase.load."""
    about = about_model(path, [cls.__name__]) if about is None else about
    if about["network_left_out"] and net is None:
        raise InvalidArgumentError(
            "net", None, "the network, which could not be saved with the model (--net)", about["network"]
        )
    try:
        ensemble = restored(cls, build(about["state"], about.array, {"net": net}))
    except ValueError as error:
        raise damaged(about.path, error) from None
    if net is not None and about["network_left_out"]:
        saved, found = np.array(about["first"]), np.array(_first(ensemble))
        scale = max(float(np.max(np.abs(saved))), 1e-30)
        if not np.max(np.abs(found - saved)) <= _SAME * scale:
            expected = "the network that was saved, whose predictions are others"
            raise InvalidArgumentError("net", net, expected, about["network"])
    return ensemble


def about_model(path: Path, classes: Sequence[str] = CLASSES) -> Archive:
    """The record of the model in a folder; raises for other folders, damaged ones, and other versions."""
    return read_model(path, classes, _ABOUT, {"format": FORMAT, "version": __version__, "numbers": VERSION})


def fingerprint(ensemble: BaseEstimator) -> str:
    """A hash of what determines a fitted ensemble's predictions: network, parameters, training data, versions."""
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


def _first(ensemble: BaseEstimator) -> list[float]:
    """The mean at the first training input, to recognise a network passed later."""
    problem = ensemble._solved.mean_problem
    return [float(v) for v in problem.means(problem.inputs[:1], np.array([float(ensemble.time)])).ravel()]
