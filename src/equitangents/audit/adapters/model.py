"""Interface of models in an audit: outputs of a batch and, if supported, in double precision and of every layer.

Outputs are plain trees of dictionaries and tuples, of which one can be selected by name. Mappings, dataclasses and
named tuples, as model hubs return them, become dictionaries without entries that are None.
"""

from __future__ import annotations

import contextlib
import sysconfig
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, final

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from equitangents._types import AnyAction, Tree
from equitangents.audit.contract.trees import Batch, to_numpy
from equitangents.audit.contract.unordered import most_items, stacked
from equitangents.errors import (
    EquitangentsError,
    InvalidArgumentError,
    InvalidTypeError,
    ModelError,
    NotFiniteError,
    ShapeError,
)
from equitangents.validation import is_half

Keep = Callable[[Any], Any]
"""Reduces an array of features: `folded`, or np.array to keep all."""


@dataclass(frozen=True, eq=False)
class Answer:
    """The arrays that a model returned, each (N, …) float64, their tree, and the type they came in."""

    leaves: tuple[np.ndarray, ...]
    structure: PyTreeDef
    dtype: np.dtype
    whole: tuple[bool, ...] = ()
    """Which arrays came as whole numbers (N,): class numbers, unless outputs="values"."""
    complex_pairs: tuple[bool, ...] = ()
    """Which arrays came as complex numbers; they are pairs of real ones along a new last axis."""
    axes: tuple[int, ...] = ()
    """Batch axis of every array in the model; empty: all along the first axis."""

    def tree(self, leaves: Sequence[np.ndarray]) -> Tree:
        """Other arrays in the form that the model returns."""
        paired = self.complex_pairs or (False,) * len(leaves)
        whole = [a[..., 0] + 1j * a[..., 1] if pair else a for a, pair in zip(leaves, paired, strict=True)]
        whole = [np.moveaxis(a, 0, axis) for a, axis in zip(whole, self.axes or (0,) * len(whole), strict=True)]
        return jax.tree.unflatten(self.structure, whole)


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """Input and output of one layer."""

    name: str
    kind: str
    inputs: Tree
    """The reduced input; None: unknown."""
    outputs: Tree
    rounding: float = 0.0
    """Machine epsilon of a layer in half precision, which `outputs` do not show; else 0."""


_HALF = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


@final
class Traced:
    """Layers of any library in the order of their calls; repeated calls are numbered.

    Features are the first array of real numbers, of at least two axes, in a layer's input or output.
    """

    def __init__(self, keep: Keep) -> None:
        self.layers: list[LayerTrace] = []
        self._keep, self._calls = keep, Counter[str]()

    def add(self, name: str, kind: str, read: Tree, made: Tree) -> None:
        """Add a call with its reduced input `read` and its output `made`; only counted if that has no features."""
        self._calls[name] += 1
        again = f" (call {self._calls[name]})" if self._calls[name] > 1 else ""
        features = _features(made)
        if features is not None:
            rounding = _HALF.get(str(features.dtype).removeprefix("torch."), 0.0)
            self.layers.append(LayerTrace(name + again, kind, read, self._keep(to_numpy(features)), rounding))

    def kept(self, tree: Tree) -> Tree:
        """Reduced features, taken before a layer may change them in place; None without features."""
        features = _features(tree)
        return None if features is None else self._keep(to_numpy(features))


def _features(tree: Tree) -> Any:
    real = (a for a in jax.tree.leaves(plain(tree)) if "float" in str(getattr(a, "dtype", "")))
    features = next(real, None)
    return None if features is None or isinstance(features, jax.core.Tracer) or np.ndim(features) < 2 else features


