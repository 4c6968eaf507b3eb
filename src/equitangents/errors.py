"""What bad input gets: one family of exceptions, raised before anything is computed."""

from __future__ import annotations

__all__ = [
    "EquitangentsError",
    "InvalidArgumentError",
    "InvalidTypeError",
    "MemoryLimitError",
    "MissingLibraryError",
    "ModelError",
    "NetworkError",
    "NotAnActionError",
    "NotFiniteError",
    "NotFittedError",
    "NotPositiveDefiniteError",
    "ShapeError",
    "StoreError",
]


class EquitangentsError(Exception):
    """Base of every error that equitangents raises on purpose."""


class InvalidArgumentError(EquitangentsError, ValueError):
    """An argument has the right type and an unusable value; the message names it, what it was and what it may be."""


class InvalidTypeError(EquitangentsError, TypeError):
    """An argument is of a type that cannot be used."""


class ShapeError(InvalidArgumentError):
    """An array has the wrong rank or shape."""


class NotFiniteError(InvalidArgumentError):
    """An array holds NaN or infinite values."""


class NotAnActionError(InvalidArgumentError):
    """A map offered as a group action does not respect the group's multiplication."""


class NetworkError(InvalidArgumentError):
    """A layer cannot follow the one before it, or the network has no kernel of the kind asked for."""


class ModelError(InvalidArgumentError):
    """A model that is audited, but was made elsewhere, failed on its inputs; the message says what they were."""


class NotPositiveDefiniteError(InvalidArgumentError):
    """A kernel matrix cannot be inverted; the message gives the ridge that would make it invertible."""


class MemoryLimitError(InvalidArgumentError):
    """A computation would need more memory than allowed; the message says how to make it smaller."""


class StoreError(InvalidArgumentError):
    """A store on disk holds something else, is damaged, or cannot be read or written; the message says what helps."""


class NotFittedError(EquitangentsError, ValueError, AttributeError):
    """A model was asked to predict before it was fitted."""


class MissingLibraryError(EquitangentsError, ImportError):
    """`library`, which `user` needs, is not installed; `extra` of this package installs it."""

    def __init__(self, library: str, extra: str, user: str) -> None:
        super().__init__(
            f"{user} needs {library}, which is not installed: pip install 'equitangents[{extra}]' "
            f"(in a checkout '.[{extra}]')"
        )
        self.library, self.extra, self.user = library, extra, user

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.library, self.extra, self.user)
