"""What a shell offers for the value of an option: known without JAX, so that it comes at once."""

from __future__ import annotations

from collections.abc import Callable

Offers = Callable[[str], list[str]]


def among(*values: str) -> Offers:
    """Those of `values` that begin as what is typed; others may be right, too.

    >>> among("ntk", "nngp")("nt")
    ['ntk']
    """

    def offered(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return offered


GROUPS = among(
    "C2", "C4", "C8", "C16", "D2", "D4", "D8", "SO2", "SO3", "O3", "S_n", "translations", "reversal", "sign",
    "tetrahedral", "octahedral", "icosahedral",
)  # fmt: skip
SOLVERS = among(
    "auto", "eigh", "cholesky", "out-of-core", "multi-gpu", "lanczos", "pcg", "sketch-and-project", "nystrom",
    "subset-of-regressors",
)  # fmt: skip
NETS = among("mlp", "cnn", "FCN", "LCN", "VEC", "GAP", "LAP4", "LAP8")
