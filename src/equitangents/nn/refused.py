"""Layers of finite networks without a kernel at infinite width: they raise an error with the reason and a remedy."""

from __future__ import annotations

from typing import NoReturn

from equitangents.errors import NetworkError


class MaxPool:
    """Refused: the maximum over Gaussian positions has no closed form and is not Gaussian."""

    def __init__(self, *args: object, **keywords: object) -> NoReturn:
        raise NetworkError(
            "MaxPool has no kernel: the covariance of maxima over jointly Gaussian positions has no closed form beyond "
            "pairs; use AvgPool, or a convolution with a stride"
        )


class BatchNorm:
    """Refused: outputs depend on the other inputs of the batch, so that a pair of inputs has no kernel."""

    def __init__(self, *args: object, **keywords: object) -> NoReturn:
        raise NetworkError(
            "BatchNorm has no kernel: what it does to an input depends on the others of the batch, so a pair of inputs "
            "has no kernel of its own, and its gradients explode with depth; use LayerNorm"
        )
