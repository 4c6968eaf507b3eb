"""Group convolutions against convolutions, S4 on its regular representation, and orbit averages of MLPs by FFT.

Times are processor time, of all threads together.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import equitangents as et
from benchmarks.peers import OUT
from equitangents import nn

WEIGHTS: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}


def median(run: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of processor time of a run, after one that warms up: other work on the machine changes them little."""
    run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def roto_translations(
    rotations: int, reflections: bool, side: int, layers: int, window: tuple[int, int]
) -> nn.Sequential:
    """Lift, group convolutions, group pool."""
    group = et.groups.wallpaper(rotations=rotations, reflections=reflections, shape=(side, side))
    hidden = [nn.Lift(group, 1, window=window, **WEIGHTS), nn.Relu()]
    hidden += [nn.GroupConv(1, window=window, **WEIGHTS), nn.Relu()] * (layers - 1)
    return nn.Sequential(*hidden, nn.GroupPool(), nn.Dense(1))


def group_table(full: bool) -> list[str]:
    """Seconds a pair of CNN, C4 and D4, and their ratios."""
    lines = ["| images | network | pairs/s | cost / CNN | limit | counted |", "|---|---|---:|---:|---:|---:|"]
    for side, layers, n in ((16, 3, 24), (32, 8, 8)) if full else ((16, 3, 24),):
        x, y = np.random.default_rng(0).standard_normal((2, n, side, side, 3)).astype(np.float32)
        cnn = nn.Sequential(*[nn.Conv(1, (3, 3), **WEIGHTS), nn.Relu()] * layers, nn.GlobalAvgPool(), nn.Dense(1))
        nets: dict[str, tuple[nn.Sequential, float | None]] = {
            "CNN-GAP": (cnn, 1.0),
            "C4 (p4), 3×3": (roto_translations(4, False, side, layers, (3, 3)), 4.3),
            "D4 (p4m), 3×3": (roto_translations(4, True, side, layers, (3, 3)), 8.6),
        }
        if full or side == 16:
            nets["C4 (p4), 2×2, field on cosets"] = (roto_translations(4, False, side, layers, (2, 2)), None)
        base = base_work = None
        for name, (net, limit) in nets.items():
            seconds = median(partial(net.kernel, x, y), 3) / n**2
            work = net.kernel_cost(x.shape[1:], 1, 1).element_layers
            base, base_work = base or seconds, base_work or work
            lines.append(
                f"| {side}×{side}, {layers} layers | {name} | {1 / seconds:,.0f} | {seconds / base:.2f} | "
                f"{'' if limit is None else f'{limit:g}'} | {work / base_work:.0f} |"
            )
    return lines


def symmetric_group_table() -> list[str]:
    """S4 on its regular representation, windows of a few elements and of all."""
    group = et.groups.symmetric(4)
    action = et.actions.permutations(group, group.table)
    x = np.random.default_rng(0).standard_normal((96, group.order, 3)).astype(np.float32)
    lines = ["| S4, regular representation | pairs/s | element-layers/s |", "|---|---:|---:|"]
    for name, window in (("3 elements", [0, 1, 2]), ("all 24", "full")):
        hidden = [nn.Lift(action, 1, window=window, **WEIGHTS), nn.Relu()]
        hidden += [nn.GroupConv(1, window=window, **WEIGHTS), nn.Relu()] * 2
        net = nn.Sequential(*hidden, nn.GroupPool(), nn.Dense(1))
        seconds = median(partial(net.kernel, x, x[::-1].copy()))
        work = net.kernel_cost(x.shape[1:], 96, 96).element_layers
        lines.append(f"| windows of {name} | {96**2 / seconds:,.0f} | {work / seconds:.2e} |")
    return lines


def orbit_table(full: bool) -> list[str]:
    """An MLP averaged over all translations, by FFT and term by term."""
    mlp = nn.Sequential(nn.Flatten(), *[nn.Dense(1, **WEIGHTS), nn.Relu()] * 3, nn.Dense(1))
    lines = [
        "| MLP over translations | N | by FFT | pairs/s | term by term | ratio |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for side, n in ((16, 200), (32, 400)) if full else ((16, 200), (32, 200)):
        x = np.random.default_rng(0).standard_normal((n, side, side, 3)).astype(np.float32)
        action = et.actions.translations((side, side))
        average = et.kernels.orbit_average(mlp, action)
        fast = median(partial(average.kernel, x), 3)
        moved = action(side + 1, x)
        slow = median(partial(mlp.kernel, x, moved), 3) * (side**2 + 1) / 2
        pairs = n * (n + 1) / 2
        lines.append(
            f"| {side}×{side}×3 | {n} | {fast:.2f} s | {pairs / fast:,.0f} | {slow:.1f} s | {slow / fast:.1f} |"
        )
    return lines


def main(full: bool = False) -> None:
    """Print and write the three tables."""
    OUT.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join("\n".join(lines) for lines in (group_table(full), symmetric_group_table(), orbit_table(full)))
    print(text)
    (OUT / "groups.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
