"""What a draw is asked with: how many samples, and a key of jax.random."""

from __future__ import annotations

import jax

from equitangents._types import Key
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.validation import is_whole


def as_key(name: str, key: Key) -> jax.Array:
    """A jax.random key as it is, a whole number as the key that it seeds."""
    if isinstance(key, jax.Array):
        return key
    if not is_whole(key):
        raise InvalidTypeError(f"{name} is {key!r}; expected a whole number or a jax.random key")
    if not 0 <= key < 2**32:
        raise InvalidArgumentError(f"{name} is {key!r}; expected a whole number from 0 to 2**32 - 1")
    return jax.random.key(int(key))


def check_sample(name: str, n: int, key: Key) -> None:
    """Raise unless n is a number of samples and key a jax.random key."""
    if not is_whole(n) or n < 1:
        raise InvalidArgumentError(f"{name} is {n!r}; expected the number of samples, at least 1")
    if not isinstance(key, jax.Array):
        raise InvalidTypeError(f"key is {key!r}; expected a key, e.g. jax.random.key(0)")
