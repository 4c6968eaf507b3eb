"""Audits: their cost beside the model's own, and what they say of networks of other libraries.

Cost: 10,000 images of 32×32, C16, a small CNN in PyTorch. The model's own time is that of evaluating the same images
160,000 times, in batches of the same size; both run here, one after the other, on one thread. Then a ResNet with
random weights, its ONNX export, a random forest; and, in an interpreter of their own, networks of escnn and e3nn:
EQUITANGENTS_PEERS_PYTHON names one that has them, JAX, and this package's other dependencies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

IMAGES, BATCH, TURNS = 10_000, 256, 16


def small_cnn(nn: Any) -> Any:
    """Two convolutions, pooling, ten classes: 6 million multiplications an image."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


def resnet(torch: Any) -> Any:
    """A residual network for 32×32 images: three stages of two blocks, batch norms, stride 2 between stages."""
    nn = torch.nn
    base: Any = nn.Module

    class Block(base):
        def __init__(self, a: int, b: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
            self.second = nn.Sequential(nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b))
            self.skip = nn.Identity() if a == b else nn.Conv2d(a, b, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.second(self.first(x)) + self.skip(x))

    stages = [
        Block(a, b, s) for a, b, s in ((16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1))
    ]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    )


def cost(torch: Any, images: int) -> None:
    """The audit's time over the model's own."""
    from equitangents.audit import audit

    torch.manual_seed(0)
    model = small_cnn(torch.nn).eval()
    x = np.random.default_rng(0).random((images, 3, 32, 32), dtype=np.float32)
    audit(model, "C16", x[:32], layout="channels_first", off_data=False)  # imports and caches
    clocks = [time.process_time()]
    began = time.perf_counter()
    with torch.inference_mode():
        for _ in range(TURNS):
            for i in range(0, images, BATCH):
                model(torch.from_numpy(x[i : i + BATCH]))
    own = time.perf_counter() - began
    clocks.append(time.process_time())
    began = time.perf_counter()
    report = audit(model, "C16", x, layout="channels_first", batch_size=BATCH)
    whole = time.perf_counter() - began
    clocks.append(time.process_time())
    busy = np.diff(clocks)
    print(f"{images:,} images, C{TURNS}: the model alone {own:.1f} s, the audit {whole:.1f} s, ratio {whole / own:.2f}")
    print(f"  processor seconds: {busy[0]:.1f} and {busy[1]:.1f}, ratio {busy[1] / busy[0]:.2f}")
    print(f"  (in the audit, the model on orbits: {report.timing.model_seconds:.1f} s) {report.sentence}")


def models(torch: Any) -> None:
    """A ResNet, its ONNX export, a forest."""
    from sklearn.ensemble import RandomForestClassifier

    from equitangents.audit import audit

    torch.manual_seed(0)
    network = resnet(torch).eval()
    rng = np.random.default_rng(0)
    x = rng.random((100, 3, 32, 32), dtype=np.float32)
    settings: dict[str, Any] = {"layout": "channels_first", "off_data": False}
    for size, images in ((32, x), (33, np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)), mode="edge"))):
        print(f"ResNet, {size}×{size}:", audit(network, "C4", images, **settings).summary())
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "resnet.onnx"
        batch = ({0: torch.export.Dim("batch")},)
        torch.onnx.export(network, (torch.from_numpy(x[:2]),), dynamic_shapes=batch, dynamo=True, verbose=False).save(
            path
        )
        print("its ONNX export:", audit(str(path), "C4", x, **settings).sentence)
    labels = rng.integers(0, 10, 100)
    forest = RandomForestClassifier(50, random_state=0).fit(x.reshape(100, -1), labels)
    print("random forest:", audit(forest, "C4", x, y=labels, **settings).summary())


def remote(python: str, name: str) -> Any:
    """A network of audit_peers.py, in its own interpreter."""
    from equitangents.audit import Command

    return Command([python, "-W", "ignore", str(Path(__file__).with_name("audit_peers.py")), name], timeout=600)


def blobs(n: int, size: int) -> np.ndarray:
    """Smooth images that vanish before the border."""
    rng = np.random.default_rng(0)
    i, j = np.indices((size, size)) - (size - 1) / 2
    a, b = rng.uniform(-size / 6, size / 6, (2, n, 4, 1, 1))
    width = rng.uniform(0.07, 0.1, (n, 4, 1, 1)) * size
    images = (rng.normal(size=(n, 4, 1, 1)) * np.exp(-((i - a) ** 2 + (j - b) ** 2) / (2 * width**2))).sum(1)
    return images[:, None].astype(np.float32)


def split(f: Any) -> Any:
    """Two scalars and a vector as two outputs."""

    def outputs(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y = f(x)
        return y[:, :2], y[:, 2:]

    return outputs


def peers() -> None:
    """Networks of escnn and e3nn, in their own interpreter."""
    from equitangents.audit import audit

    python = os.environ.get("EQUITANGENTS_PEERS_PYTHON", sys.executable)
    if subprocess.run(
        [python, "-W", "ignore", "-c", "import escnn, e3nn"], capture_output=True, check=False
    ).returncode:
        print(f"escnn and e3nn: not in {python}; EQUITANGENTS_PEERS_PYTHON names an interpreter that has them")
        return
    clouds = np.random.default_rng(1).normal(size=(32, 6, 3)).astype(np.float32)
    settings: dict[str, Any] = {"off_data": False, "data_test": None}
    plane: dict[str, Any] = {"layout": "channels_first", **settings}
    for name, network, run in (
        ("C8 network, 29×29", "escnn", lambda f: audit(f, "C4", blobs(48, 29), **plane)),
        ("C8 network, 29×29", "escnn", lambda f: audit(f, "C8", blobs(48, 29), **plane)),
        ("max pooling, 29×29", "escnn-max", lambda f: audit(f, "C4", blobs(48, 29), **plane)),
        ("max pooling, 28×28", "escnn-max", lambda f: audit(f, "C4", blobs(48, 28), **plane)),
        ("scalars and vector", "e3nn", lambda f: audit(split(f), "O3", clouds, (None, "vectors"), **settings)),
        ("points", "e3nn", lambda f: audit(f, "S_n", clouds, **settings)),
    ):  # fmt: skip
        print(f"{network}, {name}: {run(remote(python, network)).sentence}", flush=True)


def main(full: bool = False) -> None:
    """All of it; the cost on 2,000 images unless `full`."""
    import torch

    torch.set_num_threads(1)
    cost(torch, IMAGES if full else IMAGES // 5)
    models(torch)
    peers()
