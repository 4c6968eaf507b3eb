"""Equivariant kernels and steerable networks beside those of escnn and e3nn: the same spaces, the same outputs.

For every two irreps: the sine of the largest principal angle between the spaces that both libraries' kernels span, at
offsets with the same rings, after a change of basis B with ρ_theirs = B ρ_ours Bᵀ. For one network of each library with
random weights: the largest difference of its outputs and of our layers' with the weights that make the same kernels.
Each library runs in an environment of its own, made in build/ unless EQUITANGENTS_ESCNN_PYTHON or
EQUITANGENTS_E3NN_PYTHON names its interpreter.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers import OUT, environment
from equitangents import nn
from equitangents.kernels.steerable.linear import count, filter_kernels
from equitangents.steerable import Features, irrep
from equitangents.steerable.angular import angular_kernels
from equitangents.steerable.harmonics import directions_and_lengths, rings
from equitangents.steerable.irrep import SPACES

RADII, WIDTH = (0.0, 1.0, 2.0), 0.6
IRREPS = {
    "SO(2)": ("0", "1", "2", "3"),
    "O(2)": ("0e", "0o", "1", "2", "3"),
    "SO(3)": ("0", "1", "2"),
    "O(3)": ("0e", "0o", "1e", "1o", "2e", "2o"),
}
CASES = (("escnn", "SO(2)"), ("escnn", "O(2)"), ("escnn", "SO(3)"), ("e3nn", "O(3)"))
E3NN = "EQUITANGENTS_E3NN_PYTHON"
_CONSTRAINTS = Path(__file__).with_name("constraints-e3nn.txt")
_PEER = Path(__file__).with_name("steerable_peer.py")


@dataclass(frozen=True)
class Row:
    """What one library and group gave: the largest sine over pairs of irreps, and the network's difference, if any."""

    library: str
    group: str
    pairs: int
    kernels: int
    sine: float
    network: float | None


def escnn_python() -> str | None:
    """The interpreter with escnn, or None and a line that says why there is none."""
    from benchmarks import bench_escnn  # which takes the studies with it

    return bench_escnn.escnn_python()


def e3nn_python() -> str | None:
    """The interpreter with e3nn, or None and a line that says why there is none."""
    return os.environ.get(E3NN) or environment("e3nn", _CONSTRAINTS, ("torch", "numpy", "scipy", "e3nn"))


def sine_between(a: np.ndarray, b: np.ndarray) -> float:
    """The sine of the largest principal angle between the columns' spans; 1 if they have different dimensions.

    >>> sine_between(np.eye(3)[:, :2], np.array([[1.0, 1.0], [1.0, -1.0], [0.0, 0.0]]))
    0.0
    """
    u, v = (np.linalg.svd(x, full_matrices=False) for x in (a, b))
    ranks = [int((s > 1e-6 * s[0]).sum()) for _, s, _ in (u, v)]
    if ranks[0] != ranks[1]:
        return 1.0
    p, q = u[0][:, : ranks[0]], v[0][:, : ranks[1]]
    return float(np.linalg.norm(q - p @ (p.T @ q), 2).round(17))


