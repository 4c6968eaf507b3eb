"""Arrays from .npy and .npz files. Nothing is unpickled: a pickle runs any code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equitangents._aliases import FileName
from equitangents.errors import InvalidArgumentError
from equitangents.file_limits import UNREADABLE, check_arrays
from equitangents.files import open_regular

_PICKLED = "it is a pickle, and loading one runs whatever code its author put in"
WHY = f"{_PICKLED}; --trust (trust=True) loads it all the same"
_NO_PICKLES = f"{_PICKLED}; save arrays of numbers, and labels as text by y.astype(str), not arrays of objects"
_STARTS = b"\x93NUMPY", b"PK", b"\x80"  # how .npy, .npz, and pickles start since protocol 2


def read_arrays(name: str, path: FileName, wanted: Sequence[str] | None = None) -> np.ndarray | dict[str, np.ndarray]:
    """The array of an .npy file, or those of an .npz file by name (None: all).

    Arrays of objects are pickles, and refused. Raises InvalidArgumentError that names `name` and says what the file is
    instead.
    """
    path = str(path)
    said = f"{name} is {path!r}, which"
    if not Path(path).is_file():
        raise InvalidArgumentError(f"{said} is not a file")
    try:
        with open_regular(path) as file:
            _check_start(said, file.read(4096))
            check_arrays(file)
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            arrays: dict[str, Any] = {key: loaded[key] for key in loaded.files if wanted is None or key in wanted}
    except InvalidArgumentError:
        raise
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise InvalidArgumentError(f"{said} is not loaded: {_NO_PICKLES}") from None
        raise InvalidArgumentError(f"{said} NumPy cannot read: {error}") from None
    except UNREADABLE as error:
        raise InvalidArgumentError(f"{said} NumPy cannot read: {error}") from None
    foreign = [key for key, value in arrays.items() if not isinstance(value, np.ndarray)]
    if foreign:
        raise InvalidArgumentError(
            f"{said} is an archive that holds {foreign[0]!r}, which is not an array; expected .npz"
        )
    return arrays


def read_named(name: str, path: FileName, needed: Sequence[str], *, others: bool = True) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name: those that are needed alone, in their order, or the `others`, too.

    InvalidArgumentError as in `read_arrays`, and for a file that lacks one.
    """
    found = read_arrays(name, path, None if others else needed)
    arrays = found if isinstance(found, dict) else {}
    missing = [key for key in needed if key not in arrays]
    if missing:
        raise InvalidArgumentError(name, str(path), missing, f"it holds {', '.join(sorted(arrays)) or 'nothing'}")
    return arrays if others else {key: arrays[key] for key in needed}


def load_data(path: str) -> tuple[Any, Any]:
    """(x, y) from .npy or .npz; y is None unless the archive has an array "y".

    Of an archive "x" is the input; without it, all arrays but "y" are inputs by their names.
    """
    arrays = read_arrays("data", path)
    if isinstance(arrays, np.ndarray):
        return arrays, None
    y = arrays.pop("y", None)
    if not arrays:
        raise InvalidArgumentError("data", str(path), "an array 'x' of inputs")
    return arrays.get("x", arrays), y


def text_of(y: np.ndarray) -> np.ndarray:
    """Bytes as text: they are UTF-8. Raises InvalidArgumentError that names y."""
    try:
        return np.char.decode(y, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            "y", error.object, "labels of text in UTF-8, or whole numbers", verb="holds bytes"
        ) from None


def _check_start(said: str, start: bytes) -> None:
    """Raise unless a file that starts so may be .npy, .npz or a pickle."""
    if start.startswith(_STARTS):
        return
    if not start:
        raise InvalidArgumentError(f"{said} cannot be read: it is empty; expected .npy or .npz")
    text = b"\0" not in start and all(byte >= 32 or byte in b"\t\n\r\f" for byte in start)
    kind = "text, which is neither .npy nor .npz" if text else "neither .npy nor .npz"
    raise InvalidArgumentError(
        f"{said} cannot be read: it is {kind}; numpy.savez('data.npz', x=x, y=y) writes what is expected"
    )
