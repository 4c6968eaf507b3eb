"""Networks made with escnn and e3nn, served to audits by a process in an interpreter that has one or both.

`python audit_peers.py NAME` reads arrays of inputs from standard input and writes arrays of outputs, both as .npy, for
`equitangents.audit.Command`: the versions of NumPy that escnn's dependencies need are not those that JAX needs.
`python audit_peers.py NAME check FILE` checks the network by the library's own means, `NAME lie FILE` by its Lie
derivative, and prints what it found and the seconds that it took as JSON; FILE holds inputs.

escnn: lifting, regular features under C8 on the plane, anti-aliased pooling, group pooling: its documentation's way.
e3nn: its own `SimpleNetwork` of points in space, with scalars and vectors as output.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

warnings.simplefilter("ignore")


def steerable(turns: int, even: bool) -> torch.nn.Module:
    """A classifier that is invariant under C_n; `even` pools with a stride that even images do not allow."""
    from escnn import gspaces
    from escnn import nn as enn

    space = gspaces.rot2dOnR2(N=turns)
    image = enn.FieldType(space, [space.trivial_repr])
    small, large = (enn.FieldType(space, k * [space.regular_repr]) for k in (4, 8))

    def block(a: object, b: object, size: int) -> list:
        return [enn.R2Conv(a, b, size, padding=size // 2, bias=False), enn.InnerBatchNorm(b), enn.ReLU(b)]

    pool = enn.PointwiseMaxPool2D(small, 2) if even else enn.PointwiseAvgPoolAntialiased(small, sigma=0.66, stride=2)
    body = enn.SequentialModule(*block(image, small, 7), pool, *block(small, large, 5), enn.GroupPooling(large))

    class Classifier(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = body, torch.nn.Linear(8, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(enn.GeometricTensor(x, image)).tensor.mean((2, 3)))

    return Classifier()


class Points(torch.nn.Module):
    """e3nn's SimpleNetwork on a batch of clouds: two scalars and one vector each, side by side."""

    def __init__(self) -> None:
        super().__init__()
        from e3nn.nn.models.v2106.gate_points_networks import SimpleNetwork

        sizes = {"max_radius": 2.0, "num_neighbors": 4.0, "num_nodes": 6.0, "mul": 8, "layers": 2}
        self.network = SimpleNetwork("0e", "2x0e + 1o", **sizes)
        for parameter in self.network.parameters():  # some start at zero, and with them the output would be constant
            parameter.data += 0.3 * torch.randn_like(parameter)

    def forward(self, positions: torch.Tensor) -> torch.Tensor:
        n, p, _ = positions.shape
        data = {
            "pos": positions.reshape(-1, 3),
            "x": positions.new_ones(n * p, 1),
            "batch": torch.arange(n, device=positions.device).repeat_interleave(p),
        }
        return self.network(data)


NETWORKS = {
    "escnn": lambda: steerable(8, even=False),
    "escnn-max": lambda: steerable(8, even=True),
    "e3nn": Points,
}


def checked_by_e3nn(x: np.ndarray) -> dict:
    """e3nn's equivariance_error of single clouds: the largest difference for every (mirrored, moved)."""
    from e3nn.util.test import assert_equivariant, equivariance_error

    network = Points().eval()
    one = lambda positions: network(positions[None])
    given = {"args_in": [torch.from_numpy(x[0])], "irreps_in": ["cartesian_points"], "irreps_out": ["2x0e + 1o"]}
    equivariance_error(one, **given)
    clocks = [(time.perf_counter(), time.process_time())]
    errors = equivariance_error(one, **given)
    clocks.append((time.perf_counter(), time.process_time()))
    assert_equivariant(one, **given)
    worst = max(float(e.max()) for e in (torch.as_tensor(v) for v in errors.values()))
    return {"worst": worst, "seconds": clocks[1][0] - clocks[0][0], "processor": clocks[1][1] - clocks[0][1]}


def checked_by_escnn(name: str) -> dict:
    """escnn's check_equivariance of the layers before the head, on its own random image."""
    network: Any = NETWORKS[name]().eval()
    body = network.body
    checks = []
    for _ in range(2):
        began = time.perf_counter(), time.process_time()
        try:
            found, said = body.check_equivariance(atol=1e-4, rtol=1e-4), ""
        except AssertionError as error:
            found, said = [], str(error).splitlines()[0]
        checks.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    worst = max((float(np.max(error)) for _, error in found), default=float("nan"))
    return {"worst": worst, "said": said, "seconds": checks[1][0], "processor": checks[1][1]}


def local_error(name: str, x: np.ndarray) -> dict:
    """Mean of ‖L f(x)‖/‖f(x)‖, the Lie derivative along rotations of arXiv 2210.02984, per radian.

    As in the paper's code images are sampled bilinearly; the derivative is a central difference.
    """
    network, images, h = NETWORKS[name]().eval(), torch.from_numpy(x), 1e-2

    def turned(angle: float) -> torch.Tensor:
        c, s = np.cos(angle), np.sin(angle)
        grid = torch.nn.functional.affine_grid(
            torch.tensor([[[c, -s, 0.0], [s, c, 0.0]]]).expand(len(x), 2, 3).float(),
            list(images.shape),
            align_corners=True,
        )
        return torch.nn.functional.grid_sample(images, grid, align_corners=True)

    began = time.perf_counter(), time.process_time()
    with torch.no_grad():
        slope = (network(turned(h)) - network(turned(-h))) / (2 * h)
        found = float((slope.norm(dim=1) / network(images).norm(dim=1)).mean())
    return {"worst": found, "seconds": time.perf_counter() - began[0], "processor": time.process_time() - began[1]}


def serve(name: str) -> None:
    """Answer until the input ends."""
    network = NETWORKS[name]().eval()
    source, sink = io.BufferedReader(io.FileIO(0, closefd=False)), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the libraries print goes elsewhere
    while source.peek(1):
        x = np.lib.format.read_array(SimpleNamespace(read=source.read)).astype(np.float32)
        with torch.no_grad():
            y = network(torch.from_numpy(x)).numpy()
        buffer = io.BytesIO()
        np.save(buffer, y)
        sink.write(buffer.getvalue())
        sink.flush()


def main(name: str, what: str = "serve", file: str = "") -> None:
    """Serve or check the network called `name`."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if what == "serve":
        serve(name)
        return
    sys.stdout.flush()
    if what == "lie":
        found = local_error(name, np.load(file))
    else:
        found = checked_by_e3nn(np.load(file)) if name == "e3nn" else checked_by_escnn(name)
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