def change_of_basis(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """The orthogonal B with theirs = B ours Bᵀ for all matrices (K, d, d)."""
    d = ours.shape[-1]
    one = np.eye(d)
    rows = [np.kron(t, one) - np.kron(one, o.T) for o, t in zip(ours, theirs, strict=True)]  # t B - B o = 0
    B = np.linalg.svd(np.concatenate(rows))[2][-1].reshape(d, d)
    return B * math.sqrt(d) / np.linalg.norm(B)


def ours_at(out: Any, into: Any, offsets: np.ndarray) -> np.ndarray:
    """Our kernels times rings at offsets, (K R, S, d', d)."""
    unit, length = directions_and_lengths(offsets)
    shape = rings(length, RADII, WIDTH)
    found = []
    for kernel in angular_kernels(out, into):
        values = kernel(unit) * ((length > 0) | (kernel.frequency == 0))[:, None, None]
        found += [values * shape[:, r, None, None] for r in range(len(RADII))]
    return np.stack(found) if found else np.zeros((0, len(offsets), out.dimension, into.dimension))


def matched(layer: Any, into: Features, total: np.ndarray, offsets: np.ndarray, bases: dict) -> dict[str, np.ndarray]:
    """Our weights of a layer whose kernel at offsets is `total` (S, d', d) in the other library's basis."""
    out = Features(layer.features, into.group)
    kernels = filter_kernels(into, out, None)
    params = {}
    for to, n, rows in out.parts():
        for kind, m, columns in into.parts():
            block = total[:, rows, columns].reshape(len(total), n, to.dimension, m, kind.dimension)
            block = np.einsum("ca,sncmd,de->sname", bases[to], block, bases[kind])
            if (to, kind) not in kernels:
                assert np.abs(block).max() < 1e-6
                continue
            basis = ours_at(to, kind, offsets)
            flat = basis.reshape(len(basis), -1).T
            wanted = block.transpose(0, 2, 4, 3, 1).reshape(flat.shape[0], m * n)
            found = np.linalg.lstsq(flat, wanted, rcond=None)[0].reshape(len(basis), m, n)
            params[f"{kind}->{to}"] = found * math.sqrt(count(kernels, to) * len(RADII) * m)
    return params


def in_our_basis(values: np.ndarray, features: Features, bases: dict, inverse: bool = False) -> np.ndarray:
    """Channels from the other library's basis to ours, or back."""
    change = np.zeros((features.dimension, features.dimension))
    for kind, n, at in features.parts():
        change[at, at] = np.kron(np.eye(n), bases[kind])
    return values @ (change.T if inverse else change)


def network_difference(group: str, spec: dict, answer: dict, offsets: np.ndarray, bases: dict) -> float:
    """The largest difference of outputs, relative to the largest output."""
    x = np.array(spec["x"])
    n = 0 if "hidden" in spec else SPACES[group]
    into, out = (Features(spec[name], group) for name in ("into", "out"))
    ours = np.concatenate([x[..., :n], in_our_basis(x[..., n:], into, bases)], axis=-1)
    begin: nn.PlaneImage | nn.PointCloud
    if "hidden" in spec:
        begin, hidden = nn.PlaneImage(group, into), Features(spec["hidden"], group)
        middle: Any = nn.NormNonlinearity(lambda r: jax.nn.relu(r - 1), tolerance=10.0)
        after = hidden
    else:
        begin, hidden = nn.PointCloud(group, into), Features(_ordered(answer["order"][0]), group)
        c = [float(v) for v in answer["constants"]]
        middle = nn.GatedNonlinearity(
            nn.Elementwise(lambda v: c[0] * jnp.tanh(v)), nn.Elementwise(lambda v: c[1] * jax.nn.sigmoid(v))
        )
        after = middle.after(hidden)
    layers = [nn.SteerableConv(f, RADII, WIDTH) for f in (hidden, out)]
    net = nn.Sequential(begin, layers[0], middle, layers[1])
    params = [
        matched(layer, start, answer[f"total_{i}"], offsets, bases)
        for i, (layer, start) in enumerate(zip(layers, (into, after), strict=True))
    ]
    with jax.enable_x64(True):
        y = np.asarray(net.apply(((), params[0], (), params[1]), ours))[..., SPACES[group] :]
    theirs = in_our_basis(answer["y"].reshape(y.shape), out, bases)
    return float(np.abs(y - theirs).max() / np.abs(theirs).max())


def compare(library: str, group: str, python: str) -> Row:
    """Ask the other interpreter, and compare."""
    rng = np.random.default_rng(0)
    n = SPACES[group]
    offsets = np.concatenate([np.zeros((1, n)), rng.normal(size=(60, n)) * 1.5])
    spec = _network(library, group, rng)
    if spec and "hidden" in spec:  # the offsets of a filter, row by row, y upwards
        side = 2 * len(spec["x"][0]) - 1
        rows, columns = np.indices((side, side)).reshape(2, -1)
        offsets = np.stack([columns - side // 2, side // 2 - rows], -1).astype(float)
    elements = [_element(group, rng) for _ in range(6)]
    request = {
        "library": library, "group": group, "irreps": IRREPS[group], "radii": RADII, "width": WIDTH,
        "elements": [g.tolist() for g in elements], "offsets": offsets.tolist(), **({"network": spec} if spec else {}),
    }  # fmt: skip
    answer = _ask(python, request)
    kinds = [irrep(text, group) for text in IRREPS[group]]
    bases = {}
    for i, kind in enumerate(kinds):
        bases[kind] = change_of_basis(np.stack([kind.matrix(g) for g in elements]), answer[f"rho_{i}"])
    sines, total = [], 0
    for (i, out), (j, into) in product(enumerate(kinds), repeat=2):
        theirs = answer[f"kernels_{i}_{j}"]
        ours = ours_at(out, into, offsets)
        total += len(ours)
        if len(ours) == 0 or len(theirs) == 0:
            sines.append(float(len(ours) != len(theirs)))
            continue
        theirs = np.einsum("ca,kscd,de->ksae", bases[out], theirs, bases[into])
        sines.append(sine_between(ours.reshape(len(ours), -1).T, theirs.reshape(len(theirs), -1).T))
    network = network_difference(group, spec, answer, offsets, bases) if spec else None
    return Row(library, group, len(sines), total, float(np.max(sines)), network)


def _network(library: str, group: str, rng: np.random.Generator) -> dict:
    if library == "e3nn":
        return {
            "into": "1x0e+1x1o", "scalars": "3x0e", "gates": "4x0e", "gated": "2x1o+1x1e+1x2e", "out": "1x0e+1x1o",
            "x": rng.normal(size=(2, 5, 7)).tolist(),
        }  # fmt: skip
    if group == "SO(2)":
        return {
            "into": "1x0+1x1",
            "hidden": "3x0+2x1+1x2",
            "out": "1x0+1x1",
            "x": rng.normal(size=(2, 5, 5, 3)).tolist(),
        }
    return {}


def _ordered(text: str) -> str:
    """e3nn's text of irreps as ours: without the spaces, the copies of one irrep given at once."""
    copies: dict[str, int] = {}
    for part in str(text).split("+"):
        n, kind = part.strip().split("x")
        copies[kind] = copies.get(kind, 0) + int(n)
    return "+".join(f"{n}x{kind}" for kind, n in copies.items())


def _element(group: str, rng: np.random.Generator) -> np.ndarray:
    q, _ = np.linalg.qr(rng.normal(size=(SPACES[group],) * 2))
    if group.startswith("SO"):
        q[:, 0] *= np.sign(np.linalg.det(q))
    return q


def _ask(python: str, request: dict) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = f"{folder}/request.json", f"{folder}/answer.npz"
        Path(asked).write_text(json.dumps(request), encoding="utf-8")
        done = subprocess.run([python, str(_PEER), asked, answered], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{request['library']} failed: {done.stderr[-2000:]}")
        with np.load(answered, allow_pickle=False) as arrays:
            return dict(arrays)


def table(rows: list[Row]) -> str:
    """One line for each library and group."""
    lines = [
        "| library | group | pairs of irreps | kernels | sine of the largest angle | network's outputs differ by |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for r in rows:
        network = "" if r.network is None else f"{r.network:.1e}"
        lines.append(f"| {r.library} | {r.group} | {r.pairs} | {r.kernels} | {r.sine:.1e} | {network} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table of those libraries that can be installed."""
    pythons: dict[str, Callable[[], str | None]] = {"escnn": escnn_python, "e3nn": e3nn_python}
    interpreters = {name: find() for name, find in pythons.items()}
    rows = [compare(library, group, python) for library, group in CASES if (python := interpreters[library])]
    if rows:
        text = table(rows)
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / "steerable.md").write_text(text + "\n", encoding="utf-8")
        print(text)


if __name__ == "__main__":
    main()
