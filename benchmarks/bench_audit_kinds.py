"""Verdicts of audits of every kind of input, output and change: false alarms on models that are exactly equivariant,
and misses of planted violations of known size.

A model is an equivariant part plus a share of one that is not; the share is found on 512 other inputs, by one element
that is applied by hand here, so that the violation is known. Models whose outputs are masks or sets have a violation
that is said in words. `python -m benchmarks audit_kinds` prints the table of docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.bench_audit_verdicts import Case, Row, measure, totals_of

MODELS = 20  # of each case
INPUTS, FRESH = 64, 512
SIZE, POINTS, STEPS = 6, 5, 24
VIOLATION = 0.01  # of the spread between inputs

Array = np.ndarray
Made = tuple[Any, Any]


@dataclass(frozen=True)
class Kind:
    """One kind: inputs, what is equivariant and what is not, and one element by hand on inputs and outputs."""

    name: str
    group: Any
    inputs: Callable[[np.random.Generator, int], Any]
    even: Callable[..., Array]
    move: Callable[[Any], Any]
    act: Callable[[Array], Array]
    output_action: Any = None
    kinds: Any = None


def images(rng: np.random.Generator, n: int) -> Array:
    return rng.normal(size=(n, SIZE, SIZE, 1))


def clouds(rng: np.random.Generator, n: int) -> Array:
    return rng.normal(size=(n, POINTS, 3))


def series(rng: np.random.Generator, n: int) -> Array:
    return rng.normal(size=(n, STEPS))


def graphs(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Nodes with features, and 8 directed edges, the last of them padding."""
    edges = rng.integers(POINTS, size=(n, 8, 2))
    edges[:, -1] = -1
    return rng.normal(size=(n, POINTS, 3)), edges


def moments(x: Array) -> tuple[Array, Array, Array, Array]:
    """Centre (x, y) of an image's squares, and how far they reach along x and y; whole numbers are pixels' edges."""
    weight = x[..., 0] ** 2
    weight = weight / weight.sum((1, 2), keepdims=True)
    at = np.arange(x.shape[1]) + 0.5
    columns, rows = weight.sum(1), weight.sum(2)
    cx, cy = columns @ at, rows @ at
    return cx, cy, np.sqrt(columns @ at**2 - cx**2), np.sqrt(rows @ at**2 - cy**2)


def corners_of_box(x: Array) -> Array:
    cx, cy, w, h = moments(x)
    return np.stack([cx - w, cy - h, cx + w, cy + h], axis=1)


def centre_of_box(x: Array) -> Array:
    return np.stack(moments(x), axis=1)


def keypoints(x: Array) -> Array:
    found = [np.stack(moments(part)[:2], axis=1) - 0.5 for part in (x, np.exp(x), np.abs(x))]
    return np.stack(found, axis=1)


def turned_box(b: Array) -> Array:
    """A quarter turn counter-clockwise of an image of side 6: (x, y) goes to (y, 6 − x)."""
    return np.stack([b[:, 1], SIZE - b[:, 2], b[:, 3], SIZE - b[:, 0]], axis=1)


def symmetric_tensor(x: Array) -> Array:
    return np.einsum("npi,npj,np->nij", x, x, np.exp(-(x**2).sum(-1)))


def voigt(S: Array, factor: float = 1.0) -> Array:
    pairs = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))
    return np.stack([S[:, i, j] * (1 if i == j else factor) for i, j in pairs], axis=1)


def whole(v: Array, factor: float = 1.0) -> Array:
    xx, yy, zz, yz, xz, xy = np.moveaxis(v, 1, 0)
    yz, xz, xy = yz / factor, xz / factor, xy / factor
    return np.moveaxis(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), -1, 0)


TURN = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
TURN = TURN * np.linalg.det(TURN)
ORDER = np.array([2, 0, 4, 1, 3])  # point i goes to place ORDER[i]
BACK = np.argsort(ORDER)


