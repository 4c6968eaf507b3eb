"""Training 25 CNNs (16 channels, three 3×3 convolutions, batch 32): all together here, and in PyTorch.

Both sides train 25 members on the same 640 images, 5 epochs of 20 steps, in turns, and the medians of the turns are
compared. PyTorch trains them one after another, as they are written and by `torch.compile`, or all together by
`torch.func` and vmap. Compiling is left out on all sides (one call before); ours is printed beside. PyTorch runs in a
process of its own, with its default threads and with one, and the faster of the two counts. Without it in this
interpreter, EQUITANGENTS_TORCH_PYTHON names one that has it. The limit is the time that the multiplications of the
convolutions and of the readout would take at the rate of a large matrix product in NumPy.
"""

import os
import statistics
import subprocess
import sys
import time

import numpy as np

MEMBERS, SAMPLES, BATCH, EPOCHS, TURNS = 25, 640, 32, 5, 3
SIZES = (8, 16, 28)
WAYS = {"one": "one after another", "compile": "torch.compile", "func": "torch.func, vmap"}
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


def loss_of(y, target):
    return 0.5 * ((y - target) ** 2).sum(1).mean()


def one_after_another(x, y, size, compiled):
    for member in range(members):
        torch.manual_seed(member)
        net = network(size)
        run = torch.compile(net, dynamic=False) if compiled else net
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(epochs):
            for rows in torch.randperm(samples).split(batch):
                optimizer.zero_grad()
                loss_of(run(x[rows]), y[rows]).backward()
                optimizer.step()


def together(x, y, size):
    nets = [network(size) for _ in range(members)]
    params, buffers = torch.func.stack_module_state(nets)
    params = {k: v.detach() for k, v in params.items()}
    loss = lambda p, x, y: loss_of(torch.func.functional_call(nets[0], p, (x,)), y)
    gradient = torch.func.vmap(torch.func.grad(loss))
    for _ in range(epochs):
        orders = torch.stack([torch.randperm(samples) for _ in range(members)])
        for rows in orders.split(batch, dim=1):
            step = gradient(params, x[rows], y[rows])
            params = {k: v - 0.01 * step[k] for k, v in params.items()}


def train(way, size):
    x, y = torch.randn(samples, 1, size, size), torch.randn(samples, 10)
    start = time.perf_counter()
    if way == "func":
        together(x, y, size)
    else:
        one_after_another(x, y, size, way == "compile")
    return time.perf_counter() - start


print(torch.__version__, default_threads, flush=True)
for line in sys.stdin:
    way, size, threads = line.split()
    torch.set_num_threads(int(threads) or default_threads)
    try:
        print(train(way, int(size)), flush=True)
    except Exception as error:
        print("nan", " ".join(str(error).split())[:200], flush=True)
"""


class Torch:
    """PyTorch in another process: `seconds(way, size, threads)` trains all members there."""

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

    def seconds(self, way: str, size: int, threads: int) -> float:
        """NaN, with a line that says why, where PyTorch cannot."""
        self._stdin.write(f"{way} {size} {threads}\n")
        self._stdin.flush()
        found, _, why = self._stdout.readline().partition(" ")
        if why:
            print(f"PyTorch, {WAYS[way]}: {why.strip()}")
        return float(found)


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


def multiplications(size: int) -> float:
    """Of one step of all members: products forth, and back to weights and, but for the first layer, to inputs."""
    places = size * size
    convolutions = 2 * places * 9 * 16 + 2 * 3 * places * 9 * 16 * 16
    return MEMBERS * BATCH * (convolutions + 3 * 16 * places * 10)


def rate() -> float:
    """Multiplications with an addition a second in a large matrix product, in NumPy with its threads."""
    a = np.ones((2048, 2048), np.float32)
    a @ a
    seconds = []
    for _ in range(TURNS):
        start = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - start)
    return float(2048**3 / statistics.median(seconds))


def peer_or_none() -> Torch | None:
    """PyTorch, or None and a line that says how to get it."""
    try:
        peer = Torch()
    except (ModuleNotFoundError, OSError) as error:
        print(
            f"no PyTorch in {error}: `make bench` installs it, or pip install torch, or set EQUITANGENTS_TORCH_PYTHON"
        )
        return None
    print(f"PyTorch {peer.version}, {peer.threads} threads or 1; {os.cpu_count()} cores")
    return peer


def compare(size: int, peer: Torch | None) -> None:
    """Print medians, spreads and ratios for images of one size."""
    ours = Ours(size)
    first = ours.seconds()
    turns: dict[str, list[float]] = {"equitangents": []}
    for turn in range(TURNS):
        turns["equitangents"].append(ours.seconds())
        for way, name in WAYS.items() if peer is not None else ():
            for threads in (0, 1):
                assert peer is not None
                if way == "compile" and turn == 0:
                    peer.seconds(way, size, threads)
                label = f"PyTorch, {name}, {threads or peer.threads} thread{'' if threads == 1 else 's'}"
                turns.setdefault(label, []).append(peer.seconds(way, size, threads))
    steps = EPOCHS * SAMPLES // BATCH
    for name, seconds in turns.items():
        median = statistics.median(seconds)
        numbers = f"{median:>9.2f}{min(seconds):>8.2f}{max(seconds):>8.2f}{median / STEPS * 1e3:>11.3f}"
        print(f"{size}×{size:<7}{name:<44}{numbers}")
    mine = statistics.median(turns.pop("equitangents"))
    limit = steps * multiplications(size) / rate()
    print(f"{'':<9}{'arithmetic limit':<44}{limit:>9.2f}   ours takes {mine / limit:.1f} times that")
    print(f"{'':<9}compiling took {first - mine:.1f} s more", flush=True)
    for way in WAYS.values():
        medians = [statistics.median(v) for name, v in turns.items() if f", {way}, " in name]
        if medians and not np.isnan(medians).any():
            print(f"{'':<9}PyTorch, {way} / together here: {min(medians) / mine:.2f}", flush=True)


def main() -> None:
    """Print medians, spreads and ratios, at 8×8, 16×16 and 28×28."""
    peer = peer_or_none()
    print(f"{'images':<9}{'trained by':<44}{'median s':>9}{'min s':>8}{'max s':>8}{'ms a step':>11}")
    for size in SIZES:
        compare(size, peer)