class Model(ABC):
    """One model; `run(x)` takes the tree of a batch, NumPy leaves, and returns the model's own output."""

    kind: str
    name: str
    device: str = "cpu"
    states_layout: bool = False
    """Whether the layout of images must be inferred or given, as there is no convention."""
    fixed_batch: int | None = None
    """The only batch size of the model; None: any."""
    least_batch: int = 1
    """Smaller batches are padded."""
    streams: bool = False
    """Whether layers are visited one by one, so that only one is in memory."""
    select: Select = None
    """The output to audit; None: all."""
    foreign: bool = True
    """Whether exceptions inside are shown in one line, as those of another library."""

    def __call__(self, x: Tree) -> Tree:
        """The output that is audited, for one batch, as a plain tree."""
        return chosen(self.run(x), self.select)

    def check_inputs(self, x: Tree, axes: Sequence[int] = ()) -> None:  # noqa: B027
        """Raise ShapeError if the model is known not to take the batch x; nothing is computed.

        `axes`: where every array of x has its batch; empty: along the first axis.
        """

    def failed(self, error: Exception, x: Tree) -> Exception:
        """The exception to raise if the model raised `error` for the batch x."""
        if isinstance(error, EquitangentsError) or not self.foreign:
            return error
        given = ", ".join(f"{name} {np.shape(a)}" for name, a in _leaves(x))
        return ModelError(f"{self.name} failed on inputs of shape {given}: {in_short(error)}")

    @property
    def classes(self) -> np.ndarray | None:
        """The labels that the columns of the output stand for; None: 0, 1, 2, …, or no classes."""
        return None

    @abstractmethod
    def run(self, x: Tree) -> Tree:
        """The model's output for one batch."""

    def double(self) -> Callable[[Any], Any] | None:
        """`run` in double precision for float64 inputs; None if the model cannot."""
        return None

    def trace(self, x: Tree, keep: Keep = np.array) -> list[LayerTrace] | None:
        """Every layer's input and output for one batch, in order of execution; None if the model does not show them.

        `keep` reduces an array; if `streams` it is called while the model runs.
        """
        return None

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """A context in which the model can be evaluated; it is restored afterwards."""
        yield

    def members(self) -> list[Model] | None:
        """The members of an ensemble whose mean this model is; None for single models."""
        return None


def arguments(x: Tree) -> tuple[Tree, ...]:
    """The arguments of a function for a batch: a tuple is several, anything else one."""
    return x if isinstance(x, tuple) else (x,)


def answer(output: Tree, n: int, expected: AnyAction = None, finite: bool = True) -> Answer:
    """A model's output as arrays; raises unless it has one row per input, finite unless `finite` is False.

    `expected`, the tree of output actions, tells which outputs are sets, and their batch axes.
    """
    most = most_items(expected)
    output = output if most is None else stacked(output, n, most, expected)
    pairs, structure = jax.tree_util.tree_flatten_with_path(output)
    names = ["f(x)" + jax.tree_util.keystr(path) for path, _ in pairs]
    arrays = [to_numpy(leaf, name) for name, (_, leaf) in zip(names, pairs, strict=True)]
    if not arrays:
        raise ShapeError("f(x)", structure, "an array", verb="holds no array:")
    axes = axes_of(expected, structure, len(arrays))
    arrays = [np.moveaxis(a, axis, 0) if a.ndim > axis > 0 else a for a, axis in zip(arrays, axes, strict=True)]
    choose = _choices(output, names, n)
    for name, a in zip(names, arrays, strict=True):
        _check(name, a, n, choose, finite, sets=most is not None)
    given = [_dtype(leaf) for _, leaf in pairs]
    floats = [np.dtype(f"f{d.itemsize // 2}") if d.kind == "c" else d for d in given if d.kind in "fc" or is_half(d)]
    dtype = min(floats, key=lambda d: d.itemsize) if floats else np.dtype(np.float64)
    whole = tuple(a.ndim == 1 and a.dtype.kind in "iub" for a in arrays)
    paired = tuple(a.dtype.kind == "c" for a in arrays)
    return Answer(tuple(map(as_real, arrays)), structure, dtype, whole, paired, tuple(axes))


_LARGEST = 1e150
"""Largest output: the sum of squares of 10⁸ such numbers is finite."""
_NAMED = 6
_SETS = (
    "f(x) is a list with one entry an input: output_action says what its sets are, such as "
    "{'boxes': equitangents.audit.Unordered(match='iou')}"
)


def _check(name: str, a: np.ndarray, n: int, choose: str, finite: bool, sets: bool) -> None:
    """Raise unless an output holds numbers, one row of them for each of n inputs; sets may be empty."""
    if a.dtype.kind not in "fiubc":
        raise ShapeError(name, a.dtype, "numbers (of a classifier: scores, not names)", choose, verb="has dtype")
    if a.ndim == 0 or len(a) != n:
        axis = next((axis for axis in range(1, a.ndim) if a.shape[axis] == n), None)
        batch = "" if axis is None else f"for batches along that axis output_action is Batch(kind, axis={axis})"
        raise ShapeError(name, a.shape, f"one row an input, {n} rows", "; ".join(filter(None, (choose, batch))))
    if a.size == 0 and not sets:
        raise ShapeError(name, a.shape, "at least one number an input", choose)
    if finite and not np.isfinite(a).all():
        raise NotFiniteError(name, tuple(int(i) for i in np.argwhere(~np.isfinite(a))[0]))
    if a.dtype.kind in "fc" and a.dtype.itemsize > 4:  # which may hold them
        largest = float(np.max(np.abs(a), initial=0.0, where=np.isfinite(a)))
        if largest > _LARGEST:
            most = f"at most {_LARGEST:.0e}, values whose squares have a finite sum"
            raise NotFiniteError(name, largest, most, "divide the outputs by a constant", verb="holds")


