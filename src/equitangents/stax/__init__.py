"""The functions of neural-tangents' `stax`, implemented by the layers of `equitangents.nn`.

```python
from equitangents import stax
init_fn, apply_fn, kernel_fn = stax.serial(stax.Dense(512), stax.Relu(), stax.Dense(1))
```
"""

from typing import TYPE_CHECKING

from equitangents.stax.layers import (
    ABRelu,
    Abs,
    Aggregate,
    AggregateImplementation,
    AttentionMechanism,
    AvgPool,
    Conv,
    ConvLocal,
    Cos,
    Dense,
    Dropout,
    Elementwise,
    ElementwiseNumerical,
    Erf,
    Exp,
    ExpNormalized,
    FanInConcat,
    FanInSum,
    FanOut,
    Flatten,
    Gabor,
    Gaussian,
    Gelu,
    GlobalAvgPool,
    GlobalSelfAttention,
    GlobalSumPool,
    Hermite,
    Identity,
    LayerNorm,
    LeakyRelu,
    Monomial,
    Polynomial,
    PositionalEmbedding,
    Rbf,
    RectifiedMonomial,
    Relu,
    Sigmoid_like,
    Sign,
    Sin,
    SumPool,
)
from equitangents.stax.missing import ABSENT, unmask_fn
from equitangents.stax.triples import parallel, repeat, serial

__all__ = [
    "ABRelu",
    "Abs",
    "Aggregate",
    "AggregateImplementation",
    "AttentionMechanism",
    "AvgPool",
    "Conv",
    "ConvLocal",
    "Cos",
    "Dense",
    "Dropout",
    "Elementwise",
    "ElementwiseNumerical",
    "Erf",
    "Exp",
    "ExpNormalized",
    "FanInConcat",
    "FanInSum",
    "FanOut",
    "Flatten",
    "Gabor",
    "Gaussian",
    "Gelu",
    "GlobalAvgPool",
    "GlobalSelfAttention",
    "GlobalSumPool",
    "Hermite",
    "Identity",
    "LayerNorm",
    "LeakyRelu",
    "Monomial",
    "Polynomial",
    "PositionalEmbedding",
    "Rbf",
    "RectifiedMonomial",
    "Relu",
    "Sigmoid_like",
    "Sign",
    "Sin",
    "SumPool",
    "parallel",
    "repeat",
    "serial",
    "unmask_fn",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in ABSENT:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return ABSENT[name]  # which says what to use instead when it is called