def harmonics(v: Array) -> Array:
    """e3nn's of degree 2, up to one factor."""
    x, y, z = np.moveaxis(v, -1, 0)
    r3 = np.sqrt(3)
    return np.stack([r3 * x * z, r3 * x * y, y * y - (x * x + z * z) / 2, r3 * y * z, r3 / 2 * (z * z - x * x)], -1)


def irreps(p: Array) -> Array:
    """2x0e+1x1o+1x1e+1x2e of a cloud."""
    r = np.linalg.norm(p, axis=-1)
    vector = (p * np.exp(-r)[..., None]).sum(1)
    axial = np.cross(p[:, 0], p[:, 1])
    return np.concatenate([r[:, :2], vector, axial, harmonics(p[:, 2]) / 2], axis=1)


def turned_irreps(y: Array) -> Array:
    """The matrix of degree 2 by solving Y(Rx) = D Y(x) at 9 directions."""
    v = np.random.default_rng(2).normal(size=(9, 3))
    D = np.linalg.lstsq(harmonics(v), harmonics(v @ TURN.T), rcond=None)[0]
    return np.concatenate([y[:, :2], y[:, 2:5] @ TURN.T, y[:, 5:8] @ TURN.T, y[:, 8:] @ D], axis=1)


def messages(nodes: Array, edges: Array) -> Array:
    """Every node's own features, and the sum of those at the other ends of its edges."""
    found = np.tanh(nodes)
    for n, pairs in enumerate(edges):
        for a, b in pairs:
            if a >= 0:
                found[n, a] += np.sin(nodes[n, b])
    return found


def edge_outputs(nodes: Array, edges: Array) -> Array:
    """One row an edge."""
    n = np.arange(len(nodes))[:, None]
    return np.where((edges[..., :1] >= 0), np.sin(nodes[n, edges[..., 0]]) * nodes[n, edges[..., 1]], 0.0)


def softmax(y: Array) -> Array:
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def corners(x: Array) -> Array:
    return np.stack([x[:, 0, 0, 0], x[:, 0, -1, 0], x[:, -1, -1, 0], x[:, -1, 0, 0]], axis=1)


