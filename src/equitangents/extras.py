"""Optional libraries, and the extras of this package that install them."""

from __future__ import annotations

import importlib
from types import ModuleType

from equitangents.errors import MissingLibraryError


def require(library: str, extra: str, user: str) -> ModuleType:
    """Import and return the module `library`; MissingLibraryError, which names the extra, where `user` lacks it."""
    try:
        return importlib.import_module(library)
    except ImportError:
        raise MissingLibraryError(library, extra, user) from None
