"""Engines with planted faults: right, wrong, NaN, of another shape, uncompilable."""

import numpy as np

from equitangents.kernels import Engine
from equitangents.kernels.engines.reference.engine import ReferenceEngine


class Right(Engine):
    """The reference engine under another name, to be tested before its first use."""

    name = "planted"
    platforms = ("planted",)

    def __init__(self):
        self.inner = ReferenceEngine()

    def untried(self):
        return True

    def description(self):
        return f"a planted engine, {type(self).__name__}"

    def obstacle(self, program, dtype):
        return None

    def kernels(self, program, x1, x2):
        return self.spoilt(*self.inner.kernels(program, x1, x2))

    def diagonal(self, program, x):
        return self.inner.diagonal(program, x)

    def traced(self, program, x1, x2):
        return self.inner.traced(program, x1, x2)

    def working_bytes(self, program, channels, n1, n2, itemsize):
        return 0

    def spoilt(self, nngp, ntk):
        return nngp, ntk


class Wrong(Right):
    """Off by a ten-thousandth."""

    def spoilt(self, nngp, ntk):
        return nngp, np.asarray(ntk) * (1 + 1e-4)


class WithNaN(Right):
    """One entry is no number."""

    def spoilt(self, nngp, ntk):
        ntk = np.array(ntk)
        ntk[0, 0] = np.nan
        return nngp, ntk


class Short(Right):
    """It loses a column."""

    def spoilt(self, nngp, ntk):
        return nngp, ntk[:, :-1]


class Uncompilable(Right):
    """Its compiler refuses."""

    def spoilt(self, nngp, ntk):
        raise RuntimeError("NVRTC failed to compile the kernel (status 6): no such register")