def _kinds() -> tuple[Kind, ...]:
    from equitangents.audit import Batch, Boxes, Custom, Labels
    from equitangents.structured import Masked

    turn = lambda x: np.rot90(x, 1, (1, 2))
    same = lambda y: y
    rotate = lambda p: p @ TURN.T
    permute = lambda p: p[:, BACK]
    local = lambda s: np.tanh(s + 0.5 * np.roll(s, 1, 1)) - np.roll(s, -2, 1) ** 2
    even_local = lambda s: np.tanh(np.roll(s, 1, 1) + s + np.roll(s, -1, 1))
    masked = lambda rng, n: Masked(clouds(rng, n), rng.random((n, POINTS)) < 0.7)
    states = lambda rng, n: rng.normal(size=(n, 6)) + 1j * rng.normal(size=(n, 6))
    amplitude = lambda z: z * np.abs(np.roll(z, 1, 1)) ** 2
    return (
        Kind("boxes, xyxy", "C4", images, corners_of_box, turn, turned_box, Boxes("xyxy")),
        Kind("boxes, cxcywh", "C4", images, centre_of_box, turn,
             lambda b: np.stack([b[:, 1], SIZE - b[:, 0], b[:, 3], b[:, 2]], 1), "cxcywh"),
        Kind("keypoints", "C4", images, keypoints, turn,
             lambda k: np.stack([k[..., 1], SIZE - 1 - k[..., 0]], -1), "keypoints"),
        Kind("irreps 2x0e+1x1o+1x1e+1x2e", "SO3", clouds, irreps, rotate, turned_irreps,
             "2x0e+1x1o+1x1e+1x2e", "vectors"),
        Kind("Voigt stress", "SO3", clouds, lambda p: voigt(symmetric_tensor(p)), rotate,
             lambda v: voigt(TURN @ whole(v) @ TURN.T), "voigt", "vectors"),
        Kind("Voigt strain", "SO3", clouds, lambda p: voigt(symmetric_tensor(p), 2), rotate,
             lambda v: voigt(TURN @ whole(v, 2) @ TURN.T, 2), "voigt:strain", "vectors"),
        Kind("complex sequences", "translations", series, lambda s: local(s) + 1j * np.roll(s, 1, 1),
             lambda s: np.roll(s, 5, 1), lambda y: np.roll(y, 5, 1), "sequences"),
        Kind("probabilities of permuted classes", "C4", images, lambda x: softmax(corners(np.tanh(x))), turn,
             lambda y: y[:, [1, 2, 3, 0]], Labels([3, 0, 1, 2])),
        Kind("per-node outputs of graphs", "S_n", graphs, messages, lambda x: (permute(x[0]), _relabelled(x[1])),
             permute, "nodes", ("nodes", "edges")),
        Kind("per-edge outputs, nodes relabelled", "S_n", graphs, edge_outputs,
             lambda x: (permute(x[0]), _relabelled(x[1])), same, None, ("nodes", "edges")),
        Kind("per-edge outputs, edges reordered", "S8", graphs, edge_outputs, lambda x: (x[0], x[1][:, ::-1]),
             lambda y: y[:, ::-1], "rows", (None, "rows")),
        Kind("sets", "S_n", clouds, lambda p: np.tanh(p) + p.mean(1, keepdims=True), permute, permute, "points"),
        Kind("masked sets", "S_n", masked, lambda p, m: (np.tanh(p) * m[..., None]).sum(1),
             lambda x: Masked(permute(x.x), permute(x.mask)), same),
        Kind("point clouds with features", "SO3",
             lambda rng, n: np.concatenate([clouds(rng, n), clouds(rng, n)[..., :2]], 2),
             lambda x: np.concatenate([(x[..., :3] ** 2).sum(-1), x[..., 3] * x[..., 4]], 1),
             lambda x: np.concatenate([rotate(x[..., :3]), x[..., 3:]], 2), same, None, "1x1o+2x0e"),
        Kind("circular shifts", "translations", series, local, lambda s: np.roll(s, 5, 1), lambda y: np.roll(y, 5, 1),
             "sequences"),
        Kind("sequences reversed", "reversal", series, even_local, lambda s: s[:, ::-1],
             lambda y: y[:, ::-1], "sequences"),
        Kind("the other sign", "sign", series, lambda s: np.sin(s) + s**3 / 9, lambda s: -s, lambda y: -y, "values"),
        Kind("phases of states", "SO2", states, amplitude, lambda z: 1j * z, lambda y: 1j * y, "states", "states"),
        Kind("batch along axis 1", "SO3", lambda rng, n: Batch(np.moveaxis(clouds(rng, n), 0, 1), 1),
             lambda p: np.cumsum(p * np.exp(-(p**2).sum(-1, keepdims=True)), axis=0),
             lambda x: Batch(x.value @ TURN.T, 1), lambda y: y @ TURN.T, Batch("vectors", 1), "vectors"),
        Kind("any map (Custom)", "SO3", clouds, symmetric_tensor, rotate, lambda S: TURN @ S @ TURN.T,
             Custom(lambda R, S: R @ S @ R.T), "vectors"),
    )  # fmt: skip


def _relabelled(edges: Array) -> Array:
    return np.where(edges >= 0, ORDER[edges], -1)


