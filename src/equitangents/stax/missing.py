"""Names of neural-tangents without a counterpart: each raises an error with a remedy."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn

_LAYERS = "a layer of your own is a class here: see nn.Layer, and the guide on architectures of your own"
_INSTEAD = {
    "ConvTranspose": "use nn.Aggregate(matrix) with the matrix that spreads positions, and nn.Conv after it",
    "ImageResize": "resize the inputs beforehand, or use nn.Aggregate(matrix) with the interpolation's weights",
    "Index": "use nn.Aggregate(matrix) with a row of the identity matrix for each position kept",
    "DotGeneral": "use nn.Aggregate(matrix) along positions, or multiply the inputs beforehand",
    "FanInProd": "products of branches are not here; multiply finished kernels, K₁K₂ and Θ₁K₂ + K₁Θ₂",
    "BatchNorm": "it has no kernel, since what it does to an input depends on the batch; use LayerNorm",
    "MaxPool": "it has no kernel in closed form; use AvgPool, or a convolution with strides",
    "Slice": "use nn.Aggregate(matrix) with a row of the identity matrix for each position kept",
    "utils": "there are no helpers to import: arrays are NumPy's and JAX's own",
    "experimental": "kernels of TensorFlow functions are not here; torch.ModuleKernel has those of PyTorch modules",
    **dict.fromkeys(("layer", "requires", "supports_masking", "Bool", "Diagonal"), _LAYERS),
}

_MODULES = ("utils", "experimental")


def only(name: str, value: object, *allowed: object, instead: str) -> None:
    """Raise NotImplementedError with a remedy unless `value` is one of `allowed`."""
    value = value.name if isinstance(value, Enum) else value
    if not any(value is a or value == a for a in allowed):
        raise NotImplementedError(f"{name}={value!r} is not here; {instead}")


def unmask_fn(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` itself, since outputs are arrays with zeros at missing positions; neural-tangents returns masked arrays."""
    return fn


class MissingName:
    """A name of neural-tangents without a counterpart: calls and indices raise NotImplementedError with a remedy."""

    def __init__(self, name: str, instead: str) -> None:
        self.remedy = instead
        self._message = f"{'equitangents' if name in _MODULES else 'stax'}.{name}: {instead}"

    def _refuse(self, *args: object, **keywords: object) -> NoReturn:
        raise NotImplementedError(self._message)

    __call__ = __getitem__ = _refuse

    def __getattr__(self, name: str) -> NoReturn:
        """Raise NotImplementedError with a remedy; AttributeError for private names."""
        if name.startswith("_"):
            raise AttributeError(name)
        self._refuse()


ABSENT = {name: MissingName(name, instead) for name, instead in _INSTEAD.items()}
utils, experimental = (ABSENT[name] for name in _MODULES)
