"""Compute frozen cases anew and compare, or freeze what is not frozen yet. See the package's docstring."""

from __future__ import annotations

import argparse
import importlib
import random
import secrets
import sys
import time

import jax

from . import files

KEPT = 20  # cases whose compiled programs a process holds: thousands of them are more than its memory maps take
FAMILIES = ("kernels", "ensembles", "audits", "refusals", "studies")


def module_of(family):
    return importlib.import_module(f"{__package__}.{family}")


def failures(family, names):
    """Lines about those cases of a family that are missing, raise, or differ from what is frozen."""
    made, frozen, lines = module_of(family), files.read(family), []
    for number, name in enumerate(names):
        if number % KEPT == KEPT - 1:
            jax.clear_caches()
        if name not in frozen:
            lines.append(f"{family} {name}: not frozen")
            continue
        try:
            wrong = files.difference(frozen[name], made.case(name), made.TOLERANCE)
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"]
        lines += [f"{family} {name} {line}" for line in wrong]
    return lines


def check(families, count, seed):
    """Exit status: whether `count` cases drawn at random, or all, are as they were frozen."""
    drawn = {family: sorted({*module_of(family).names(), *files.read(family)}) for family in families}
    if count != "all":
        pool = [(family, name) for family, names in drawn.items() for name in names]
        drawn = {family: [] for family in families}
        for family, name in random.Random(seed).sample(pool, min(int(count), len(pool))):
            drawn[family].append(name)
        print(f"SEED={seed}")
    wrong = [line for family, names in drawn.items() for line in failures(family, names)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{sum(map(len, drawn.values()))} cases computed anew, {len(wrong)} differences")
    return 1 if wrong else 0


def write(family, anew, minutes):
    """Freeze cases that are not frozen yet, or all `anew`, for so long; former ones leave."""
    made, start, saved = module_of(family), time.monotonic(), time.monotonic()
    old = files.read(family)
    kept = {name: old[name] for name in made.names() if name in old and not anew}
    for name in made.names():
        if name in kept or time.monotonic() - start > 60 * minutes:
            continue
        kept[name] = made.case(name)
        if time.monotonic() - saved > 10:
            files.write(family, kept)
            saved = time.monotonic()
    files.write(family, {name: kept[name] for name in made.names() if name in kept})
    print(f"{family}: {len(kept)} of {len(made.names())} cases are frozen, {time.monotonic() - start:.0f} s")
    return 0


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", metavar="N", help="how many cases to compute anew, drawn at random, or all")
    what.add_argument("--write", metavar="FAMILY", choices=FAMILIES, help="freeze cases that are not yet")
    parser.add_argument("--only", nargs="+", default=FAMILIES, choices=FAMILIES, help="with --check: families")
    parser.add_argument("--seed", type=int, default=None, help="repeats a draw")
    parser.add_argument("--anew", action="store_true", help="with --write: all of them, not only those that lack")
    parser.add_argument("--minutes", type=float, default=1e9, help="with --write: so long; run again for the rest")
    given = parser.parse_args(arguments)
    if given.write:
        return write(given.write, given.anew, given.minutes)
    return check(given.only, given.check, secrets.randbelow(2**32) if given.seed is None else given.seed)


if __name__ == "__main__":
    sys.exit(main())
