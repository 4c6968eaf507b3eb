"""Finds and loads the compiled engine, and registers its custom calls with JAX.

The build puts the library into `_native` in the package's folders.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from equitangents.errors import InvalidArgumentError
from equitangents.memory import threads

logger = logging.getLogger("equitangents")


def native_folders() -> tuple[Path, ...]:
    """The folders `_native`, one for each place that holds a part of the package (an editable install has two)."""
    return tuple(Path(root) / "_native" for root in sys.modules["equitangents"].__path__)


_NAMES = ("libequitangents.so", "libequitangents.dylib")
INSTRUCTIONS = "EQUITANGENTS_INSTRUCTIONS"  # the best instruction set to use, by name
TARGETS = {"float32": ("eqt_kernel_float", "eqt_ffi_float"), "float64": ("eqt_kernel_double", "eqt_ffi_double")}


@cache
def _loaded() -> tuple[ctypes.CDLL | None, str | None]:
    """The library, or why there is none."""
    places = native_folders()
    found = [place / name for place in places for name in _NAMES if (place / name).exists()]
    if not found:
        return None, f"it was not built (no library in {', '.join(map(str, places))})"
    try:
        library = ctypes.CDLL(str(found[0]))
        library.eqt_instruction_set_name.restype = ctypes.c_char_p
        _limit(library)
        return library, None
    except (OSError, AttributeError) as error:
        return None, f"its library cannot be loaded: {error}"


def _limit(library: ctypes.CDLL) -> None:
    """Limit instruction sets to EQUITANGENTS_INSTRUCTIONS, if set."""
    wanted, names = os.environ.get(INSTRUCTIONS), _names(library)
    if wanted is None:
        return
    if wanted not in names:
        raise InvalidArgumentError(INSTRUCTIONS, wanted, list(names), "those of this processor")
    library.eqt_limit_instruction_sets(names.index(wanted))


def why_unavailable() -> str | None:
    """Why the engine cannot run on this machine, or None if it can."""
    return _loaded()[1] or _refused()


@cache
def _refused() -> str | None:
    """Why JAX takes none of the calls, said once as a warning; None where it takes them. Newer headers are refused."""
    try:
        for dtype in TARGETS:
            registered(dtype)
    except Exception as error:  # JAX's own, of no stated class
        said = next(iter(str(error).splitlines()), type(error).__name__)
        why = f"JAX cannot register its calls, build it for the installed JAX: {said}"
        logger.warning("the CPU engine is not used: %s", why)
        return why
    return None


def library() -> ctypes.CDLL:
    """The loaded library; only where `why_unavailable()` is None."""
    if why := why_unavailable():
        raise RuntimeError(f"the CPU engine is not available: {why}")
    return _library()


def _library() -> ctypes.CDLL:
    """The loaded library, also while it is not known whether JAX takes its calls."""
    found, why = _loaded()
    if found is None:
        raise RuntimeError(f"the CPU engine is not available: {why}")
    return found


def instruction_sets() -> tuple[str, ...]:
    """The names of the variants that this processor can run, the best one last."""
    return _names(library())


def _names(library: ctypes.CDLL) -> tuple[str, ...]:
    names = (library.eqt_instruction_set_name(i) for i in range(library.eqt_best_instruction_set() + 1))
    return tuple(name.decode() for name in names)


def description() -> str:
    """Description of the engine: instruction set and threads."""
    return f"{instruction_sets()[-1]}, {threads()} threads"


@cache
def registered(dtype: str) -> str:
    """The name under which JAX knows the engine's custom call for `dtype`."""
    import jax.ffi

    name = f"equitangents_{TARGETS[dtype][1]}"
    handler: Any = getattr(_library(), TARGETS[dtype][1])
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")
    return name