def plant(kind: Kind, violation: float) -> Callable[[np.random.Generator], Made]:
    """Models of this kind that are off by `violation` of their spread between inputs."""

    def make(rng: np.random.Generator) -> Made:
        weights: dict[int, Array] = {}
        seed = int(rng.integers(2**32))

        def odd(*x: Any) -> Array:
            """A function of all numbers of the inputs, without any symmetry, of the shape of the outputs."""
            batch = 1 if "axis 1" in kind.name else 0
            y = kind.even(*x)
            rows = lambda a: np.moveaxis(np.asarray(a), batch, 0).reshape(np.shape(a)[batch], -1)
            flat = np.concatenate([_real(rows(a)) for a in x], axis=1)
            outputs = np.moveaxis(y, batch, 0)
            width = int(np.prod(outputs.shape[1:]))
            W = weights.setdefault(
                flat.shape[1], np.random.default_rng(seed).normal(size=(flat.shape[1], width)) / np.sqrt(flat.shape[1])
            )
            found = np.tanh(flat @ W + 0.3).reshape(outputs.shape) * (1 + 1j if y.dtype.kind == "c" else 1)
            return np.moveaxis(found, 0, batch)

        def whole_model(share: float) -> Callable[..., Array]:
            return lambda *x: kind.even(*x) + share * odd(*x)

        if violation == 0:
            return kind.even, kind.inputs(rng, INPUTS)
        fresh = kind.inputs(rng, FRESH)
        axis = 1 if "axis 1" in kind.name else 0
        rows = lambda y: _real(np.moveaxis(y, axis, 0).reshape(FRESH, -1))
        start = odd(*_arguments(fresh))
        expected = kind.act(start) - kind.act(0 * start)  # coordinates move about the image's centre: their linear part
        off = np.linalg.norm(rows(odd(*_arguments(kind.move(fresh)))) - rows(expected), axis=1)
        spread = np.sqrt(rows(kind.even(*_arguments(fresh))).var(axis=0, ddof=1).sum())
        return whole_model(violation * float(spread) / float(off.mean())), kind.inputs(rng, INPUTS)

    return make


def _arguments(x: Any) -> tuple[Any, ...]:
    if isinstance(x, tuple):
        return x
    if hasattr(x, "mask"):
        return tuple(a for a in (x.x, x.adjacency, x.mask) if a is not None)
    return (x.value,) if hasattr(x, "axis") else (x,)


def _real(a: Array) -> Array:
    return np.concatenate([a.real, a.imag], axis=1) if a.dtype.kind == "c" else a.astype(float)


def mask_model(rng: np.random.Generator, pixels: int) -> Made:
    """Classes of pixels by a symmetric filter; the first `pixels` in the upper row are always class 2."""
    around = lambda v: sum(np.roll(v, s, a) for s in (1, -1) for a in (1, 2))

    def masks(x: Array) -> Array:
        v = x[..., 0]
        found = (v + 0.3 * around(v) > 0).astype(int)
        found[:, 0, :pixels] = 2
        return found

    return masks, images(rng, INPUTS)


def box_set(rng: np.random.Generator, shift: float = 0.0, lost: float = 0.0, extra: float = 0.0) -> Made:
    """The three largest pixels as boxes of side 3, from left to right; some moved, lost, or one too many.

    `shift`: by so many pixels to the right; `lost`, `extra`: the share of inputs, about, with a box less or more.
    """

    def boxes(x: Array) -> list[Array]:
        found = []
        for v in x[..., 0]:
            i, j = np.divmod(np.sort(np.argsort(-v.ravel())[:3]), SIZE)
            at = np.stack([j - 1.0, i - 1.0, j + 2.0, i + 2.0], axis=1)
            at[:, [0, 2]] += shift
            order = np.argsort(j, kind="stable")
            at = at[order]
            first = (abs(v[0, 0]) * 1e6) % 1
            at = at[1:] if first < lost else at
            at = np.concatenate([at, [[0.5, 0.5, 2.0, 2.0]]]) if first > 1 - extra else at
            found.append(at)
        return found

    return boxes, images(rng, INPUTS)


def row_set(rng: np.random.Generator, violation: float) -> Made:
    """Points in an order of their own; those after the third of the input are off by a share of their size."""

    def rows(p: Array) -> Array:
        q = np.tanh(p) * (1 + violation * (np.arange(POINTS) > 2))[:, None]
        return np.take_along_axis(q, np.argsort(q[..., :1], axis=1), axis=1)

    return rows, clouds(rng, INPUTS)


def loudness(rng: np.random.Generator, violation: float) -> Made:
    """Autocorrelations of sound over its power; `violation` 0.01 is 1.1 % of the spread at twice the gain."""
    w = rng.normal(size=3)

    def heard(s: Array) -> Array:
        power = (s**2).mean(1, keepdims=True)
        y = np.stack([(s * np.roll(s, k, 1)).mean(1) for k in (1, 2, 3)], 1) / power
        return y + violation * 0.3 * np.log(power) * w / np.linalg.norm(w)

    return heard, series(rng, INPUTS)


