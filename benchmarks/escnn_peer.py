"""A group-convolutional network made with escnn, trained and asked in an interpreter that has it.

`python escnn_peer.py` reads a JSON object a line and answers with one: {"fit": FILE, …} trains on the arrays x and y of
an .npz, {"predict": FILE, "into": FILE} writes scores of x. The network is that of our contender `gcnn`: a lift, ReLU,
blocks of 2×2 averaged, group convolutions with ReLU, and a readout with a weight for every position, as one convolution
with a filter of the size of the image. escnn's filters are band-limited, so that a field has fewer parameters than
ours; there are as many fields as give the number of parameters asked for.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np

LEARNING_RATE = 0.003  # of Adam, for escnn's own initialisation; not tuned on the data


def layers(spec: dict, width: int) -> list:
    """The convolutions and their fields, for `width` regular fields."""
    from escnn import gspaces
    from escnn import nn as enn

    space = gspaces.rot2dOnR2(N=spec["order"])
    side, _, channels = spec["shape"]
    image = enn.FieldType(space, channels * [space.trivial_repr])
    hidden = enn.FieldType(space, width * [space.regular_repr])
    classes = enn.FieldType(space, spec["classes"] * [space.trivial_repr])
    taps = spec["taps"]
    made = [enn.R2Conv(image, hidden, taps, padding=taps // 2), enn.ReLU(hidden), enn.PointwiseAvgPool2D(hidden, 2)]
    for _ in range(spec["convolutions"]):
        made += [enn.R2Conv(hidden, hidden, taps, padding=taps // 2), enn.ReLU(hidden)]
    return [image, *made, enn.R2Conv(hidden, classes, side // 2)]


def width_of(parameters: int, lift: int, convolution: int, readout: int, convolutions: int, classes: int) -> int:
    """How many fields give about `parameters`, from the numbers of weights of one field's filters.

    >>> width_of(1000, lift=6, convolution=24, readout=100, convolutions=1, classes=10)
    5
    """
    count = lambda w: w * lift + convolutions * w * w * convolution + w * readout + w * (1 + convolutions) + classes
    width = 1
    while abs(count(width + 1) - parameters) < abs(count(width) - parameters):
        width += 1
    return width


class Network:
    """Trained once, on the cross-entropy."""

    def __init__(self, spec: dict) -> None:
        import torch
        from escnn import nn as enn

        warnings.simplefilter("ignore")
        torch.manual_seed(spec["seed"])
        single = [layer.weights.numel() for layer in layers(spec, 1) if isinstance(layer, enn.R2Conv)]
        hidden = single[1] if spec["convolutions"] else 0
        width = width_of(spec["parameters"], single[0], hidden, single[-1], spec["convolutions"], spec["classes"])
        self.image, *body = layers(spec, width)
        self.spec, self.width, self.body = spec, width, enn.SequentialModule(*body)
        self.parameters = sum(p.numel() for p in self.body.parameters() if p.requires_grad)

    def scores(self, x: np.ndarray) -> Any:
        """(N, H, W, C) to a tensor (N, classes)."""
        import torch
        from escnn import nn as enn

        channels_first = torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, -1, 1)))
        return self.body(enn.GeometricTensor(channels_first, self.image)).tensor[:, :, 0, 0]

    def fit(self, x: np.ndarray, y: np.ndarray) -> None:
        """Every image once an epoch, in an order drawn anew."""
        import torch

        optimizer = torch.optim.Adam(self.body.parameters(), lr=LEARNING_RATE)
        labels = torch.from_numpy(y.astype(np.int64))
        self.body.train()
        for _ in range(self.spec["epochs"]):
            for rows in torch.randperm(len(x)).split(self.spec["batch"]):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(self.scores(x[rows.numpy()]), labels[rows]).backward()
                optimizer.step()

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Scores (N, classes)."""
        import torch

        self.body.eval()
        with torch.no_grad():
            parts = [self.scores(x[i : i + 500]).numpy() for i in range(0, len(x), 500)]
        return np.concatenate(parts)


def main() -> None:
    """Answer until the input ends."""
    network, answers = None, sys.stdout
    sys.stdout = sys.stderr  # what the libraries print goes elsewhere
    for line in sys.stdin:
        request = json.loads(line)
        if "fit" in request:
            network = Network(request["spec"])
            with np.load(request["fit"]) as arrays:
                network.fit(arrays["x"], arrays["y"])
            answer = {"parameters": network.parameters, "fields": network.width}
        else:
            assert network is not None
            with np.load(request["predict"]) as arrays:
                np.save(request["into"], network.predict(arrays["x"]))
            answer = {}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
