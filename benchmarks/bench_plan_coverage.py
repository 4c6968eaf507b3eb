"""Plans from pilots of 20 networks beside trained ensembles: how many of these lie in the interval of 90 %.

For every setting (network, width, data, group, time, measure; `plan_settings`) a pool of networks is trained. Three
pilots are taken of it, and from the others ensembles of 2, 6 and 12 networks, each network in one ensemble of a size.
"covered": of the ensembles, how many lie between `lower` and `upper` of the plans; "at most upper": how many meet the
target for which the plan's confidence of 95 % would recommend their size. "theory" counts the same interval of
infinitely wide networks, where training is gradient descent on the mean square.
"""

from pathlib import Path

import numpy as np

from benchmarks.plan_settings import ENSEMBLES, PILOT, PILOTS, SETTINGS, Setting
from equitangents.ensembles.orbits.draws import orbit_law
from equitangents.ensembles.orbits.statistics import OrbitMeasures
from equitangents.planning.pilot_law import pilot_law
from equitangents.planning.violations import MEASURES, Violations

SIZES, CONFIDENCE, DRAWS = (2, 6, 12), 0.95, 1000


def measured(violations: Violations, outputs: np.ndarray, size: int) -> np.ndarray:
    """v of disjoint ensembles of `size` of the networks with these outputs."""
    count = len(outputs) // size
    means = outputs[: count * size].reshape(count, size, *outputs.shape[1:]).mean(axis=1)
    return violations._relative(violations.measures.of(violations.kind.measure, means))


def counted(setting: Setting, at: int, outputs: np.ndarray, draws: int = DRAWS) -> dict[str, float]:
    """How many trained ensembles lie in the intervals of plans from pilots, and of theory."""
    name, over_inputs = setting.measures[at]
    kind, action = MEASURES[name], setting.action
    data = setting.data
    truth = data.new_y.reshape(len(data.new), -1).astype(float) if kind.needs_error else None
    measures = OrbitMeasures(action.group.identity, setting.output_action, truth)
    pilots, others = outputs[: PILOT * PILOTS], outputs[PILOT * PILOTS :]
    # errors are relative to that of infinitely many members: the pool's, which no plan has seen
    pool = Violations(measures, kind, _known(others), action.group.order, over_inputs)
    found = {"ensembles": 0, "covered": 0, "below": 0, "theory": np.nan}
    truths = {size: measured(pool, others, size) for size in SIZES}
    for p in range(PILOTS):
        law = pilot_law(
            pilots[p * PILOT : (p + 1) * PILOT],
            action.group,
            setting.output_action,
            equivariant=setting.augmented,
            about=truth,
            draws=draws,
            rng=np.random.default_rng(p),
        )
        plan = Violations(measures, kind, law, action.group.order, over_inputs)
        for size in SIZES:
            point, values = plan.point(size, CONFIDENCE), truths[size]
            found["ensembles"] += len(values)
            found["covered"] += int(((point.lower <= values) & (values <= point.upper)).sum())
            found["below"] += int((values <= point.upper).sum())
    return found


def _known(outputs: np.ndarray):
    from equitangents.ensembles.orbits.draws import OrbitLaw

    return OrbitLaw(outputs.mean(axis=0), outputs - outputs.mean(axis=0))
