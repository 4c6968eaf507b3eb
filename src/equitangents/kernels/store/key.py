"""What a kernel depends on, as one hash: the program, the inputs to the last bit, precision, engine and versions.

key = SHA-256(format, VERSION, package version, engine, program, x1, x2)
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from equitangents._version import __version__
from equitangents.errors import InvalidTypeError
from equitangents.kernels.branches import Parallel
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.program import Positions, Program
from equitangents.kernels.projected.program import Turning
from equitangents.kernels.rotations.program import Sphere, sections
from equitangents.kernels.steerable.program import Points
from equitangents.kernels.structured.program import StructuredPositions

_FORMERLY = {
    "equitangents.kernels.operations": "equitangents.kernels.program"
}  # where classes were when keys were written
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
    if isinstance(thing, Parallel):
        return _of_branches(thing)
    if isinstance(thing, Program):
        name, parts = _PROGRAMS[type(thing.space)]
        return _named(f"equitangents.kernels.{name}", parts(thing))
    if isinstance(thing, tuple):
        return f"({','.join(map(described, thing))})"
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        module = type(thing).__module__
        return _named(f"{_FORMERLY.get(module, module)}.{type(thing).__qualname__}", _fields(thing))
    raise InvalidTypeError(
        f"a kernel that depends on {thing!r} cannot be kept on disk: its content has no description; compute it "
        "without a store"
    )


def _named(name: str, parts: dict[str, object]) -> str:
    return f"{name}({','.join(f'{key}={described(part)}' for key, part in parts.items())})"


def _fields(thing: Any) -> dict[str, object]:
    return {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing)}


def _of_branches(op: Parallel) -> str:
    """As earlier versions named it, whose files are to be found again."""
    if op.residual is not None:
        return _named("equitangents.kernels.program.Branch", {"ops": op.residual})
    if op.is_closed:
        return _named("equitangents.kernels.program.Parallel", {"branches": op.branches, "shares": op.shares})
    if not op.joins:
        return _named("equitangents.kernels.structured.program.Split", {"branches": op.branches})
    groups: dict[str, object] = {"groups": tuple(join.fields for join in op.joins)}
    if op.shares is None:
        return _named("equitangents.kernels.structured.program.Add", groups)
    shares = tuple(join.shares for join in op.joins)
    return _named("equitangents.kernels.structured.program.Join", {**groups, "shares": shares})


# By space: the class that its programs had in earlier versions, and what that held, in this order.
_PROGRAMS: dict[type, tuple[str, Callable[[Any], dict[str, object]]]] = {
    Positions: (
        "program.Program",
        lambda p: {"shape": p.space.shape, "ops": p.ops, "lift": p.space.lift, "form": p.form},
    ),
    StructuredPositions: (
        "structured.program.StructuredProgram",
        lambda p: {"shape": p.space.shape, "ops": p.ops, "masks": p.space.masks},
    ),
    Sphere: ("rotations.program.RotationProgram", lambda p: _fields(sections(p))),
    Points: (
        "steerable.program.SteerableProgram",
        lambda p: {
            "points": p.space.count,
            "features": p.space.features,
            "ops": p.ops,
            "outputs": p.space.outputs,
            "whole": p.space.whole,
            "field": p.space.field,
        },
    ),
    Turning: (
        "projected.program.ProjectedProgram",
        lambda p: {"flat": Program(p.space.flat, p.ops), "moves": p.space.moves, "constant": p.space.constant},
    ),
}
