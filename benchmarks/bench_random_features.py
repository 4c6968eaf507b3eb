"""Ways past the exact kernel, side by side on the same images: random features, landmarks, and both.

`--data FILE`: an .npz with train_x (N, H, W[, C]), train_y, test_x, test_y (classes); without it the 8×8 digits of
scikit-learn. `--side`, `--inputs`, `--tests`, `--network` (gap4, gap8, myrtle), `--features 1024,4096`,
`--landmarks 50,200`; `--shares 8,64`: features for each channel of the random network, the library's without it;
`--seeds 3`: numbers of features are means over so many. "Both" are the landmarks' features, and beside them the most
random features without what they say of the landmarks: kernels with a landmark are exact, and the rest is right on
average.

Time is processor time of one thread for all that is computed of images (not the solving), in percent of what the exact
kernel of the same images takes. "kernel": the error of the centred kernel, Frobenius, relative. "differ": root mean
square of what predictions differ by, over that of the exact ones, at the ridge that is best for the exact kernel.
"accuracy": at that ridge; "own ridge": at the best of seven for each (all judged on the test images).
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import argparse
import time
from typing import Any
from unittest import mock

import numpy as np

from equitangents import kernels, nn
from equitangents.kernels.random_features import features as library

RIDGES = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
CONV = (nn.Conv(1, (3, 3), W_std=2**0.5, b_std=0.1), nn.Relu())
POOL = (nn.AvgPool(2),)
END = (nn.GlobalAvgPool(), nn.Dense(1))
NETWORKS = {
    "gap4": nn.Sequential(*CONV * 4, *END),
    "gap8": nn.Sequential(*CONV * 8, *END),
    "myrtle": nn.Sequential(*CONV * 2, *POOL, *CONV, *POOL, *CONV, *POOL, *END),
}


def images(file, side, inputs, tests):
    """(x, y, test x, test labels): standardised images of side × side and targets ±, float32."""
    if file is None:
        from sklearn.datasets import load_digits

        x, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(x))
        x, labels = x.reshape((-1, 8, 8, 1))[order], labels[order]
        x, xt, labels, test_labels = x[:inputs], x[-tests:], labels[:inputs], labels[-tests:]
    else:
        held = np.load(file)
        x, xt = (shrunk(held[f"{part}_x"][:n], side) for part, n in (("train", inputs), ("test", tests)))
        labels, test_labels = held["train_y"][:inputs], held["test_y"][:tests]
    mean, std = x.mean((0, 1, 2)), x.std((0, 1, 2))
    x, xt = (((v - mean) / std).astype(np.float32) for v in (x, xt))
    return x, np.eye(10)[labels] - 0.1, xt, test_labels


def shrunk(x, side):
    """Means over blocks of pixels."""
    x = x.reshape((*x.shape[:3], -1)).astype(np.float64)
    block = x.shape[1] // side
    return x.reshape((len(x), side, block, side, block, x.shape[-1])).mean((2, 4))


def by_features(net, count, share, seed, x, xt):
    """Features of `kernels.random_features`, `share` of them for each channel of the random network."""
    made = kernels.random_features(net, count, seed)
    with mock.patch.object(library, "_SHARE", share):
        return tuple(np.asarray(made.transform(v), np.float64) for v in (x, xt))


def by_landmarks(net, count, x, xt):
    """Nyström's approximation on random training images: exact kernels with these alone."""
    chosen = np.random.default_rng(0).permutation(len(x))[:count]
    cross, tests = (np.asarray(net.kernel(v, x[chosen]).ntk, np.float64) for v in (x, xt))
    values, vectors = np.linalg.eigh((cross[chosen] + cross[chosen].T) / 2)
    kept = values > 1e-6 * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept])
    return cross @ root, tests @ root