def brightness(rng: np.random.Generator, violation: float) -> Made:
    """Differences of neighbours over the image's size; `violation` 0.01 is 0.2 % of the spread at half of it."""

    def seen(x: Array) -> Array:
        v = x[..., 0]
        size = np.sqrt((v**2).mean((1, 2)))
        y = np.stack([(v[:, 1:] - v[:, :-1])[:, k, k] for k in range(3)], 1) / size[:, None]
        return y + violation * size[:, None]

    return seen, rng.random((INPUTS, SIZE, SIZE, 1)) * 0.5


def cases() -> tuple[Case, ...]:
    """Every kind without and with its violation."""
    from equitangents.audit import Transform, Unordered

    made = []
    for kind in _kinds():
        settings = {"output_action": kind.output_action, "inputs": kind.kinds}
        for violation, truth in ((0.0, "kept"), (VIOLATION, "violated")):
            said = kind.name if violation == 0 else f"{kind.name}, off by {100 * violation:g} %"
            made.append(Case(said, truth, plant(kind, violation), kind.group, settings))
    mask, boxes, rows = (
        {"output_action": "masks"},
        {"output_action": Unordered("iou")},
        {"output_action": Unordered("distance")},
    )
    gain, dim = Transform("gain", [0.5, 1.0, 2.0]), Transform("brightness", [0.5, 1.0, 1.5])
    made += [
        Case("masks", "kept", lambda r: mask_model(r, 0), "C4", mask),
        Case("masks, 1 of 36 pixels of another class", "violated", lambda r: mask_model(r, 1), "C4", mask),
        Case("sets of boxes", "kept", box_set, "C4", boxes),
        Case("sets of boxes, a tenth of a pixel to the right", "violated", lambda r: box_set(r, 0.1), "C4", boxes),
        Case("sets of boxes, one lost in 20 % of inputs", "violated", lambda r: box_set(r, lost=0.2), "C4", boxes),
        Case("sets of boxes, one too many in 20 %", "violated", lambda r: box_set(r, extra=0.2), "C4", boxes),
        Case("sets of points", "kept", lambda r: row_set(r, 0.0), "S_n", rows),
        Case("sets of points, 2 of 5 too large by 1 %", "violated", lambda r: row_set(r, 0.01), "S_n", rows),
        Case("gain of sound", "kept", lambda r: loudness(r, 0.0), gain),
        Case("gain of sound, off by 1.1 % at twice the gain", "violated", lambda r: loudness(r, 0.01), gain),
        Case("brightness of images", "kept", lambda r: brightness(r, 0.0), dim),
        Case("brightness of images, off by 0.2 % at half of it", "violated", lambda r: brightness(r, 0.01), dim),
    ]  # fmt: skip
    return tuple(made)


def rows_of(chosen: tuple[Case, ...] | None = None, models: int = MODELS, **settings: Any) -> list[Row]:
    """The verdicts of every case, or of those that are chosen."""
    known = cases()
    return measure(known if chosen is None else chosen, models, known, **settings)


def by_kind(rows: list[Row]) -> str:
    """One line a kind: false alarms on its equivariant models, and every violation with its misses."""
    lines = ["| kind | false alarms | planted violation | found | undecided | missed |", "|---|---|---|---|---|---|"]
    for row in rows:
        if row.case.truth == "kept":
            kind, alarms = row.case.name, f"{row.false_alarms} of {row.models}"
            continue
        said = row.case.name.removeprefix(kind).lstrip(", ")
        found = f"{row.counts['broken']} of {row.models}"
        lines.append(f"| {kind} | {alarms} | {said} | {found} | {row.counts['undecided']} | {row.misses} |")
        alarms = ""
    return "\n".join(lines)


def main() -> None:
    """The table of all kinds, and the totals."""
    rows = rows_of()
    print(by_kind(rows) + "\n\n" + totals_of(rows))
