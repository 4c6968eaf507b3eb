"""Training 25 CNNs (16 channels, three 3×3 convolutions, batch 32): all together here, one after another in PyTorch.

Both sides train 25 members on the same 640 images, 5 epochs of 20 steps, in turns, and the medians of the turns are
compared. Compiling is left out on ours (one call before) as starting is on PyTorch's; it is printed beside. PyTorch
runs in a process of its own, with its default threads and with one, and the faster of the two counts. Without it in
this interpreter, EQUITANGENTS_TORCH_PYTHON names one that has it.
"""

import os
import statistics
import subprocess
import sys
import time

import numpy as np

MEMBERS, SAMPLES, BATCH, EPOCHS, TURNS = 25, 640, 32, 5, 3
STEPS = MEMBERS * EPOCHS * SAMPLES // BATCH

TORCH = """
import sys, time
import torch
from torch import nn

members, samples, batch, epochs = map(int, sys.argv[1:])
default_threads = torch.get_num_threads()


def network(size):
    layers, channels = [], 1
    for _ in range(3):
        layers += [nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU()]
        channels = 16
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * size * size, 10))


def train(size):
    x, y = torch.randn(samples, 1, size, size), torch.randn(samples, 10)
    start = time.perf_counter()
    for member in range(members):
        torch.manual_seed(member)
        net = network(size)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(epochs):
            order = torch.randperm(samples)
            for rows in order.split(batch):
                optimizer.zero_grad()
                (0.5 * ((net(x[rows]) - y[rows]) ** 2).sum(1).mean()).backward()
                optimizer.step()
    return time.perf_counter() - start


print(torch.__version__, default_threads, flush=True)
for line in sys.stdin:
    size, threads = map(int, line.split())
    torch.set_num_threads(threads or default_threads)
    print(train(size), flush=True)
"""


class Torch:
    """PyTorch in another process: `seconds(size, threads)` trains all members there."""

    def __init__(self) -> None:
        python = os.environ.get("EQUITANGENTS_TORCH_PYTHON", sys.executable)
        command = [python, "-c", TORCH, *map(str, (MEMBERS, SAMPLES, BATCH, EPOCHS))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        first = self._stdout.readline().split()
        if not first:
            raise ModuleNotFoundError(python)
        self.version, self.threads = first[0], first[1]

    def seconds(self, size: int, threads: int) -> float:
        self._stdin.write(f"{size} {threads}\n")
        self._stdin.flush()
        return float(self._stdout.readline())


class Ours:
    """DeepEnsemble on images of one size."""

    def __init__(self, size: int) -> None:
        import equitangents as et

        nn = et.nn
        convolutions = [nn.Conv(16, (3, 3), padding="zero", b_std=0.1), nn.Relu()] * 3
        net = nn.Sequential(*convolutions, nn.Flatten(), nn.Dense(10, b_std=0.1))
        rng = np.random.default_rng(0)
        self._x = rng.standard_normal((SAMPLES, size, size, 1)).astype(np.float32)
        self._y = rng.standard_normal((SAMPLES, 10)).astype(np.float32)
        self._model = et.DeepEnsemble(net, MEMBERS, learning_rate=0.01, batch_size=BATCH, epochs=EPOCHS)

    def seconds(self) -> float:
        start = time.perf_counter()
        self._model.fit(self._x, self._y)
        return time.perf_counter() - start


def main() -> None:
    """Print medians, spreads and the ratio, at 8×8 and 16×16."""
    try:
        peer = Torch()
        print(f"PyTorch {peer.version}, {peer.threads} threads or 1; {os.cpu_count()} cores")
    except (ModuleNotFoundError, OSError) as error:
        peer = None
        print(
            f"no PyTorch in {error}: `make bench` installs it, or pip install torch, or set EQUITANGENTS_TORCH_PYTHON"
        )
    print(f"{'images':<9}{'trained by':<34}{'median s':>9}{'min s':>8}{'max s':>8}{'ms a step':>11}")
    for size in (8, 16):
        ours = Ours(size)
        first = ours.seconds()
        turns: dict[str, list[float]] = {}
        for _ in range(TURNS):
            turns.setdefault("equitangents", []).append(ours.seconds())
            if peer is not None:
                turns.setdefault(f"PyTorch, {peer.threads} threads", []).append(peer.seconds(size, 0))
                turns.setdefault("PyTorch, 1 thread", []).append(peer.seconds(size, 1))
        for name, seconds in turns.items():
            median = statistics.median(seconds)
            numbers = f"{median:>9.2f}{min(seconds):>8.2f}{max(seconds):>8.2f}{median / STEPS * 1e3:>11.3f}"
            print(f"{size}×{size:<7}{name:<34}{numbers}")
        medians = {name: statistics.median(seconds) for name, seconds in turns.items()}
        mine = medians.pop("equitangents")
        print(f"{'':<9}compiling took {first - mine:.1f} s more", flush=True)
        if medians:
            print(
                f"{'':<9}one after another in PyTorch / together here: {min(medians.values()) / mine:.2f}", flush=True
            )


if __name__ == "__main__":
    main()