def by_both(net, landmarks, features, x, xt):
    """Landmarks' features, and random ones orthogonal to those of the landmarks, scaled to the dimensions left."""
    exact, random = by_landmarks(net, landmarks, x, xt), by_features(net, features, library._SHARE, 0, x, xt)
    chosen = np.random.default_rng(0).permutation(len(x))[:landmarks]
    basis = np.linalg.qr(random[0][chosen].T)[0]
    scale = (features / (features - len(basis.T))) ** 0.5
    return tuple(np.hstack([a, scale * (b - b @ basis @ basis.T)]) for a, b in zip(exact, random, strict=True))


def predictions(k, kt, y, ridge):
    """Means of training to the end with a ridge over the mean diagonal."""
    return kt @ np.linalg.solve(k + ridge * np.trace(k) / len(k) * np.eye(len(k)), y)


def centred(k):
    """The kernel of what differs from the mean input."""
    return k - k.mean(axis=0) - k.mean(axis=1)[:, None] + k.mean()


def main():
    """One row a method and size."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--data")
    ask.add_argument("--network", default="gap4", choices=NETWORKS)
    for name, value in (("side", 8), ("inputs", 500), ("tests", 500), ("seeds", 1)):
        ask.add_argument(f"--{name}", type=int, default=value)
    for name, sizes in (("features", "256,1024,4096"), ("landmarks", "25,50,100"), ("shares", "")):
        ask.add_argument(f"--{name}", default=sizes)
    args = ask.parse_args()
    x, y, xt, labels = images(args.data, args.side, args.inputs, args.tests)
    net = NETWORKS[args.network]

    def timed(make, *rest):
        make(*rest, x[:128], xt[:2])  # compiled
        start = time.process_time()
        found = make(*rest, x, xt)
        return *found, time.process_time() - start

    exact = lambda a, b: tuple(np.asarray(net.kernel(*v).ntk, np.float64) for v in ((a,), (b, a)))
    k, kt, whole = timed(exact)
    accuracy = lambda p: 100 * float((p.argmax(axis=1) == labels).mean())
    scores = [accuracy(predictions(k, kt, y, r)) for r in RIDGES]
    best = int(np.argmax(scores))
    wanted = predictions(k, kt, y, RIDGES[best])
    print(f"{args.network}, {len(x)} images of {x.shape[1:]}, {len(xt)} test images; exact: {whole:.1f} s of a thread")
    share = 100 * np.linalg.norm(centred(k)) / np.linalg.norm(k)
    print(
        f"accuracy {scores[best]:.1f} % at ridge {RIDGES[best]:g}; centred, {share:.0f} % of the kernel's norm is left"
    )
    print(f"{'method':<34}{'time %':>8}{'kernel %':>10}{'differ %':>10}{'accuracy':>10}{'own ridge':>11}")
    numbers = lambda text: [int(v) for v in text.split(",") if v]
    features, landmarks, shares = (numbers(text) for text in (args.features, args.landmarks, args.shares))
    rows: list[Any] = [
        (f"features, {m}, {share} a channel", by_features, [(net, m, share, seed) for seed in range(args.seeds)])
        for share in shares or [library._SHARE]
        for m in features
    ]
    rows += [(f"landmarks, {c}", by_landmarks, [(net, c)]) for c in landmarks]
    rows += [(f"both, {c} and {max(features)}", by_both, [(net, c, max(features))]) for c in landmarks]
    for label, make, turns in rows:
        found = []
        for rest in turns:
            f, ft, seconds = timed(make, *rest)
            a, at = f @ f.T, ft @ f.T
            error = np.linalg.norm(centred(a) - centred(k)) / np.linalg.norm(centred(k))
            each = [predictions(a, at, y, r) for r in RIDGES]
            differ = np.linalg.norm(each[best] - wanted) / np.linalg.norm(wanted)
            own = max(accuracy(p) for p in each)
            found.append((100 * seconds / whole, 100 * error, 100 * differ, accuracy(each[best]), own))
        took, error, differ, at_best, own = np.asarray(found, np.float64).mean(axis=0)
        print(f"{label:<34}{took:>8.1f}{error:>10.1f}{differ:>10.1f}{at_best:>10.1f}{own:>11.1f}", flush=True)


if __name__ == "__main__":
    main()