def _choices(output: Tree, names: list[str], n: int) -> str:
    """The values of `select=`, for an error about one of several outputs; "" for a single output."""
    if isinstance(output, list) and len(output) == n:
        return _SETS
    few = [*names[:_NAMED], "…"] if len(names) > _NAMED else names
    return "" if len(names) < 2 else "select= chooses among " + ", ".join(few)


def as_real(a: np.ndarray) -> np.ndarray:
    """Numbers as float64, complex ones as pairs along a new last axis."""
    return np.stack([a.real, a.imag], axis=-1).astype(np.float64) if a.dtype.kind == "c" else a.astype(np.float64)


def axes_of(expected: AnyAction, structure: PyTreeDef, count: int) -> list[int]:
    """Batch axis of every output, by the tree of output actions."""
    parts, own = jax.tree.flatten(expected, is_leaf=lambda part: part is None)
    if own != structure and not (len(parts) == count == 1):
        return [0] * count
    return [part.axis if isinstance(part, Batch) else 0 for part in parts]


def _dtype(leaf: Tree) -> np.dtype:
    """The type of an array as the model returned it, by NumPy's name; that of half precision is known to JAX."""
    dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return jax.numpy.dtype(str(dtype).removeprefix("torch."))


def first_line(error: BaseException) -> str:
    """The first line of an exception, or its class."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def in_short(error: BaseException) -> str:
    """Class, first line and place of an exception."""
    return f"{type(error).__name__}: " + ", at ".join(filter(None, (first_line(error)[:300], raised_at(error))))


def raised_at(error: BaseException) -> str:
    """file:line of the innermost frame of the user's code in an exception; "" without any.

    The user's code is outside this package and installed packages; if there is none, any frame outside this package.
    """
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(("<", _OURS))]
    own = [f for f in frames if "site-packages" not in f.filename and not f.filename.startswith(_STANDARD)]
    return next((f"{Path(f.filename).name}:{f.lineno}" for f in reversed(own or frames)), "")


_OURS = str(Path(__file__).parents[2])
_STANDARD = sysconfig.get_paths()["stdlib"]


def _leaves(x: Tree) -> list[tuple[str, Any]]:
    pairs, _ = jax.tree_util.tree_flatten_with_path(x)
    return [("x" + jax.tree_util.keystr(path), leaf) for path, leaf in pairs]


Select = str | int | None


def check_select(select: Any) -> Select:
    """`select`, or an error unless it is a name, a position or None."""
    if select is None or (isinstance(select, str | int) and not isinstance(select, bool)):
        return select
    raise InvalidTypeError("select", select, "the name of an output, the position of one, or None")


def chosen(output: Tree, select: Select) -> Tree:
    """The output `select`, a name or position, or all for None; as plain trees.

    Raises InvalidArgumentError with the names of the outputs.

    >>> chosen({"logits": 1.0, "states": (2.0, 3.0), "loss": None}, "states")
    (2.0, 3.0)
    """
    whole = plain(output)
    if select is None:
        return whole
    names = (
        list(whole) if isinstance(whole, dict) else list(range(len(whole))) if isinstance(whole, tuple | list) else []
    )
    if isinstance(select, int) and -len(names) <= select < len(names):
        select = names[select]
    if select not in names:
        raise InvalidArgumentError("select", select, names or None, "the outputs of f")
    return whole[select]


def plain(output: Tree) -> Tree:
    """Mappings, dataclasses and named tuples, also within trees, as dictionaries without entries that are None."""
    named = _named(output)
    if named is not None:
        return {name: plain(value) for name, value in named.items() if value is not None}
    if isinstance(output, tuple | list):
        return type(output)(plain(value) for value in output)
    return output


def _named(output: Tree) -> dict[str, Any] | None:
    """The entries of an output that has names; None for others."""
    if isinstance(output, Mapping):
        return _by_text([(name, value) for name, value in output.items()])
    if isinstance(output, tuple) and hasattr(output, "_fields"):
        return dict(zip(output._fields, output, strict=True))
    if is_dataclass(output) and not isinstance(output, type):
        return {f.name: getattr(output, f.name) for f in fields(output)}
    if hasattr(output, "keys") and hasattr(output, "__getitem__"):
        return _by_text([(name, output[name]) for name in output.keys()])  # noqa: SIM118
    return None


def _by_text(entries: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Entries by their names as text; raises an error if two are equal."""
    by_text = {str(name): value for name, value in entries}
    if len(by_text) < len(entries):
        raise InvalidArgumentError(
            "f",
            [name for name, _ in entries],
            "names of outputs that differ as text",
            "rename one",
            verb="has the outputs",
        )
    return by_text
