"""Hash of a kernel: program, inputs to the last bit, precision, engine and versions.

key = SHA-256(format, VERSION, package version, engine, program, x1, x2)
"""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np

from equitangents._version import __version__
from equitangents.errors import InvalidTypeError
from equitangents.kernels.operation import FrozenArray

VERSION = 4  # of the numbers: raised whenever some kernel's change, whatever the version of the package


def kernel_key(program: object, x1: np.ndarray, x2: np.ndarray | None, engine: str) -> str:
    """The hash of the kernels of `program` between the inputs it reads, x1 and x2 (None: x1 with itself).

    Raises InvalidTypeError for a program that holds something without a description by content, such as a function.
    """
    parts = ("kernels", VERSION, __version__, engine, program, x1, x2)
    return hashlib.sha256("|".join(map(described, parts)).encode()).hexdigest()


def described(thing: object) -> str:
    """A text that is equal for equal content and for nothing else.

    >>> described((1, 0.5, None)), described(np.zeros(2)) == described(np.zeros(2, np.float32))
    ('(1,0x1.0000000000000p-1,None)', False)
    """
    if isinstance(thing, FrozenArray):
        return f"array:{thing.key}"
    if isinstance(thing, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()
        return f"array:{thing.dtype.str}{thing.shape}{content}"
    if isinstance(thing, float):
        return thing.hex()
    if thing is None or isinstance(thing, bool | int | str):
        return repr(thing)
    if isinstance(thing, tuple):
        return f"({','.join(map(described, thing))})"
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        parts = (f"{f.name}={described(getattr(thing, f.name))}" for f in dataclasses.fields(thing))
        return f"{type(thing).__module__}.{type(thing).__qualname__}({','.join(parts)})"
    raise InvalidTypeError(
        "kernel", thing, "one whose content has a description", "compute it without a store", verb="depends on"
    )
