"""The ways of `empirical_ntk_fn` under the names and numbers of neural-tangents."""

from __future__ import annotations

from enum import IntEnum


class NtkImplementation(IntEnum):
    """`implementation=` of `empirical_ntk_fn`: "auto", "jacobians", "vectors" and "structured"."""

    AUTO = 0
    JACOBIAN_CONTRACTION = 1
    NTK_VECTOR_PRODUCTS = 2
    STRUCTURED_DERIVATIVES = 3
