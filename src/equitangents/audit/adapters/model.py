"""What an audit asks of a model: outputs for a batch; if it can, outputs in double precision and of every layer.

Outputs are plain trees of dictionaries and tuples, of which one can be chosen by name.
Model hubs return dictionaries of classes of their own, dataclasses or named tuples, with None where an output was not
asked for.
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
"""What is kept of an array of features: `folded`, or np.array for all of it."""


@dataclass(frozen=True, eq=False)
class Answer:
    """The arrays that a model returned, each (N, …) float64, their tree, and the type they came in."""

    leaves: tuple[np.ndarray, ...]
    structure: PyTreeDef
    dtype: np.dtype
    whole: tuple[bool, ...] = ()
    """Which arrays came as whole numbers (N,): class numbers, unless the audit is told that they are values."""
    complex_pairs: tuple[bool, ...] = ()
    """Which arrays came as complex numbers; they are pairs of real ones along a new last axis."""
    axes: tuple[int, ...] = ()
    """Where the model has the batch of every array; empty: all along the first axis."""

    def tree(self, leaves: Sequence[np.ndarray]) -> Tree:
        """Other arrays in place of these, as the model returns them."""
        paired = self.complex_pairs or (False,) * len(leaves)
        whole = [a[..., 0] + 1j * a[..., 1] if pair else a for a, pair in zip(leaves, paired, strict=True)]
        whole = [np.moveaxis(a, 0, axis) for a, axis in zip(whole, self.axes or (0,) * len(whole), strict=True)]
        return jax.tree.unflatten(self.structure, whole)


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """What one layer read and made."""

    name: str
    kind: str
    inputs: Tree
    """What was kept of the array that it read; None: not seen."""
    outputs: Tree
    rounding: float = 0.0
    """The rounding of one operation of the layer, if that is coarser than the type of `outputs`: of half precision."""


_HALF = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


@final
class Traced:
    """Layers in the order in which they are called, whatever library's they are; one that is called again is numbered.

    Features are the first array of real numbers, of at least two axes, of what a layer reads or makes.
    """

    def __init__(self, keep: Keep) -> None:
        self.layers: list[LayerTrace] = []
        self._keep, self._calls = keep, Counter[str]()

    def add(self, name: str, kind: str, read: Tree, made: Tree) -> None:
        """One more call: what was kept of what the layer read, and what it made; counted alone if no features."""
        self._calls[name] += 1
        again = f" (call {self._calls[name]})" if self._calls[name] > 1 else ""
        features = _features(made)
        if features is not None:
            rounding = _HALF.get(str(features.dtype).removeprefix("torch."), 0.0)
            self.layers.append(LayerTrace(name + again, kind, read, self._keep(to_numpy(features)), rounding))

    def kept(self, tree: Tree) -> Tree:
        """What is kept of features, now, as a layer may work in place; None where there are none."""
        features = _features(tree)
        return None if features is None else self._keep(to_numpy(features))


def _features(tree: Tree) -> Any:
    real = (a for a in jax.tree.leaves(plain(tree)) if "float" in str(getattr(a, "dtype", "")))
    found = next(real, None)
    return None if found is None or isinstance(found, jax.core.Tracer) or np.ndim(found) < 2 else found


class Model(ABC):
    """One model; `run(x)` takes the tree of a batch, NumPy leaves, and returns the model's own output."""

    kind: str
    name: str
    device: str = "cpu"
    states_layout: bool = False
    """Whether the layout of images is read off shapes or given, never assumed: such models have no habit."""
    fixed_batch: int | None = None
    """Not None: the model takes batches of this size alone."""
    least_batch: int = 1
    """Smaller batches are filled up."""

    streams: bool = False
    """Whether layers are seen one by one, so that no two of them need be held."""

    select: Select = None
    """Which of several outputs is audited; None: all of them."""
    foreign: bool = True
    """Whether what goes wrong inside comes from a library: its errors are then told in one line."""

    def __call__(self, x: Tree) -> Tree:
        """The output that is audited, for one batch, as a plain tree."""
        return chosen(self.run(x), self.select)

    def check_inputs(self, x: Tree, axes: Sequence[int] = ()) -> None:  # noqa: B027
        """Raise ShapeError if the model is known not to take the batch x; nothing is computed.

        `axes`: where every array of x has its batch; empty: along the first axis.
        """

    def failed(self, error: Exception, x: Tree) -> Exception:
        """What to raise where the model raised `error` for the batch x."""
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

        `keep` says what is kept of an array; where `streams` it is called while the model runs.
        """
        return None

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Within it the model is ready to be evaluated; afterwards it is as it was."""
        yield

    def members(self) -> list[Model] | None:
        """The members of an ensemble whose mean this model is; None for single models."""
        return None


