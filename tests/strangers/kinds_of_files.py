"""One valid file or folder of every kind that is loaded, and what is done with it."""

from __future__ import annotations

import functools
import json
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

import equitangents as et
from equitangents import nn
from equitangents.audit.adapters.choose import load_model
from equitangents.ensembles import ZeroOutput
from equitangents.foreign_files import load_data, read_arrays
from equitangents.nn.specification import read_network
from equitangents.scale.reading import read_inputs, some_rows
from equitangents_studies.data.folder import load_own
from equitangents_studies.framework.folder import _config, read_stage, write_stage

RNG = np.random.default_rng(0)
NET = nn.Sequential(nn.Flatten(), nn.Dense(4, W_std=1.5, b_std=0.1), nn.Relu(), nn.Residual(nn.Dense(4)), nn.Dense(1))
DEEP = nn.Sequential(nn.Flatten(), nn.Dense(3), nn.Relu(), nn.Dense(2))
X, Y, NEW = RNG.normal(size=(5, 3, 3, 1)), RNG.normal(size=(5, 2)), RNG.normal(size=(2, 3, 3, 1))
PLANE = et.actions.linear(et.actions.image_rotations(4).group, [np.eye(2), -np.eye(2)] * 2)


@dataclass(frozen=True)
class FileKind:
    """How a file is made, and how it is used: what `use` returns is compared between the file and itself, damaged."""

    make: Callable[[Path], None]
    use: Callable[[Path], Any]
    name: str = ""


def _infinite(**settings: Any) -> Callable[[Path], None]:
    return lambda path: et.InfiniteEnsemble(NET, ridge=1e-2, **settings).fit(X, Y).save(path)


def _predicted(path: Path) -> Any:
    model = et.InfiniteEnsemble.load(path)
    return [*model.predict(NEW, return_std=True), model.predict(NEW, time=3.0)]


def _written(path: Path) -> Any:
    (path.parent / "predicted.npy").unlink(missing_ok=True)
    et.ensembles.predict_to_file(path, NEW, path.parent / "predicted.npy")
    return [np.load(path.parent / "predicted.npy")]


def _classified(path: Path) -> Any:
    model = et.InfiniteEnsembleClassifier.load(path)
    return [model.predict(NEW), model.predict_proba(NEW)]


def _deep(path: Path) -> None:
    et.DeepEnsemble(DEEP, members=2, epochs=1, variation=ZeroOutput()).fit(X, Y).save(path)


def _members(path: Path) -> Any:
    return [et.DeepEnsemble.load(path).predict_members(NEW)]


def _trained(path: Path) -> Any:
    model = et.DeepEnsemble(DEEP, members=1, epochs=1, checkpoint_dir=path, checkpoint_every=1)
    return [model.fit(X, Y, resume=True).predict(NEW)]


def _arrays(path: Path) -> Any:
    found = read_arrays("data", path)
    read_inputs("data", path)
    return [found] if isinstance(found, np.ndarray) else [found[name] for name in sorted(found)]


def _npz(path: Path) -> None:
    x = RNG.integers(0, 255, (8, 4, 4)).astype(np.uint8)
    np.savez(path, x=x, y=np.array(list("abababab")))


def _archive(path: Path) -> Any:
    own, (x, y) = load_own(path), load_data(str(path))
    return [own.train_x, own.train_y, x, y, np.asarray(read_inputs("data", path))]


def _zarr(path: Path) -> None:
    group = zarr.open_group(path, mode="w")
    group.create_array("x", shape=(8, 3), chunks=(2, 3), dtype="f8")[:] = np.arange(24.0).reshape(8, 3)


def _rows_of_zarr(path: Path) -> Any:
    return [some_rows("data", read_inputs("data", path), slice(5))]


def _specification(path: Path) -> None:
    inside = {"layer": "Residual", "layers": [{"layer": "Conv", "channels": 3, "window": [3, 3]}]}
    path.write_text(json.dumps([inside, {"layer": "Relu"}, {"layer": "Flatten"}, {"layer": "Dense", "channels": 1}]))


def _store(path: Path) -> Any:
    return [et.scale.GramStore(path, NET, X, tile=64).compute().ntk[:]]


def _stage(path: Path) -> None:
    write_stage(path, {"a": np.arange(6.0), "b": np.eye(3), "names": np.array(["x", "y"])}, "f" * 64)


def _staged(path: Path) -> Any:
    found = read_stage(path, "f" * 64)
    return None if found is None else [found[name] for name in sorted(found)] + [np.array(sorted(found))]


def _study(path: Path) -> None:
    path.mkdir(parents=True)
    config = {"study": "toy", "settings": {"n": 3}, "seconds": 1.0, "sessions": [{"ended": "finished"}], "versions": {}}
    for name, content in {"config.json": config, "claims.json": []}.items():
        (path / name).write_text(json.dumps(content))
    (path / "report.html").write_text("")


def _studied(path: Path) -> Any:
    _config(path)


KINDS: dict[str, FileKind] = {
    "model": FileKind(_infinite(), _predicted),
    "model.means": FileKind(_infinite(solver="cholesky"), _written),
    "model.turned": FileKind(_infinite(augmentation="C4", label_action=PLANE), _predicted),
    "model.classes": FileKind(
        lambda path: et.InfiniteEnsembleClassifier(NET, ridge=1e-2).fit(X, list("abcab")).save(path), _classified
    ),
    "deep": FileKind(_deep, _members),
    "checkpoints": FileKind(_trained, _trained),
    "array.npy": FileKind(lambda path: np.save(path, X), _arrays),
    "archive.npz": FileKind(_npz, _archive),
    "inputs.zarr": FileKind(_zarr, _rows_of_zarr),
    "net.json": FileKind(_specification, lambda path: repr(read_network(path))),
    "gram.zarr": FileKind(_store, _store),
    "stage.npz": FileKind(_stage, _staged),
    "study": FileKind(_study, _studied),
    "model.pt": FileKind(lambda path: path.write_bytes(b"\x80\x04N."), lambda path: load_model(str(path))),
    "model.joblib": FileKind(lambda path: path.write_bytes(b"\x80\x04N."), lambda path: load_model(str(path))),
}


@functools.cache
def made(name: str, folder: Path) -> Path:
    """The file of one kind, made once."""
    path = folder / "valid" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        KINDS[name].make(path)
    return path


def contents(archive: Path) -> dict[str, bytes]:
    """What a saved model holds, by name."""
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def packed(archive: Path, held: dict[str, bytes]) -> None:
    """Write a saved model that holds this, with its checksums, as anybody can make it."""
    with zipfile.ZipFile(archive, "w") as opened:
        for name, content in held.items():
            opened.writestr(name, content)
