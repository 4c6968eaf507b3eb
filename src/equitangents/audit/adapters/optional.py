"""Libraries that only some models need."""

from __future__ import annotations

import importlib
from typing import Any

from equitangents.errors import MissingLibraryError


def require(library: str, extra: str) -> Any:
    """The module called `library`, or MissingLibraryError that names the extra to install."""
    try:
        return importlib.import_module(library)
    except ImportError:
        raise MissingLibraryError(
            f"{library} is not installed; this model needs it: pip install 'equitangents[{extra}]', or in a "
            f"checkout '.[{extra}]'"
        ) from None
