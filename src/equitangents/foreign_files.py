"""Arrays, JSON and models in files of other people: nothing in them runs, and nothing is unpickled.

A pickle runs any code. A bad file raises ValueError or one of `UNREADABLE` here; callers add its name. The kind of a
model is found without loading the model, JAX or PyTorch.
"""

from __future__ import annotations

import importlib.util
import json
import lzma
import os
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.files import open_regular
from equitangents.formatting import memory_size
from equitangents.memory import default_memory_limit, process_memory

if TYPE_CHECKING:
    from equitangents._aliases import FileName

UNREADABLE = (
    OSError, ValueError, KeyError, EOFError, RuntimeError, TypeError, AttributeError, IndexError, MemoryError,
    OverflowError, SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error,
)  # fmt: skip
"""What NumPy and the standard library raise for bytes that are no array, archive or JSON."""

_DEEP = 200  # nested lists and objects


def read_json(content: bytes | str) -> Any:
    """Parse JSON; raises ValueError if it is no JSON or nested too deeply.

    >>> read_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    inside = [value]
    for _ in range(_DEEP):
        within = (one.values() if isinstance(one, dict) else one for one in inside if isinstance(one, list | dict))
        inside = [each for one in within for each in one]
        if not inside:
            return value
    raise ValueError(f"it is nested too deeply, beyond {_DEEP} lists within each other")


def check_unpacked(archive: zipfile.ZipFile) -> None:
    """Raise ValueError for an archive that unpacks to more than half of the available memory."""
    total = sum(entry.file_size for entry in archive.infolist() if entry.compress_type != zipfile.ZIP_STORED)
    if total > default_memory_limit():
        raise ValueError(
            f"it unpacks to {memory_size(total)}, more than half of the memory, {memory_size(default_memory_limit())}; "
            "save arrays as .npy, which are read as they are needed"
        )


def read_entry(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Read an array of an archive; raises one of `UNREADABLE` if it is damaged or no array."""
    with archive.open(name) as entry:
        array: np.ndarray = np.lib.format.read_array(entry, allow_pickle=False)
        if entry.read(1):  # the checksum is compared at the end of the entry
            raise ValueError(f"{name} is longer than its array, {array.shape}")
    return array


_PICKLED = "it is a pickle, and loading one runs whatever code its author put in"
WHY = f"{_PICKLED}; --trust (trust=True) loads it all the same"
_NO_PICKLES = f"{_PICKLED}; save arrays of numbers, and labels as text by y.astype(str), not arrays of objects"
_EXPECTED = "an .npy or .npz file"
_ARRAYS = b"\x93NUMPY", b"\x80"  # first bytes of .npy, and of pickles since protocol 2


def read_arrays(name: str, path: FileName) -> np.ndarray | dict[str, np.ndarray]:
    """Read the array of an .npy file, or the arrays of an .npz file by name.

    Arrays of objects are pickles, and refused. Raises InvalidArgumentError with `name` and what the file is instead.
    """
    wrong = partial(InvalidArgumentError, name, str(path))
    if not Path(path).is_file():
        raise wrong("a file, .npy or .npz")
    try:
        with open_regular(Path(path)) as file:
            start = file.read(8)
            file.seek(0)
            if start.startswith(b"PK"):
                with zipfile.ZipFile(file) as archive:
                    check_unpacked(archive)
                    return {each.removesuffix(".npy"): read_entry(archive, each) for each in archive.namelist()}
            if start.startswith(_ARRAYS):
                size = os.fstat(file.fileno()).st_size
                if size > process_memory():
                    raise ValueError(f"it takes {memory_size(size)}, more than the memory there is")
                return np.asarray(np.load(file, allow_pickle=False))
    except UNREADABLE as error:
        why = " ".join(str(error).split())
        if "pickle" in why.lower():
            raise wrong("arrays of numbers", _NO_PICKLES) from None
        raise wrong(_EXPECTED, why or type(error).__name__) from None
    raise wrong(_EXPECTED, "numpy.savez('data.npz', x=x, y=y) writes one")


def read_named(name: str, path: FileName, needed: Sequence[str]) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file by name; errors as in `read_arrays`, and if a needed one is missing."""
    found = read_arrays(name, path)
    arrays = found if isinstance(found, dict) else {}
    missing = [key for key in needed if key not in arrays]
    if missing:
        raise InvalidArgumentError(name, str(path), missing, f"it holds {', '.join(sorted(arrays)) or 'nothing'}")
    return arrays


def load_data(path: str) -> tuple[Any, Any]:
    """Read (x, y) from .npy or .npz; y is None unless the archive has an array "y".

    x is the array "x" of an archive, or without one a dictionary of all arrays but "y".
    """
    arrays = read_arrays("data", path)
    if isinstance(arrays, np.ndarray):
        return arrays, None
    y = arrays.pop("y", None)
    if not arrays:
        raise InvalidArgumentError("data", str(path), "an array 'x' of inputs")
    return arrays.get("x", arrays), y


def text_of(y: np.ndarray) -> np.ndarray:
    """Decode bytes in UTF-8; raises InvalidArgumentError for y if they are not."""
    try:
        return np.char.decode(y, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            "y", error.object, "labels of text in UTF-8, or whole numbers", verb="holds bytes"
        ) from None


_TORCH = (".pt", ".pth", ".pt2")
_PICKLES = (".pkl", ".pickle", ".joblib")
SUFFIXES = (".onnx", *_TORCH, *_PICKLES)
"""Suffixes of model files; any other text is package.module:object."""

Kind = Literal["onnx", "exported", "script", "pickle", "name"]
_EXPORTED = ("archive_format", "serialized_exported_program.json")


def check_model(spec: str, trust: bool = False) -> Kind:
    """Kind of the model `spec`, without importing or unpickling it.

    Raises InvalidArgumentError if there is no such model, or it is a pickle without `trust`.
    """
    suffix = Path(spec).suffix.lower()
    if suffix not in SUFFIXES:
        check_name(spec, "model", "file.onnx, file.pt2, file.pt (TorchScript) or package.module:object")
        return "name"
    if not Path(spec).is_file():
        raise InvalidArgumentError("model", spec, "a file")
    if suffix == ".onnx":
        return "onnx"
    names: list[str] = []
    if suffix in _TORCH and zipfile.is_zipfile(spec):
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(spec) as archive:
            names = archive.namelist()
    if any(name.rpartition("/")[2] in _EXPORTED for name in names):
        return "exported"
    if any("/code/" in name and name.endswith(".py") for name in names):
        return "script"
    if suffix == ".pt2" and not any(name.endswith("/data.pkl") for name in names):
        return "exported"  # its reader raises the error
    if not trust:
        raise InvalidArgumentError("model", spec, "a model that is trusted, and not weights alone", WHY)
    return "pickle"


def check_name(spec: str, what: str, expected: str = "package.module:object") -> tuple[str, str]:
    """Split "package.module:object" into (module, object), if the module exists; errors call the argument `what`.

    As with `python -m`, the working folder is searched first.
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
