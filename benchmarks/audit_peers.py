"""Networks made with escnn and e3nn, served to bench_audit.py by a process in an interpreter that has both.

`python audit_peers.py NAME` reads arrays of inputs from standard input and writes arrays of outputs, both as .npy: the
versions of NumPy that escnn's dependencies need are not those that JAX needs.

escnn: lifting, regular features under C8 on the plane, anti-aliased pooling, group pooling: its documentation's way.
e3nn: its own `SimpleNetwork` of points in space, with scalars and vectors as output.
"""

from __future__ import annotations

import io
import os
import sys
import warnings

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


def main(name: str) -> None:
    """Answer until the input ends."""
    torch.manual_seed(0)
    network = NETWORKS[name]().eval()
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the libraries print goes elsewhere
    while size := source.read(8):
        x = np.load(io.BytesIO(source.read(int.from_bytes(size, "little"))))
        with torch.no_grad():
            y = network(torch.from_numpy(x)).numpy()
        buffer = io.BytesIO()
        np.save(buffer, y)
        sink.write(len(buffer.getvalue()).to_bytes(8, "little") + buffer.getvalue())
        sink.flush()


if __name__ == "__main__":
    main(sys.argv[1])
