"""What kernels depend on, as a text that is equal for equal content: programs, arrays to the last bit, numbers."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np

from equitangents.errors import InvalidTypeError
from equitangents.kernels.operations import FrozenArray

VERSION = 5  # of the numbers: raised whenever some kernel's change, whatever the version of the package


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
        f"a kernel that depends on {thing!r} cannot be kept on disk: its content has no description; compute it "
        "without a store"
    )