def arguments(x: Tree) -> tuple[Tree, ...]:
    """What a batch is to a function: a tuple is several arguments, anything else one."""
    return x if isinstance(x, tuple) else (x,)


def answer(output: Tree, n: int, expected: AnyAction = None, finite: bool = True) -> Answer:
    """A model's output as arrays; raises if it has not one row an input, finite unless `finite` is False.

    `expected`, the tree of output actions, says which outputs are sets and where batches are not along the first axis.
    """
    most = most_items(expected)
    output = output if most is None else stacked(output, n, most, expected)
    pairs, structure = jax.tree_util.tree_flatten_with_path(output)
    names = ["f(x)" + jax.tree_util.keystr(path) for path, _ in pairs]
    arrays = [to_numpy(leaf, name) for name, (_, leaf) in zip(names, pairs, strict=True)]
    if not arrays:
        raise ShapeError("f(x) holds no array")
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
"""Of an output: sums of the squares of 10⁸ such numbers are still finite."""

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
    """The names that `select=` could take, for an error about one of several outputs; "" for a single output."""
    if isinstance(output, list) and len(output) == n:
        return _SETS
    few = [*names[:_NAMED], "…"] if len(names) > _NAMED else names
    return "" if len(names) < 2 else "select= chooses among " + ", ".join(few)


def as_real(a: np.ndarray) -> np.ndarray:
    """Numbers as float64, complex ones as pairs along a new last axis."""
    return np.stack([a.real, a.imag], axis=-1).astype(np.float64) if a.dtype.kind == "c" else a.astype(np.float64)


def axes_of(expected: AnyAction, structure: PyTreeDef, count: int) -> list[int]:
    """Where every output has its batch, by the tree of output actions."""
    parts, own = jax.tree.flatten(expected, is_leaf=lambda part: part is None)
    if own != structure and not (len(parts) == count == 1):
        return [0] * count
    return [part.axis if isinstance(part, Batch) else 0 for part in parts]


def _dtype(leaf: Tree) -> np.dtype:
    """The type of an array as the model returned it, by NumPy's name; that of half precision is known to JAX."""
    dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return jax.numpy.dtype(str(dtype).removeprefix("torch."))


def first_line(error: BaseException) -> str:
    """The first line of what was raised, or its class."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def in_short(error: BaseException) -> str:
    """The class and first line of what was raised, and where."""
    return f"{type(error).__name__}: " + ", at ".join(filter(None, (first_line(error)[:300], raised_at(error))))


def raised_at(error: BaseException) -> str:
    """file:line of the innermost place in the user's own code where it was raised; "" where there is none.

    The user's code is that below the audit's that is not in an installed package; without any, where it was raised.
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
    """The output called `select`, by its name or position, or all of them if it is None; as plain trees.

    Raises InvalidArgumentError that names the outputs there are.

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
    """Mappings, dataclasses and named tuples as dictionaries without their entries that are None; within trees, too."""
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
    """Entries by their names as text; an error where two would be called the same."""
    found = {str(name): value for name, value in entries}
    if len(found) < len(entries):
        raise InvalidArgumentError(
            "f",
            [name for name, _ in entries],
            "names of outputs that differ as text",
            "rename one",
            verb="has the outputs",
        )
    return found
