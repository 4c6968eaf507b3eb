"""Makes src/polynomials.hpp: minimax polynomials for the dual activations, by Remez's algorithm in 60 digits.

`python native/tools/polynomials.py > native/src/polynomials.hpp`; needs mpmath. Every function here is smooth and of
one sign on its interval, and the error that is made small is the relative one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp

mp.mp.dps = 60
Function = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Target:
    """A function to approximate on [low, high], at the degrees that suit float and double."""

    name: str
    formula: str
    function: Function
    low: mp.mpf
    high: mp.mpf
    degree: int
    degree64: int


def remez(f: Function, low: mp.mpf, high: mp.mpf, degree: int) -> tuple[list[mp.mpf], mp.mpf]:
    """Coefficients, lowest first, and the largest relative error."""
    n = degree + 2
    nodes = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / (n - 1)) for i in range(n)]
    grid = [low + (high - low) * (1 - mp.cos(mp.pi * i / (40 * n))) / 2 for i in range(40 * n + 1)]
    values = [f(x) for x in grid]
    for _ in range(12):
        system, right = mp.matrix(n, n), mp.matrix(n, 1)
        for i, x in enumerate(nodes):
            y = f(x)
            for j in range(degree + 1):
                system[i, j] = x**j / y
            system[i, degree + 1] = (-1) ** i
            right[i] = 1
        solution = mp.lu_solve(system, right)
        coefficients = list(solution[: degree + 1])
        errors = [mp.polyval(coefficients[::-1], x) / y - 1 for x, y in zip(grid, values, strict=True)]
        worst = max(abs(e) for e in errors)
        if worst < abs(solution[degree + 1]) * mp.mpf("1.001"):
            break
        nodes = extrema(grid, errors, n)
    return coefficients, worst


def extrema(grid: list[mp.mpf], errors: list[mp.mpf], count: int) -> list[mp.mpf]:
    """One largest error of each sign in turn."""
    found: list[int] = []
    for i, e in enumerate(errors):
        if found and (e > 0) == (errors[found[-1]] > 0):
            if abs(e) > abs(errors[found[-1]]):
                found[-1] = i
        else:
            found.append(i)
    while len(found) > count:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    assert len(found) == count, "the errors do not alternate often enough"
    return [grid[i] for i in found]


def angle(m: mp.mpf) -> mp.mpf:
    """2 arcsin(√m)/√m."""
    return mp.mpf(2) if m == 0 else 2 * mp.asin(mp.sqrt(m)) / mp.sqrt(m)


def lens(m: mp.mpf) -> mp.mpf:
    """(θ cos θ - sin θ)/m^{3/2} with m = sin²(θ/2), by its series in θ."""
    if m == 0:
        return mp.mpf(-8) / 3
    theta = 2 * mp.asin(mp.sqrt(m))
    series = sum((-1) ** n * 2 * n / mp.factorial(2 * n + 1) * theta ** (2 * n + 1) for n in range(1, 40))
    return series / m ** (mp.mpf(3) / 2)


def odd_part(f: Function) -> Function:
    """f(√x)/√x for an odd f."""
    return lambda x: mp.diff(f, 0) if x == 0 else f(mp.sqrt(x)) / mp.sqrt(x)


def excess(x: mp.mpf) -> mp.mpf:
    """(e^x - 1)/x."""
    return mp.mpf(1) if x == 0 else mp.expm1(x) / x


half = mp.mpf(1) / 2
TARGETS = [
    Target("angle", "θ/√m, m = sin²(θ/2) <= 1/2", angle, mp.mpf(0), half, 6, 17),
    Target("lens", "(θ cos θ - sin θ)/m^(3/2), m = sin²(θ/2) <= 1/2", lens, mp.mpf(0), half, 5, 16),
    Target("arcsine", "arcsin(√x)/√x, x <= 1/4", odd_part(mp.asin), mp.mpf(0), half / 2, 5, 12),
    Target("arctangent", "arctan(√x)/√x, x <= tan²(π/8)", odd_part(mp.atan), mp.mpf(0), (mp.sqrt(2) - 1) ** 2, 5, 11),
    Target("excess", "(e^x - 1)/x, |x| <= log(2)/2", excess, -mp.log(2) / 2, mp.log(2) / 2, 6, 10),
]


def literal(x: mp.mpf, suffix: str) -> str:
    """`x` to more digits than the type holds."""
    return mp.nstr(x, 12 if suffix else 22, strip_zeros=False, min_fixed=0, max_fixed=0) + suffix


def main() -> None:
    """Print the header."""
    print("// Made by tools/polynomials.py. Minimax polynomials, lowest coefficient first, with their relative errors.")
    print("#pragma once\n\nnamespace eqt {\n")
    print("template <class T>\nstruct Polynomials;\n")
    for type_name, suffix in (("float", "f"), ("double", "")):
        print(f"template <>\nstruct Polynomials<{type_name}> {{")
        for t in TARGETS:
            degree = t.degree if suffix else t.degree64
            coefficients, error = remez(t.function, t.low, t.high, degree)
            print(f"  // {t.formula}: {mp.nstr(error, 2)}")
            print(f"  static constexpr {type_name} {t.name}[{degree + 1}] = {{")
            for i in range(0, len(coefficients), 4):
                print("     ", *(f"{literal(c, suffix)}," for c in coefficients[i : i + 4]))
            print("  };")
        print("};\n")
    print("}  // namespace eqt")


if __name__ == "__main__":
    main()
