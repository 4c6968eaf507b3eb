"""Audits of large models: processor seconds and memory of an audit beside those of the forward passes that it needs.

ResNet-50 with random weights at 224×224, C4 and 24 angles, each in a process of its own: once the audit, once forward
passes alone in batches of the audit's size, of which 32 are timed and stand for as many as the audit counted. `--full`
takes 64 images and full effort, otherwise 12 and quick effort.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SIDE = 224
RATIO, MEMORY = 1.3, 2.0
_TIMED = 32


def resnet50(torch: Any) -> Any:
    """He et al. 2016, bottlenecks of 3, 4, 6 and 3, the stride in the 3×3 convolution."""
    nn = torch.nn
    base: Any = nn.Module

    class Bottleneck(base):
        def __init__(self, a: int, b: int, stride: int) -> None:
            super().__init__()
            parts = [(a, b, 1, 1), (b, b, 3, stride), (b, 4 * b, 1, 1)]
            self.layers = nn.ModuleList(
                nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o)) for i, o, k, s in parts
            )
            changes = stride != 1 or a != 4 * b
            skip = nn.Sequential(nn.Conv2d(a, 4 * b, 1, stride, bias=False), nn.BatchNorm2d(4 * b))
            self.skip = skip if changes else nn.Identity()
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            y = self.relu(self.layers[0](x))
            y = self.relu(self.layers[1](y))
            return self.relu(self.layers[2](y) + self.skip(x))

    blocks, a = [], 64
    for b, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(count):
            blocks.append(Bottleneck(a, b, stride if k == 0 else 1))
            a = 4 * b
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def worker(request: dict[str, Any]) -> dict[str, Any]:
    """One measurement: of the passes alone, or of the audit."""
    import torch

    from equitangents.audit import audit

    bare = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = resnet50(torch).eval()
    x = np.random.default_rng(0).random((request["images"], 3, SIDE, SIDE), dtype=np.float32)
    with torch.inference_mode():
        model(torch.from_numpy(x[:1]))
    began = time.process_time()
    if request["alone"]:
        with torch.inference_mode():
            for _ in range(_TIMED):
                model(torch.from_numpy(x[: request["batch"]]))
        found: dict[str, Any] = {}
    else:
        asked = {name: request[name] for name in ("effort", "elements")}
        report = audit(model, request["group"], x, layout="channels_first", **asked)
        t = report.timing
        found = {"evaluations": t.evaluations, "calls": t.batches, "parts": t.parts, "passes": t.passes,
                 "batch": report.settings.batch_size, "sentence": report.sentence}  # fmt: skip
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": time.process_time() - began, "peak": peak / 1024, "bare": bare / 1024, **found}


def _measured(request: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_audit_large", json.dumps(request)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def measure(group: str, images: int, effort: str) -> None:
    """Two lines: what was found, and ratio of time, ratio of memory and the passes."""
    asked = {"images": images, "effort": effort, "group": group, "elements": None}
    audited = _measured({**asked, "alone": False})
    batch = min(audited["batch"], images)
    own = _measured({**asked, "alone": True, "batch": batch})
    seconds = own["seconds"] * audited["evaluations"] / (_TIMED * batch)
    print(f"{group}, {images} images, {effort}: {audited['sentence'][:90]}…")
    print(
        f"  {audited['passes']:.3g} passes in batches of {batch} ("
        f"{', '.join(f'{k} {v}' for k, v in audited['parts'].items())}): alone {seconds:.1f} s of processor and "
        f"{own['peak']:.0f} MB, audit {audited['seconds']:.1f} s and {audited['peak']:.0f} MB; ratios "
        f"{audited['seconds'] / seconds:.2f} (at most {RATIO}) and {audited['peak'] / own['peak']:.2f} (below "
        f"{MEMORY}); the process without the model {own['bare']:.0f} MB",
        flush=True,
    )


def main(full: bool = False) -> None:
    """One measurement a group."""
    for group in ("C4", "C24"):
        measure(group, *((64, "full") if full else (12, "quick")))


if __name__ == "__main__":
    print(json.dumps(worker(json.loads(sys.argv[1]))))
