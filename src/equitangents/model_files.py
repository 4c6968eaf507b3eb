"""What a model's file or name is, told without loading it, and without JAX or PyTorch: wrong ones are told at once."""

from __future__ import annotations

import importlib.util
import os
import pickletools
import sys
import zipfile
from pathlib import Path
from typing import BinaryIO, Literal

from equitangents.array_files import WHY
from equitangents.errors import InvalidArgumentError
from equitangents.memory import process_memory

_TORCH = (".pt", ".pth", ".pt2")
_PICKLES = (".pkl", ".pickle", ".joblib")
SUFFIXES = (".onnx", *_TORCH, *_PICKLES)
"""How files of models end; any other text is package.module:object."""

Kind = Literal["onnx", "exported", "script", "pickle", "name"]
_Held = Literal["exported", "script", "weights", "pickle", "other"]

_EXPORTED = ("archive_format", "serialized_exported_program.json")
_PLAIN = ("collections", "torch", "torch._utils", "torch.storage", "torch.serialization", "_codecs")
"""Modules that a pickle of tensors names; that of a network names its classes' modules, too."""
_LONGEST = 2**26
_BUFFER = 2**31 - 1  # bytes of one protocol buffer: larger weights lie beside the file
_BEFORE = 4  # pickles of a file in PyTorch's old format, up to the one that holds the object


def check_model(spec: str, trust: bool = False) -> Kind:
    """What kind of model `spec` is; InvalidArgumentError where there is none, or a pickle that nobody trusts.

    Nothing is imported, and nothing unpickled.
    """
    suffix = Path(spec).suffix.lower()
    if suffix not in SUFFIXES:
        check_name(spec, "model", "file.onnx, file.pt2, file.pt (TorchScript) or package.module:object")
        return "name"
    if not Path(spec).is_file():
        raise InvalidArgumentError("model", spec, "a file")
    most = min(_BUFFER, process_memory()) if suffix == ".onnx" else process_memory()
    if (size := Path(spec).stat().st_size) > most:
        raise InvalidArgumentError("model", size, range(most + 1), spec, verb="has bytes,")
    if suffix == ".onnx":
        return "onnx"
    found = _held(spec) if suffix in _TORCH else "pickle"
    if found == "exported" or found == "script":
        return found
    if found == "weights":
        raise InvalidArgumentError(
            "model",
            spec,
            "a network, and not tensors alone (a state_dict or a checkpoint)",
            "load them in a module and give module:net, or save it whole: torch.export (.pt2), torch.jit or ONNX",
        )
    if found == "other" and suffix == ".pt2":
        return "exported"  # whose reader says what is wrong with it
    if not trust:
        raise InvalidArgumentError("model", spec, "a model that is trusted", WHY)
    return "pickle"


def check_name(spec: str, what: str, expected: str = "package.module:object") -> tuple[str, str]:
    """(module, object) of "package.module:object", if there is such a module; `what` names the argument in errors.

    As `python -m` does, the working folder is looked into first.
    """
    module, colon, name = spec.partition(":")
    if not (colon and module and name):
        raise InvalidArgumentError(what, spec, expected)
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    top = module.partition(".")[0]
    try:
        known = top in sys.modules or importlib.util.find_spec(top) is not None
    except ValueError:  # names such as "" or those of modules without a spec
        known = False
    if not known:
        raise InvalidArgumentError(what, spec, remedy=f"no module named {top!r}")
    return module, name


def _held(path: str) -> _Held:
    """What a file of PyTorch holds, by the names in it: nothing of it is unpickled."""
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            if file.read(1) != b"\x80":
                return "other"
            file.seek(0)
            return _pickled(file, _BEFORE)
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            stems = [name.rpartition("/")[2] for name in names]
            if any(stem in _EXPORTED for stem in stems):
                return "exported"
            if any("/code/" in name and name.endswith(".py") for name in names):
                return "script"
            pickled = next((name for name in names if name.endswith("/data.pkl")), None)
            if pickled is None:
                return "other"
            if archive.getinfo(pickled).file_size > _LONGEST:
                return "pickle"
            with archive.open(pickled) as entry:
                return _pickled(entry, 1)  # type: ignore[arg-type]
    except (OSError, zipfile.BadZipFile):
        return "other"


def _pickled(file: BinaryIO, count: int) -> _Held:
    """Whether the first `count` pickles of a file hold tensors alone, by the classes that they name."""
    named: set[str] = set()
    try:
        for _ in range(count):
            for operation, argument, _ in pickletools.genops(file):
                if operation.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
                    return "pickle"
                if operation.name == "GLOBAL":
                    named.add(str(argument).partition(" ")[0])
    except Exception:  # whatever bytes that are no pickle make the reader raise
        return "pickle"
    return "weights" if "torch._utils" in named and named <= {*_PLAIN} else "pickle"
