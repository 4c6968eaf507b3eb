"""Groups that are equal if they were made alike: values, not places."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self


class Immutable(ABC):
    """Cannot be changed; equal, and of equal hash, if type and `_value()` are; a copy is the thing itself."""

    @abstractmethod
    def _value(self) -> tuple[Any, ...]:
        """What makes it what it is, hashable."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"groups are immutable; cannot set {name}")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._value() == other._value()

    def __hash__(self) -> int:
        return hash((type(self), self._value()))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
