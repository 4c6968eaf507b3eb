"""What is public, for type checkers, and for lazy_loader, which imports it when first used."""

from .assertion import assert_equivariant

__all__ = [
    "assert_equivariant",
]
