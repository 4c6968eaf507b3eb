"""Segmentation at infinite width: fields of N·P targets fitted and predicted, what it takes, and how good it is.

Images of discs and bars on stripes, with noise of a third of their contrast; the target is ±1, inside or outside of a
disc. The network has three hidden 3×3 convolutions on a torus, so that it is equivariant under all shifts. The matrix
of 200 images of 32×32 has 204,800 rows, 168 GB in float32, and is never formed: "nystrom" reads the columns of `rank`
landmarks, drawn from some whole images, and estimates what that leaves out; a product with the whole matrix, of which
conjugate gradients take one a step, is timed on some tiles.

    python -m benchmarks field_fits
    EQUITANGENTS_IMAGES=200 EQUITANGENTS_RANK=1500 python -m benchmarks field_fits
"""

import os
import time

import numpy as np

import equitangents as et
from equitangents.ensembles.fields.kernel import FieldKernel, FieldMatrix
from equitangents.ensembles.fields.points import FieldPoints

SIDE, TEST = 32, 20
RIDGE = 1e-2


def images(n, seed):
    """(images (n, 32, 32, 1), masks (n, 32, 32, 1) of ±1) in float32."""
    rng = np.random.default_rng(seed)
    rows, columns = np.indices((SIDE, SIDE))
    x, masks = np.empty((n, SIDE, SIDE, 1), np.float32), np.empty((n, SIDE, SIDE, 1))
    for i in range(n):
        angle, phase = rng.uniform(0, np.pi), rng.uniform(0, 2 * np.pi)
        texture = 0.5 * np.sin(rows * np.cos(angle) + columns * np.sin(angle) + phase)
        mask = np.zeros((SIDE, SIDE), bool)
        for _ in range(3):
            r, c, radius = *rng.uniform(0, SIDE, 2), rng.uniform(3, 6)
            apart = [np.minimum(abs(a - b), SIDE - abs(a - b)) for a, b in ((rows, r), (columns, c))]
            mask |= apart[0] ** 2 + apart[1] ** 2 < radius**2
        bar = (rows - rng.integers(SIDE)) % SIDE < 2  # as bright as a disc, and none
        x[i, ..., 0] = np.where(mask | bar, 1.0, texture) + rng.normal(size=mask.shape) / 3
        masks[i, ..., 0] = np.where(mask, 1.0, -1.0)
    return x, masks


def network():
    hidden = [et.nn.Conv(1, (3, 3), W_std=2**0.5, b_std=0.1), et.nn.Relu()]
    return et.nn.Sequential(*(3 * hidden), et.nn.Conv(1, (3, 3)))


class Clock:
    """Seconds on the wall, and of all processors."""

    def __enter__(self):
        self.start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error):
        self.wall = time.perf_counter() - self.start[0]
        self.processors = time.process_time() - self.start[1]

    def __str__(self):
        return f"{self.wall:.0f} s ({self.processors:.0f} s of processors)"


def overlap(predicted, masks):
    """Intersection over union of the discs, over all pixels."""
    inside, true = predicted > 0, masks > 0
    return (inside & true).sum() / (inside | true).sum()


def main():
    n, rank = (int(os.environ.get(f"EQUITANGENTS_{name}", usual)) for name, usual in (("IMAGES", 24), ("RANK", 500)))
    x, masks = images(n, seed=0)
    x_test, masks_test = images(TEST, seed=1)
    print(f"{n} images of {SIDE}×{SIDE}: {masks.size:,} targets, a matrix of {4e-9 * masks.size**2:.3g} GB in float32")
    net = network()
    with Clock() as fitted:
        model = et.InfiniteEnsemble(net, ridge=RIDGE, solver=et.solvers.Nystrom(rank=rank)).fit(x, masks)
    with Clock() as predicted:
        mean = model.predict(x_test)
    print(f"fit {fitted}, prediction of {TEST} images {predicted}")
    print(model.solution_)
    wrong = ((mean > 0) != (masks_test > 0)).mean()
    print(f"of test pixels {wrong:.1%} wrong; intersection over union of discs {overlap(mean, masks_test):.3f}")
    most = FieldMatrix(FieldKernel(net), FieldPoints.of(x, SIDE**2), "ntk")
    side = min(most.tile, most.size // 2)
    vector = np.ones((side, 1))
    with Clock() as tile:
        entries = most.block(slice(0, side), slice(side, 2 * side)).astype(np.float64)
        entries @ vector, entries.T @ vector
    tiles = most.size**2 / 2 / side**2
    print(
        f"a product with the whole matrix: {tiles:.0f} tiles like one that took {tile.wall:.1f} s, "
        f"about {tiles * tile.wall:.0f} s on the wall and {tiles * tile.processors:.0f} s of processors"
    )


if __name__ == "__main__":
    main()
