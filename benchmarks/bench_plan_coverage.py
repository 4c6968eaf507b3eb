"""Plans from pilots of 20 networks beside trained ensembles: how many of these lie in the interval of 90 %.

For every setting (network, width, data, group, time, measure; `plan_settings`) a pool of 204 networks is trained. Three
pilots are taken of it, and from the others ensembles of 2, 6 and 12 networks, each network in one ensemble of a size.
covered: of the ensembles, those between `lower` and `upper` of the plans, 90 % by the plans; at most upper: those that
meet the target for which a plan at 95 % recommends their size; members known: of the pilots, those whose interval of
the number of members holds that which all 204 networks say, 12. theory covers: the same for the interval of infinitely
wide networks, where training is gradient descent on the mean square; members: those that the pool says are needed
for a target, here 12, and those that theory plans.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.plan_settings import ENSEMBLES, PILOT, PILOTS, SETTINGS, Setting
from equitangents.ensembles.orbits.law import OrbitLaw, orbit_law
from equitangents.ensembles.orbits.statistics import OrbitMeasures
from equitangents.planning.pilot_law import PilotDraws
from equitangents.planning.violations import MEASURES, Violations
from equitangents.planning.wanted import Wanted

SIZES, CONFIDENCE, DRAWS = (2, 6, 12), 0.95, 1000


@dataclass(frozen=True)
class Row:
    """What was counted in one setting; theory is None where there is none."""

    setting: Setting
    at: int
    ensembles: int
    covered: int
    below: int
    known: int
    theory_covered: float | None
    theory_members: int | None

    def __str__(self) -> str:
        s = self.setting
        theory = ("–", "–")
        if self.theory_covered is not None:
            theory = (
                f"{self.theory_covered:.0%}",
                "none" if self.theory_members is None else f"{self.theory_members:,}",
            )
        cells = (
            s.network,
            s.training,
            s.data.name,
            s.group,
            str(s.epochs[self.at]),
            s.measures[self.at][0],
            f"{self.covered} of {self.ensembles}",
            f"{self.covered / self.ensembles:.0%}",
            f"{self.below / self.ensembles:.0%}",
            f"{self.known} of {PILOTS}",
            *theory,
        )
        return "| " + " | ".join(cells) + " |"


HEAD = (
    "| network | training | data | group | epochs | measure | covered | | at most upper | members known "
    "| theory covers | theory plans |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def rows(setting: Setting, outputs: np.ndarray, draws: int = DRAWS) -> list[Row]:
    """One row a time and measure, from the outputs (epochs, networks, n, |G|, K) of a pool."""
    return [_row(setting, at, outputs[at].astype(float), draws) for at in range(len(setting.epochs))]


def _row(setting: Setting, at: int, outputs: np.ndarray, draws: int) -> Row:
    name, over_inputs = setting.measures[at]
    kind, group, data = MEASURES[name], setting.action.group, setting.data
    truth = data.new_y.reshape(len(data.new), -1).astype(float) if kind.needs_error else None
    measures = OrbitMeasures(group.identity, setting.output_action, truth)
    violations = lambda law: Violations(measures, kind, law, group.order, over_inputs)
    draws_of = lambda networks, seed: PilotDraws(
        networks, group, setting.output_action, setting.augmented, truth, np.random.default_rng(seed)
    )
    pilots, others = outputs[: PILOT * PILOTS], outputs[PILOT * PILOTS :]
    # errors are relative to that of infinitely many members, as the networks say that no plan has seen
    measured = _measured(violations(OrbitLaw(others.mean(axis=0), others - others.mean(axis=0))), others)
    target = violations(draws_of(outputs, 0).law(draws)).quantile(SIZES[-1], CONFIDENCE)
    wanted = Wanted(target, CONFIDENCE, 10**6)
    ensembles = covered = below = known = 0
    for p in range(PILOTS):
        of_pilot = draws_of(pilots[p * PILOT : (p + 1) * PILOT], p)
        plan = violations(of_pilot.law(draws))
        replicates = map(violations, of_pilot.replicates(draws))
        low, high = wanted.of_pilot(plan, wanted.members(plan), replicates, PILOT)
        known += (low or 1) <= SIZES[-1] <= (high or 10**6)
        for size, values in measured.items():
            point = plan.point(size, CONFIDENCE)
            ensembles += len(values)
            covered += int(((point.lower <= values) & (values <= point.upper)).sum())
            below += int((values <= point.upper).sum())
    theory = setting.theory(float(setting.epochs[at]), setting.learning_rate)
    if theory is None:
        return Row(setting, at, ensembles, covered, below, known, None, None)
    theory = getattr(theory, "ensemble_", theory)
    law = orbit_law(theory, setting.action, data.new, draws=draws, key=0, time=float(setting.epochs[at]))
    wide = violations(law)
    points = {size: wide.point(size, CONFIDENCE) for size in measured}
    held = np.concatenate([(points[m].lower <= v) & (v <= points[m].upper) for m, v in measured.items()])
    return Row(setting, at, ensembles, covered, below, known, float(held.mean()), wanted.members(wide))


def _measured(pool: Violations, outputs: np.ndarray) -> dict[int, np.ndarray]:
    """v of disjoint ensembles of every size."""
    found = {}
    for size in SIZES:
        count = len(outputs) // size
        means = outputs[: count * size].reshape(count, size, *outputs.shape[1:]).mean(axis=1)
        found[size] = pool.of_outputs(means)
    return found


def main(folder: Path | None = None) -> None:
    """Six minutes on one core; `folder` keeps the pools' outputs."""
    begin, found = time.perf_counter(), []
    print(HEAD)
    for setting in SETTINGS:
        outputs = setting.pool(PILOT * PILOTS + ENSEMBLES, folder)
        for row in rows(setting, outputs):
            found.append(row)
            print(row, flush=True)
    ensembles = sum(row.ensembles for row in found)
    covered, below = (sum(getattr(row, name) for row in found) / ensembles for name in ("covered", "below"))
    known = sum(row.known for row in found)
    print(f"{known} of {PILOTS * len(found)} intervals of the number of members hold it")
    least = min(row.covered / row.ensembles for row in found)
    print(
        f"{len(found)} settings: {covered:.1%} of {ensembles:,} covered, at least {least:.0%} in each; "
        f"{below:.1%} at most upper"
    )
    compared = [row for row in found if row.theory_covered is not None]
    near = sum(
        row.theory_members is not None and SIZES[-1] / 2 <= row.theory_members <= 2 * SIZES[-1] for row in compared
    )
    held = float(np.mean([row.theory_covered for row in compared]))
    print(f"theory in {len(compared)}: {held:.0%} covered; {near} plans of members within a factor of 2")
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
