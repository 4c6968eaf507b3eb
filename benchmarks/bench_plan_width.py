"""Plans at the net's own widths, `width="net"`, beside the members that trained ensembles need, and beside pilots.

For MLPs of two layers on digits and Ising energies, of every width and at two times, a pool of networks is trained.
40 members bring the orbit std over the error to a target in 95 % of ensembles, as the whole pool says. In the table is
how many three sorts of plans say: of 64 networks that are followed in place of trained ones, of pilots of 20 networks
of the pool (three of them; of the widest nets they are the pool), and of infinite width. "near": within 25 %. Seconds
are wall time, compilation included: of a pilot's training to the later time, and of following to the time of the row.
The picture of docs/guide/finite-width.md is drawn of the table.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.plan_settings import PILOT, Setting, mlp
from equitangents import actions
from equitangents.ensembles.orbits.law import OrbitLaw, orbit_batch, orbit_law
from equitangents.ensembles.orbits.statistics import OrbitMeasures
from equitangents.planning.net_width import NETWORKS, follow
from equitangents.planning.pilot_law import PilotDraws
from equitangents.planning.violations import MEASURES, Violations
from equitangents.planning.wanted import Wanted
from equitangents.report import figures, palette

OUT = Path(__file__).resolve().parent.parent / "docs" / "guide" / "finite-width.svg"
POOLS = {16: 240, 32: 240, 64: 240, 128: 180, 256: 120, 512: 60}
EPOCHS = (20, 200)
MEMBERS, CONFIDENCE, DRAWS, PILOTS, NEAR = 40, 0.95, 2000, 3, 0.25
_C4 = actions.image_rotations(4)
_MEASURE = ("spread_over_error", "mean")


def settings() -> list[Setting]:
    """One a task and width."""
    return [
        Setting(f"MLP, 2 layers of {width}", mlp(width, 1, 2), data, "C4", _C4, EPOCHS, (_MEASURE, _MEASURE), rate=0.25)
        for data in ("parity", "ising")
        for width in POOLS
    ]


def plans(setting: Setting, at: int, outputs: np.ndarray) -> tuple[int | None, list[int | None], int | None, float]:
    """Members by followed networks, by each pilot, and by infinite width, where MEMBERS are needed; and seconds."""
    group, batch, epochs = _C4.group, orbit_batch(_C4, setting.data.new), float(setting.epochs[at])
    truth = setting.data.new_y.reshape(-1, 1)
    kind, over_inputs = MEASURES[_MEASURE[0]], _MEASURE[1]
    violations: Callable[[OrbitLaw], Violations] = lambda law: Violations(
        OrbitMeasures(group.identity, None, truth), kind, law, group.order, over_inputs
    )
    drawn = lambda f, seed: violations(PilotDraws(f, group, None, True, truth, np.random.default_rng(seed)).law(DRAWS))
    target = drawn(outputs, 0).quantile(MEMBERS, CONFIDENCE)
    wanted = Wanted(target, CONFIDENCE, 10**6)
    theory = setting.theory(epochs, setting.learning_rate)
    begin = time.perf_counter()
    net = follow(theory, epochs, NETWORKS, 11, batch)
    followed, _ = net.controlled(net.predict_members(batch).reshape(NETWORKS, *outputs.shape[1:]), batch)
    seconds = time.perf_counter() - begin
    pilots = [wanted.members(drawn(outputs[p * PILOT : (p + 1) * PILOT], p + 1)) for p in range(PILOTS)]
    wide = wanted.members(violations(orbit_law(theory, _C4, setting.data.new, draws=DRAWS, key=0, time=epochs)))
    return wanted.members(drawn(followed, 0)), pilots, wide, seconds


def is_near(members: int | None) -> bool:
    """Whether a plan is within 25 % of what is needed."""
    return members is not None and abs(members - MEMBERS) <= NEAR * MEMBERS


class Row(NamedTuple):
    """Members by each sort of plan; None: no number of them."""

    data: str
    width: int
    epochs: int
    followed: int | None
    pilots: Sequence[int | None]
    wide: int | None


def draw(rows: Sequence[Row]) -> None:
    """One panel a time: members that are planned against width, by data, and the band of what is near.

    Plans without a number are left out.
    """
    looks = {"wide": ("infinite width", palette.VERMILLION, "o"), "followed": ("followed networks", palette.BLUE, "s")}
    with figures.canvas(8.6, 3.4) as figure:
        panels = figure.subplots(1, len(EPOCHS), sharey=True)
        for axes, epochs in zip(panels, EPOCHS, strict=True):
            axes.axhspan((1 - NEAR) * MEMBERS, (1 + NEAR) * MEMBERS, color=palette.GRID.light)
            for data, line in zip(dict.fromkeys(row.data for row in rows), ("-", "--"), strict=True):
                of = [row for row in rows if (row.data, row.epochs) == (data, epochs)]
                dots = [(row.width, plan) for row in of for plan in row.pilots if plan is not None]
                axes.plot(*zip(*dots, strict=True), ".", ms=3, color=palette.MEMBER.light, label="pilots of 20")
                for name, (label, colour, marker) in looks.items():
                    told = [(row.width, getattr(row, name)) for row in of if getattr(row, name) is not None]
                    look = {"marker": marker, "ms": 3.5, "color": colour.light}
                    axes.plot(*zip(*told, strict=True), line, label=f"{label}, {data}", **look)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
            axes.set_xticks(list(POOLS))
            axes.set_yticks([10, 20, 40, 80])
            figures.plain_log(axes)
            axes.set_title(f"After {epochs} epochs")
            axes.set_xlabel("width")
        panels[0].set_ylabel(f"members planned, {MEMBERS} needed")
        handles = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=3, handlelength=4)
        figure.savefig(OUT, metadata={"Date": None})


def main() -> None:
    """Print the table, and how many plans are near; draw it."""
    begin = time.perf_counter()
    print(
        f"| data | width | epochs | followed (needed: {MEMBERS}) | pilots | infinite width | pilot, s | followed, s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    near = np.zeros(3, int)
    rows: list[Row] = []
    for setting, width in zip(settings(), 2 * list(POOLS), strict=True):
        started = time.perf_counter()
        pool = setting.pool(POOLS[width])
        pilot_seconds = (time.perf_counter() - started) * PILOT / POOLS[width]
        for at, epochs in enumerate(EPOCHS):
            followed, pilots, wide, seconds = plans(setting, at, pool[at])
            near += (is_near(followed), sum(map(is_near, pilots)), is_near(wide))
            rows.append(Row(setting.data.name, width, epochs, followed, pilots, wide))
            row = (setting.data.name, width, epochs, followed, ", ".join(map(str, pilots)), wide)
            print(f"| {' | '.join(map(str, row))} | {pilot_seconds:.1f} | {seconds:.1f} |", flush=True)
    draw(rows)
    print(
        f"near in {len(rows)}: followed {near[0]}, infinite width {near[2]}; {near[1]} of {PILOTS * len(rows)} pilots; "
        f"{time.perf_counter() - begin:.0f} s"
    )


if __name__ == "__main__":
    main()
