"""Fitted learning curves: how often the intervals of exponents, cusps and growth hold, in 200 draws each.

Synthetic power laws with a cusp at 1,000, sizes from 100 to 10,000, lognormal noise; with repetitions, each shares a
shift of 2 % between its sizes. "All" counts curves in which both exponents and the cusp lie in their intervals.
"""

import time

import numpy as np

from equitangents_studies.systems import fit_power_law

CASES = (  # sizes, noise, repetitions, exponents
    (7, 0.03, 0, (0.2, 0.5)),
    (12, 0.005, 0, (0.2, 0.5)),
    (12, 0.03, 0, (0.2, 0.5)),
    (12, 0.15, 0, (0.2, 0.5)),
    (20, 0.05, 0, (0.2, 0.5)),
    (12, 0.05, 0, (0.5, 0.2)),
    (12, 0.05, 0, (0.3, 0.3)),
    (8, 0.05, 5, (0.2, 0.5)),
    (12, 0.1, 3, (0.2, 0.5)),
    (8, 0.05, 5, (0.3, 0.3)),
)
CUSP, FAR, DRAWS = 1000.0, 45_000.0, 200


def main() -> None:
    print(f"{'sizes':>5} {'noise':>6} {'reps':>4} {'exponents':>11}   both, cusp, all, growth, error at 45,000  chosen")
    for case in CASES:
        start = time.process_time()
        shares, chosen = coverage(*case)
        seconds = time.process_time() - start
        sizes, noise, repetitions, (a, b) = case
        told = "  ".join(f"{100 * share:5.1f} %" for share in shares)
        print(f"{sizes:5d} {noise:6.3f} {repetitions:4d} {a:5.2f} {b:5.2f}   {told}  {chosen}  {seconds:.1f} s")


def coverage(sizes, noise, repetitions, exponents, draws=DRAWS, seed=0):
    """(Shares of draws in which intervals hold, how often "auto" chose 1, 2 and 3 segments in a tenth of the draws)."""
    rng, n = np.random.default_rng(seed), np.geomspace(100, 10_000, sizes)
    truth = joined(n, exponents)
    held, chosen = np.zeros((draws, 5), bool), []
    for i in range(draws):
        if repetitions:
            logs = noise * rng.normal(size=(sizes, repetitions)) + 0.02 * rng.normal(size=repetitions)
            errors = truth[:, None] * np.exp(logs)
        else:
            errors = truth * np.exp(noise * rng.normal(size=sizes))
        law = fit_power_law(n, errors)
        values = (*exponents, CUSP)
        each = [e.low <= v <= e.high for e, v in zip((*law.exponents, law.cusp), values, strict=True)]
        if exponents[0] == exponents[1]:
            each[2] = True  # there is no cusp to lie anywhere
        growth, far = law.grows.difference, law.at(FAR)
        at_far = float(joined(np.array([FAR]), exponents)[0])
        grows = growth.low <= exponents[1] - exponents[0] <= growth.high
        held[i] = [all(each[:2]), each[2], all(each), grows, far.low <= at_far <= far.high]
        if i % 10 == 0:
            chosen.append(fit_power_law(n, errors, "auto").segments)
    return held.mean(axis=0), np.bincount(chosen, minlength=4)[1:].tolist()


def joined(n, exponents):
    """Two power laws with a cusp."""
    a, b = exponents
    return np.where(n < CUSP, n**-a, CUSP ** (b - a) * n**-b)


if __name__ == "__main__":
    main()
