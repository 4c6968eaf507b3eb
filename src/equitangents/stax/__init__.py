"""The functions of neural-tangents' `stax`, implemented by the layers of `equitangents.nn`.

```python
from equitangents import stax
init_fn, apply_fn, kernel_fn = stax.serial(stax.Dense(512), stax.Relu(), stax.Dense(1))
```
"""

from typing import TYPE_CHECKING

from equitangents.stax import layers
from equitangents.stax.layers import *
from equitangents.stax.missing import ABSENT, unmask_fn
from equitangents.stax.triples import parallel, repeat, serial

__all__ = ["parallel", "repeat", "serial", "unmask_fn"]
__all__ += layers.__all__

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in ABSENT:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return ABSENT[name]  # which says what to use instead when it is called
