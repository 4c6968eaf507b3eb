"""Properties of the φ of an activation kernel, for planners, engines and scales.

A dual that says nothing is of a smooth φ of ordinary growth, which is neither zero at zero nor homogeneous.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Traits:
    """Properties of φ; an activation kernel derives from this class to declare those of its φ."""

    bent: ClassVar[bool] = False  # a kink or a jump at zero
    curved: ClassVar[bool] = True  # smooth, and more than a scaling: what a kink behind it makes ill-conditioned
    odd: ClassVar[bool] = False  # φ(-x) = -φ(x)
    even: ClassVar[bool] = False  # φ(-x) = φ(x), and smooth
    linear_at_zero: ClassVar[bool] = False  # zero at zero, and linear near it up to what does not matter there
    no_ntk: ClassVar[str | None] = None  # why there is no tangent kernel

    @property
    def homogeneity(self) -> int | None:
        """n, where φ(s·x) = sⁿ φ(x) for s > 0; None of any other φ."""
        return None

    @property
    def gain(self) -> float | None:
        """E[φ(u)²]/E[u²] of a homogeneous φ, φ(s·x) = s φ(x) for s > 0; None of any other."""
        return None

    def angular(self, e: Any, q1: Any, q2: Any, a: Any, *sign: Any) -> tuple[Any, Any] | None:
        """(E', E[φ'(u)φ'(v)]) of E = 2(√(q1 q2) - k), to rounding of E' (see `kernels.angular`), without derivatives.

        E' is that of a·φ(u) and φ(v)/a, which are of equal variance. None: `pair` and `covariance` are enough.
        """
        return None

    def opposite(self, e: Any, q1: Any, q2: Any, a: Any) -> Any:
        """The distance 2(√(q1' q2') + k') from 2(√(q1 q2) + k), that of u and -v, to its rounding; None: unknown."""
        return self.angular(e, q1, q2, a)[0] if self.odd else None  # type: ignore[index]

    @property
    def vanishes(self) -> bool:
        """Whether φ(0) is exactly zero."""
        return self.linear_at_zero

    @property
    def steepness(self) -> int:
        """Growth exponent of φ in |x|; 1 if φ grows no faster than x, or by default."""
        return 1

    @property
    def grows(self) -> bool:
        """Whether φ grows faster than x, which makes norms differ more behind it than before."""
        return self.steepness > 1


_UNSAID = Traits()


def traits_of(activation: object) -> Traits:
    """`Traits` of an activation kernel; the defaults if it declares none."""
    return activation if isinstance(activation, Traits) else _UNSAID
