"""Kernels as means over random finite networks."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import index
from typing import Any

import jax

from equitangents.functional.empirical import empirical_kernel_fn


def monte_carlo_kernel_fn(
    init_fn: Callable[..., Any],
    apply_fn: Callable[..., Any],
    key: jax.Array,
    n_samples: int | Iterable[int],
    batch_size: int = 0,
    device_count: int = -1,
    store_on_device: bool = True,
    trace_axes: int | Sequence[int] = (-1,),
    diagonal_axes: int | Sequence[int] = (),
    vmap_axes: Any = None,
    implementation: int | str = "auto",
) -> Callable[..., Any]:
    """kernel_fn(x1, x2=None, get=None): means of "nngp" and "ntk" over `n_samples` networks drawn by init_fn.

    `n_samples` may be several numbers, such as [1, 2, 4, 8]: then the result is an iterator of the means of so many.
    Standard errors come with `kernels.monte_carlo`.
    """
    if batch_size or device_count not in (-1, 0, 1):
        raise NotImplementedError("batch_size and device_count are not here; wrap the result in equitangents.batch")
    empirical = empirical_kernel_fn(apply_fn, trace_axes, diagonal_axes, vmap_axes, implementation)

    def kernel_fn(x1: Any, x2: Any = None, get: str | Sequence[str] | None = None, **keywords: Any) -> Any:
        names = ("nngp", "ntk") if get is None else (get,) if isinstance(get, str) else tuple(get)

        @jax.jit
        def sample(one: jax.Array) -> Any:
            _, params = init_fn(one, x1.shape)
            return tuple(empirical(x1, x2, names, params, **keywords))

        def named(totals: Any, count: int) -> Any:
            means = [total / count for total in totals]
            return means[0] if isinstance(get, str) else namedtuple("Kernel", names)(*means)

        def estimates(counts: list[int]) -> Iterator[Any]:
            totals: Any = None
            for i in range(max(counts)):
                values = sample(jax.random.fold_in(key, i))
                totals = values if totals is None else tuple(t + v for t, v in zip(totals, values, strict=True))
                if i + 1 in counts:
                    yield named(totals, i + 1)

        if isinstance(n_samples, Iterable):
            return estimates(sorted(map(int, n_samples)))
        return next(estimates([index(n_samples)]))

    return kernel_fn
