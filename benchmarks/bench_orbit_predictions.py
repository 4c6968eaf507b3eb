"""Predicted orbit spread and same predictions of M networks beside 50 trained ensembles, for Ising spins and digits.

Members of width 1,024 under full-batch gradient descent, full C4 augmentation, M = 1, 5, 25 at three times. A pool of
1,250 members gives 50 disjoint ensembles of 25; with a smaller pool (the default) ensembles that do not fit are
resampled from it, and marked with *. "in range": the prediction lies between the 2.5 % and 97.5 % quantiles of the 50
ensembles; "in interval": within the 95 % interval of their median (relative std) or mean (same predictions).
"""

import time
from dataclasses import dataclass

import numpy as np
import scipy.stats

import equitangents as et
from equitangents.ensembles.orbit_covariance import orbit_batch
from equitangents.ensembles.orbit_statistics import OVER_INPUTS, OrbitMeasures, quantile_interval
from equitangents.studies.ising_lattice import energy, hot_spins

SIZES, ENSEMBLES, WIDTH, LEVEL = (1, 5, 25), 50, 1024, 0.95
ROT = et.actions.image_rotations(4)


@dataclass
class Task:
    """Training data, inputs on whose orbits ensembles are measured, steps, and how relative stds are summarised."""

    name: str
    x: np.ndarray
    y: np.ndarray
    new: np.ndarray
    steps: tuple[int, ...]
    over_inputs: str

    def network(self, width):
        return et.nn.Sequential(
            et.nn.Flatten(), et.nn.Dense(width, W_std=2**0.5, b_std=0.1), et.nn.Relu(), et.nn.Dense(self.y.shape[1])
        )


def ising():
    """Energies of 6×6 lattices, in units of their standard deviation; other spins drawn alike."""
    rng = np.random.default_rng(0)
    spins = hot_spins(56, 6, rng)
    y = energy(spins, 1.0) / (2**0.5 * 6)
    x = spins[..., None]
    # energies are as often negative as positive: the median over inputs, as their mean is that of the few near zero
    return Task("Ising", x[:24], y[:24, None], x[24:], (3, 20, 60), "median")


def digits():
    """Ten classes of 8×8 images, one-hot minus 1/10."""
    data = et.data.digits().subset(train=60, test=40)
    y = np.eye(10)[data.train_y] - 0.1
    return Task("digits", data.train_x.astype(float), y, data.test_x.astype(float), (2, 10, 30), "mean")


def compare(task, members, width=WIDTH, draws=2000):
    """One row a time, M and measure: prediction, range and interval of ENSEMBLES trained ensembles."""
    trial = et.InfiniteEnsemble(task.network(1), ROT, time=0.0, dynamics="discrete").fit(task.x, task.y)
    rate = float(trial.max_learning_rate_) / 2
    limit = et.InfiniteEnsemble(task.network(1), ROT, time=0.0, learning_rate=rate, dynamics="discrete")
    limit.fit(task.x, task.y)
    begin = time.perf_counter()
    model = et.DeepEnsemble(
        task.network(width), members, ROT, optimizer="gd", learning_rate=rate, epochs=task.steps[-1], seed=1
    )
    model.fit(task.x, task.y, record={"orbits": orbit_batch(ROT, task.new)}, record_at=task.steps)
    print(f"{task.name}: {members} members of width {width} trained in {time.perf_counter() - begin:.0f} s", flush=True)
    outputs = model.recorded_["orbits"].astype(float).reshape(len(task.steps), members, len(task.new), 4, -1)
    measures = OrbitMeasures(ROT.group.identity)
    rows = []
    for at, step in enumerate(task.steps):
        predicted = limit.orbit_statistics(ROT, task.new, SIZES, float(step), draws=draws, over_inputs=task.over_inputs)
        for j, m in enumerate(SIZES):
            ensembles, resampled = drawn(outputs[at], m)
            for name, statistic in (("rsd", predicted.rsd), ("osp", predicted.osp)):
                values = OVER_INPUTS[task.over_inputs](measures.of(name, ensembles), axis=1)
                tail = (1 - LEVEL) / 2
                low, high = np.quantile(values, [tail, 1 - tail])
                centre = np.median(values) if name == "rsd" else values.mean()
                rows.append(
                    (step, m, resampled, name, statistic.expected[j], centre, low, high, *interval(name, values))
                )
    return rows


def drawn(outputs, size):
    """(means of ENSEMBLES ensembles of `size` members, whether members were used more than once)."""
    members = len(outputs)
    if ENSEMBLES * size <= members:
        index = np.arange(ENSEMBLES * size).reshape(ENSEMBLES, size)
        return outputs[index].mean(axis=1), False
    rng = np.random.default_rng(size)
    index = np.stack([rng.choice(members, size, replace=False) for _ in range(ENSEMBLES)])
    return outputs[index].mean(axis=1), True


def interval(name, values):
    """Where the median or mean of such ensembles lies, at LEVEL."""
    if name == "rsd":
        return quantile_interval(values, 0.5, LEVEL)
    width = scipy.stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return values.mean() - width, values.mean() + width


def main(full=False):
    """The default takes a minute or two, `full` about ten on two cores."""
    for task in (ising(), digits()):
        rows = compare(task, 1250 if full else 150)
        print(
            f"{'step':>5} {'M':>4}  {'':4} {'predicted':>10} {'measured':>10}  {'95 % of ensembles':^20} {'interval':^20}"
        )
        inside = within = 0
        for step, m, resampled, name, predicted, centre, low, high, a, b in rows:
            inside += low <= predicted <= high
            within += a <= predicted <= b
            mark = "*" if resampled else " "
            print(
                f"{step:>5} {m:>3}{mark}  {name:4} {predicted:>10.4g} {centre:>10.4g}  [{low:.4g}, {high:.4g}]".ljust(
                    62
                )
                + f"[{a:.4g}, {b:.4g}]"
                + ("" if low <= predicted <= high else "  out of range")
            )
        print(f"{inside} of {len(rows)} predictions in range, {within} in the interval of the centre", flush=True)


if __name__ == "__main__":
    main()
