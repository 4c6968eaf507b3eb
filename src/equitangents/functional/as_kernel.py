"""The kernels of one finite function, where a network's kernels are asked for: a linearised model at any time."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, Params
from equitangents.errors import InvalidTypeError
from equitangents.functional.empirical import KernelFn, empirical_kernel_fn
from equitangents.kernels import Kernels
from equitangents.kernels.structured_derivatives import At
from equitangents.validation import check_array


class EmpiricalKernel:
    """`kernel(x1, x2=None)` of f(params, x), (N, outputs): Θ from derivatives, K from outputs, both means over outputs.

    Takes the place of a network in `InfiniteEnsemble` and wherever kernels alone are read: this model, linearised about
    `params`, trained to any time. Any JAX model is such a function: `EmpiricalKernel(net.apply, params)`, with Flax
    `EmpiricalKernel(model.apply, variables)`.

    >>> import jax, numpy as np
    >>> from equitangents import InfiniteEnsemble, nn
    >>> net, x = nn.Sequential(nn.Dense(64), nn.Relu(), nn.Dense(1)), np.eye(3)
    >>> kernel = EmpiricalKernel(net.apply, net.init(jax.random.key(0), (3,)))
    >>> kernel.kernel(x).ntk.shape, InfiniteEnsemble(kernel, time=5.0).fit(x, np.ones(3)).predict(x).shape
    ((3, 3), (3,))
    """

    def __init__(self, f: At, params: Params, implementation: int | str = "auto") -> None:
        if not callable(f):
            raise InvalidTypeError(f"f is {f!r}; expected a function f(params, x)")
        self.f, self.params = f, params
        # Compiled once for each shape; params are an argument, so that they are no constants of the program.
        self._run = jax.jit(partial(_both, empirical_kernel_fn(f, implementation=implementation)))

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """Kernels between x1 and x2 (None: x1), each (N1, N2), computed in the precision of `params`."""
        x1 = check_array("x1", x1, min_rank=2)
        x2 = None if x2 is None else check_array("x2", x2, min_rank=2)
        dtype = jax.tree.leaves(self.params)[0].dtype
        with precision.scope(dtype):
            inputs = [None if x is None else np.asarray(x, dtype) if isinstance(x, np.ndarray) else x for x in (x1, x2)]
            nngp, ntk = self._run(*inputs, self.params)
        if isinstance(x1, np.ndarray):
            nngp, ntk = np.asarray(nngp), np.asarray(ntk)
        return Kernels(nngp, ntk, engine="derivatives", form="empirical")


def _both(kernel_fn: KernelFn, x1: ArrayLike, x2: ArrayLike | None, params: Params) -> tuple[jax.Array, ...]:
    return tuple(kernel_fn(x1, x2, ("nngp", "ntk"), params))
