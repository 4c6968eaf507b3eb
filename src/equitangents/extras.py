"""Optional libraries, and the extras of this package that install them."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from equitangents.errors import MissingLibraryError


def check_installed(library: str, extra: str, user: str) -> None:
    """Raise MissingLibraryError unless `library`, which `user` needs, can be found; it is not imported."""
    try:
        found = importlib.util.find_spec(library) is not None
    except (ImportError, ValueError):  # a parent package that is missing; a module without a specification
        found = False
    if not found:
        raise MissingLibraryError(library, extra, user)


def require(library: str, extra: str, user: str) -> ModuleType:
    """Import and return the module `library`; MissingLibraryError, which names the extra, where `user` lacks it."""
    try:
        return importlib.import_module(library)
    except ImportError:
        raise MissingLibraryError(library, extra, user) from None
