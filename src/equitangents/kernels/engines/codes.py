"""Numeric codes shared by C++ engines and the plans that Python writes for them.

The build generates a C++ header from them (`native/tools/codes.py`), so that there is one list. It runs this file
before the package is installed, so that only the standard library can be imported here.
"""

from enum import IntEnum

PLAN_VERSION = 18  # of descriptions of plans: another number where they are read in another way
STEPS_VERSION = 3  # of descriptions of steps on fields over all pairs of positions
AXES = 3  # of grids
DEPTH = 8  # residual branches inside each other, at most
SHORT, LONG = 4, 20  # degrees of polynomials, at most
HALF_ORDERS = 24  # orders of Hermite polynomials, odd and even, by which functions are tabulated
TABLE_NODES = 12  # coefficients in every octave of variances of such a table
POOLED_SIDES = 5  # numbers a block that a pool between layers needs of each input alone
JOINED_SIDES = 4  # a position that a sum of fields in units of their own needs, beside means
RAISED_SIDES = 4  # a position that a constant behind a nonlinearity needs, between fields in units
TILE_ROWS = 64  # first inputs in a tile, at most
PANEL_BYTES = 48 << 20  # of prepared inputs that a panel holds on each side, or of so many inputs as a tile has


class OpKind(IntEnum):
    """Kind of an operation of a plan; `BACK` restores the field of a fork, `JOIN` adds it."""

    BOX = 0
    TABLE = 1
    AFFINE = 2
    DUAL = 3
    DECOUPLE = 4
    FORK = 5
    JOIN = 6
    BACK = 7


class DualKind(IntEnum):
    """The activation kernel of an operation; its parameters follow each code."""

    PIECEWISE_LINEAR = 0  # slope below 0
    ERF = 1
    GELU = 2
    SINE = 3
    COSINE = 4
    NORMALISED_EXPONENTIAL = 5  # γ
    WAVE = 6  # cosine of twice the phase, sine of the phase
    RADIAL_BASIS = 7  # γ
    EXPONENTIAL = 8  # a, b
    GAUSSIAN = 9  # a, b
    GABOR = 10
    NORMALISED = 11  # ε
    STANDARDISED = 12  # ε
    STEP = 13  # D at opposite inputs, variance
    RECTIFIED_MONOMIAL = 14  # degree, mean of variance 1
    POLYNOMIAL = 15
    LONG_POLYNOMIAL = 16
    BENT_GELU = 17
    TABULATED = 18  # the lowest power of two, and octaves from there on
    TABULATED_ODD = 19  # of odd orders alone
    TABULATED_EVEN = 20  # of even orders and the first


DUAL_SIDES = {
    DualKind.PIECEWISE_LINEAR: 2, DualKind.ERF: 6, DualKind.GELU: 4, DualKind.SINE: 2, DualKind.COSINE: 2,
    DualKind.NORMALISED_EXPONENTIAL: 2, DualKind.WAVE: 2, DualKind.RADIAL_BASIS: 1, DualKind.EXPONENTIAL: 4,
    DualKind.GAUSSIAN: 3, DualKind.GABOR: 4, DualKind.NORMALISED: 4, DualKind.STANDARDISED: 2, DualKind.STEP: 2,
    DualKind.RECTIFIED_MONOMIAL: 4, DualKind.POLYNOMIAL: SHORT + 3, DualKind.LONG_POLYNOMIAL: LONG + 3,
    DualKind.BENT_GELU: 8, DualKind.TABULATED: 2 * HALF_ORDERS + 4, DualKind.TABULATED_ODD: HALF_ORDERS + 4,
    DualKind.TABULATED_EVEN: HALF_ORDERS + 5,
}  # fmt: skip
"""Numbers a position that an activation kernel needs of each input alone."""


CONVERTED_SIDES = {
    kind: 6
    for kind in (
        DualKind.ERF, DualKind.GELU, DualKind.BENT_GELU, DualKind.SINE, DualKind.COSINE, DualKind.WAVE,
        DualKind.RADIAL_BASIS, DualKind.GAUSSIAN, DualKind.GABOR,
    )
}  # fmt: skip
"""How many more of those that know fields as they are alone, between fields in units (`native/src/rescaled.hpp`)."""


class JointKind(IntEnum):
    """Kind of a step on fields over all pairs of positions.

    `COVARIANCE` computes K from D, `DISTANCE` D from K, for steps between that need K. The last two make masks.
    """

    COPY = 0
    WINDOW = 1
    AFFINE = 2
    DUAL = 3
    DECOUPLE = 4
    COMBINE = 5
    NORMALISE = 6
    COVARIANCE = 7
    DISTANCE = 8
    MIX = 9
    SQUARE = 10
    DROP = 11
    FLATTEN = 12
    CLEAR = 13
    CENTRES = 14
    PRESENT = 15


JOINT_SIDES = {
    JointKind.WINDOW: 1, JointKind.AFFINE: 1, JointKind.DECOUPLE: 1, JointKind.COMBINE: 2, JointKind.NORMALISE: 5,
    JointKind.COVARIANCE: 1, JointKind.DISTANCE: 1, JointKind.DROP: 1, JointKind.CLEAR: 2,
}  # fmt: skip
"""Numbers a position that a step needs of each input alone, where its kind alone says so; others: 0."""


class Mixing(IntEnum):
    """Source of the matrix A of a mix.

    One matrix for all inputs; each input's graph; means or sums over the existing positions of blocks; or a function of
    the input's own K.
    """

    GIVEN = 0
    GRAPH = 1
    MEAN = 2
    SUM = 3
    SOFTMAX = 4
    IDENTITY = 5
    RECTIFIED = 6
    MAGNITUDE = 7


class FieldKind(IntEnum):
    """The pairs of positions at which a field is stored."""

    NONE = 0
    ALL = 1
    SAME = 2
    LISTED = 3
