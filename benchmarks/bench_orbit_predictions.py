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
from equitangents.ensembles.orbits.law import orbit_batch
from equitangents.ensembles.orbits.statistics import OVER_INPUTS, OrbitMeasures, quantile_interval
from equitangents_studies.common.ising_lattice import energy, hot_spins

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


@dataclass
class Row:
    """One measure of ENSEMBLES trained ensembles of `size` members at one time, beside what was predicted."""

    step: int
    size: int
    resampled: bool
    measure: str
    predicted: float
    values: np.ndarray

    @property
    def centre(self):
        return np.median(self.values) if self.measure == "rsd" else self.values.mean()

    @property
    def range(self):
        tail = (1 - LEVEL) / 2
        return tuple(np.quantile(self.values, [tail, 1 - tail]))

    @property
    def interval(self):
        if self.measure == "rsd":
            return quantile_interval(self.values, 0.5, LEVEL)
        n = len(self.values)
        width = scipy.stats.t.ppf((1 + LEVEL) / 2, n - 1) * self.values.std(ddof=1) / n**0.5
        return self.centre - width, self.centre + width

    def holds(self, ends):
        return ends[0] <= self.predicted <= ends[1]

    def __str__(self):
        mark = "*" if self.resampled else " "
        ends = "  ".join(f"{a:>9.4g} to {b:<9.4g}" for a, b in (self.range, self.interval))
        beyond = "" if self.holds(self.range) else "  out of range"
        head = f"{self.step:>5} {self.size:>3}{mark}  {self.measure:4}"
        return f"{head} {self.predicted:>10.4g} {self.centre:>10.4g}  {ends}{beyond}"


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
        summaries = {"rsd": task.over_inputs, "osp": "mean"}
        predicted = {
            name: limit.orbit_statistics(ROT, task.new, SIZES, float(step), draws=draws, over_inputs=how)
            for name, how in summaries.items()
        }
        for j, m in enumerate(SIZES):
            ensembles, resampled = drawn(outputs[at], m)
            for name, how in summaries.items():
                values = OVER_INPUTS[how](measures.of(name, ensembles), axis=1)
                expected = getattr(predicted[name], name).expected[j]
                rows.append(Row(step, m, resampled, name, expected, values))
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


def main(full=False):
    """The default takes a minute or two, `full` about ten on two cores."""
    for task in (ising(), digits()):
        rows = compare(task, 1250 if full else 150)
        print(" step   M        predicted   measured    95 % of ensembles       95 % of the centre")
        for row in rows:
            print(row)
        inside = sum(row.holds(row.range) for row in rows)
        within = sum(row.holds(row.interval) for row in rows)
        print(f"{inside} of {len(rows)} predictions in range, {within} in the interval of the centre", flush=True)


if __name__ == "__main__":
    main()
