"""Files from elsewhere: what they claim is checked before memory is taken, and nothing in them runs.

The header of an array, the directory of an archive, the metadata of Zarr and the brackets of JSON are a few bytes that
may ask for any amount of memory. All of it is ValueError here; whoever reads the file names it. Nothing is unpickled: a
pickle runs any code. What a model's file or name is, is seen without loading it, and without JAX or PyTorch.
"""

from __future__ import annotations

import importlib.util
import io
import json
import lzma
import math
import os
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, runtime_checkable

import numpy as np

from equitangents.errors import InvalidArgumentError, StoreError
from equitangents.files import open_regular
from equitangents.formatting import memory_size
from equitangents.memory import default_memory_limit, process_memory

if TYPE_CHECKING:  # Zarr takes a while to import
    import zarr

    from equitangents._aliases import FileName

UNREADABLE = (
    OSError, ValueError, KeyError, EOFError, RuntimeError, TypeError, AttributeError, IndexError, MemoryError,
    OverflowError, SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error,
)  # fmt: skip
"""What NumPy and the standard library raise for bytes that are no array, archive or JSON: the more, the less whole."""


_DEEP = 200  # lists and objects within each other
_DEFLATED = 1100  # times: zeros shrink by 1,032 at most
_END = struct.Struct("<4s4H2LH")  # of a zip file, before its comment
_MAGIC = b"\x93NUMPY"
_DESCRIBING = ("zarr.json", ".zarray", ".zattrs")  # files of a Zarr array that are no chunks


@runtime_checkable
class Rows(Protocol):
    """An array that is perhaps on disk: NumPy's, a memory map, or Zarr's, whose rows are read when they are needed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes along the axes."""

    @property
    def dtype(self) -> np.dtype:
        """The type of the numbers."""

    def __getitem__(self, key: Any, /) -> Any:
        """Some of the numbers."""


def read_json(content: bytes | str) -> Any:
    """The value that JSON stands for; ValueError for what is not JSON, or is nested too deeply.

    >>> read_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    inside, depth = [value], 0
    while inside:
        depth += 1
        if depth > _DEEP:
            raise ValueError(f"it is nested too deeply, beyond {_DEEP} lists within each other")
        inside = [
            each
            for one in inside
            if isinstance(one, list | dict)
            for each in (one.values() if isinstance(one, dict) else one)
            if isinstance(each, list | dict)
        ]
    return value


def check_arrays(file: BinaryIO, whole: bool = True) -> None:
    """Check an open .npy or .npz file, which is at its beginning again afterwards; others pass.

    ValueError where a header asks for more than the file holds, an archive unpacks to more than half of the memory that
    this process may use, or the file is larger than all of it, unless it is not to be read `whole`.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if whole and size > process_memory():
        raise ValueError(
            f"it takes {memory_size(size)}, more than the memory there is, {memory_size(process_memory())}"
        )
    start = file.read(len(_MAGIC))
    file.seek(0)
    try:
        if start == _MAGIC:
            _check_npy(file, size)
        elif start.startswith(b"PK"):
            file.seek(max(0, size - _END.size - 2**16))
            end = file.read()
            with zipfile.ZipFile(file) as archive:
                _check_count(archive, end)
                check_archive(archive)
    except ValueError:
        raise
    except (RecursionError, *UNREADABLE) as error:
        raise ValueError(str(error) or type(error).__name__) from None
    finally:
        file.seek(0)


def check_zarr(array: zarr.Array[Any], files: Iterable[str]) -> None:
    """Check a Zarr array with the names of its files; ValueError where what it claims cannot be there.

    That is a chunk larger than the memory, or an array larger than it that lacks more than it: chunks that are not
    there read as one value, so that a few bytes could claim any number of rows.
    """
    number, memory = np.dtype(array.dtype).itemsize, process_memory()
    chunk, claimed = math.prod(array.chunks) * number, math.prod(array.shape) * number
    if chunk > memory:
        raise ValueError(f"each of its chunks takes {memory_size(chunk)}, more than the memory there is")
    if claimed > memory:
        each = math.prod(getattr(array, "shards", None) or array.chunks) * number
        held = each * sum(name not in _DESCRIBING for name in files)
        if claimed - held > memory:
            raise ValueError(f"it claims {memory_size(claimed)}, and holds {memory_size(held)} of it")


def part(name: str, x: Rows, rows: slice | np.ndarray) -> np.ndarray:
    """Some rows of an array that is perhaps on disk; StoreError, which names it, where they cannot be read."""
    if isinstance(x, np.ndarray) and not isinstance(x, np.memmap):
        return np.asarray(x[rows])
    try:
        return np.asarray(x[rows])
    except UNREADABLE as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise StoreError(f"{name} cannot be read: {reason}") from None


def _check_count(archive: zipfile.ZipFile, end: bytes) -> None:
    """Compare the entries of an archive with their number: one with a wrong length swallows the next."""
    at = end.rfind(b"PK\5\6")
    if at < 0 or len(end) < at + _END.size:
        raise ValueError("it has no end")
    counted, found = _END.unpack_from(end, at)[4], len(archive.infolist())
    if counted not in (found, 0xFFFF):  # so many are counted elsewhere
        raise ValueError(f"it says that it has {counted} entries, and {found} are found")


def check_archive(archive: zipfile.ZipFile) -> None:
    """Check the sizes that an archive's directory claims, also against memory, and arrays in it; ValueError."""
    total = 0
    for entry in archive.infolist():
        unpacked, packed = entry.file_size, entry.compress_size
        stored, deflated = entry.compress_type == zipfile.ZIP_STORED, entry.compress_type == zipfile.ZIP_DEFLATED
        if (stored and unpacked != packed) or (deflated and unpacked > _DEFLATED * (packed + 1)):
            raise ValueError(f"{entry.filename} claims {memory_size(unpacked)} and holds {memory_size(packed)}")
        total += 0 if stored else unpacked
    if total > default_memory_limit():
        raise ValueError(
            f"it unpacks to {memory_size(total)}, more than half of the memory, {memory_size(default_memory_limit())}; "
            "save arrays as .npy, which are read as they are needed"
        )
    for entry in archive.infolist():
        with archive.open(entry) as member:
            start = member.read(2**16)
        if start.startswith(_MAGIC):
            _check_npy(io.BytesIO(start), entry.file_size, alone=True)
        elif entry.filename.endswith(".npy"):  # NumPy would give its bytes
            raise ValueError(f"{entry.filename} is no array")


def _check_npy(file: BinaryIO, size: int, alone: bool = False) -> None:
    """Compare the header at the beginning of `file` with the bytes there are, `size`; of objects nothing is known.

    An array that is `alone` in them takes all: one whose header asks for less would be read without its checksum.
    """
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"its format is {version}")
    # the third version differs from the second in its encoding alone
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, _, dtype = read(file)
    except (RecursionError, MemoryError):
        raise ValueError("its header is nested too deeply") from None
    claimed, there = math.prod(shape) * dtype.itemsize, size - file.tell()
    wrong = claimed != there if alone else claimed > there
    if min(shape, default=0) < 0 or (wrong and not dtype.hasobject):
        raise ValueError(f"its header claims {claimed:,} bytes, shape {shape}, and it holds {max(there, 0):,}")


_PICKLED = "it is a pickle, and loading one runs whatever code its author put in"
WHY = f"{_PICKLED}; --trust (trust=True) loads it all the same"
_NO_PICKLES = f"{_PICKLED}; save arrays of numbers, and labels as text by y.astype(str), not arrays of objects"
_STARTS = b"\x93NUMPY", b"PK", b"\x80"  # how .npy, .npz, and pickles start since protocol 2


def read_arrays(name: str, path: FileName) -> np.ndarray | dict[str, np.ndarray]:
    """The array of an .npy file, or those of an .npz file by name.

    Arrays of objects are pickles, and refused. Raises InvalidArgumentError that names `name` and says what the file is
    instead.
    """
    path = str(path)
    said = f"{name} is {path!r}, which"
    if not Path(path).is_file():
        raise InvalidArgumentError(f"{said} is not a file")
    try:
        with open_regular(path) as file:
            if not file.read(8).startswith(_STARTS):
                raise InvalidArgumentError(
                    f"{said} is neither .npy nor .npz; numpy.savez('data.npz', x=x, y=y) writes what is expected"
                )
            file.seek(0)
            check_arrays(file)
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            arrays: dict[str, Any] = {key: loaded[key] for key in loaded.files}
    except InvalidArgumentError:
        raise
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise InvalidArgumentError(f"{said} is not loaded: {_NO_PICKLES}") from None
        raise InvalidArgumentError(f"{said} NumPy cannot read: {error}") from None
    except UNREADABLE as error:
        raise InvalidArgumentError(f"{said} NumPy cannot read: {error}") from None
    foreign = [key for key, value in arrays.items() if not isinstance(value, np.ndarray)]
    if foreign:
        raise InvalidArgumentError(
            f"{said} is an archive that holds {foreign[0]!r}, which is not an array; expected .npz"
        )
    return arrays


def read_named(name: str, path: FileName, needed: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name; InvalidArgumentError as in `read_arrays`, and where a needed one lacks."""
    found = read_arrays(name, path)
    arrays = found if isinstance(found, dict) else {}
    missing = [key for key in needed if key not in arrays]
    if missing:
        raise InvalidArgumentError(name, str(path), missing, f"it holds {', '.join(sorted(arrays)) or 'nothing'}")
    return arrays


def load_data(path: str) -> tuple[Any, Any]:
    """(x, y) from .npy or .npz; y is None unless the archive has an array "y".

    Of an archive "x" is the input; without it, all arrays but "y" are inputs by their names.
    """
    arrays = read_arrays("data", path)
    if isinstance(arrays, np.ndarray):
        return arrays, None
    y = arrays.pop("y", None)
    if not arrays:
        raise InvalidArgumentError("data", str(path), "an array 'x' of inputs")
    return arrays.get("x", arrays), y


def text_of(y: np.ndarray) -> np.ndarray:
    """Bytes as text: they are UTF-8. Raises InvalidArgumentError that names y."""
    try:
        return np.char.decode(y, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            "y", error.object, "labels of text in UTF-8, or whole numbers", verb="holds bytes"
        ) from None


_TORCH = (".pt", ".pth", ".pt2")
_PICKLES = (".pkl", ".pickle", ".joblib")
SUFFIXES = (".onnx", *_TORCH, *_PICKLES)
"""How files of models end; any other text is package.module:object."""

Kind = Literal["onnx", "exported", "script", "pickle", "name"]
_EXPORTED = ("archive_format", "serialized_exported_program.json")
_BUFFER = 2**31 - 1  # bytes of one protocol buffer: larger weights lie beside the file


def check_model(spec: str, trust: bool = False) -> Kind:
    """What kind of model `spec` is; InvalidArgumentError where there is none, or a pickle that nobody trusts.

    Nothing is imported, and nothing unpickled.
    """
    suffix = Path(spec).suffix.lower()
    if suffix not in SUFFIXES:
        check_name(spec, "model", "file.onnx, file.pt2, file.pt (TorchScript) or package.module:object")
        return "name"
    if not Path(spec).is_file():
        raise InvalidArgumentError("model", spec, "a file")
    most = min(_BUFFER, process_memory()) if suffix == ".onnx" else process_memory()
    if (size := Path(spec).stat().st_size) > most:
        raise InvalidArgumentError("model", size, range(most + 1), spec, verb="has bytes,")
    if suffix == ".onnx":
        return "onnx"
    if suffix in _TORCH and (program := _program(spec, suffix)) is not None:
        return program
    if not trust:
        raise InvalidArgumentError("model", spec, "a model that is trusted, and not weights alone", WHY)
    return "pickle"


def check_name(spec: str, what: str, expected: str = "package.module:object") -> tuple[str, str]:
    """(module, object) of "package.module:object", if there is such a module; `what` names the argument in errors.

    As `python -m` does, the working folder is looked into first.
    """
    module, colon, name = spec.partition(":")
    if not (colon and module and name):
        raise InvalidArgumentError(what, spec, expected)
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    top = module.partition(".")[0]
    try:
        known = top in sys.modules or importlib.util.find_spec(top) is not None
    except ValueError:  # names such as "" or those of modules without a spec
        known = False
    if not known:
        raise InvalidArgumentError(what, spec, remedy=f"no module named {top!r}")
    return module, name


def _program(path: str, suffix: str) -> Kind | None:
    """Which kind of program a file of PyTorch holds, by the names in its archive; None for a pickle."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        names = []
    if any(name.rpartition("/")[2] in _EXPORTED for name in names):
        return "exported"
    if any("/code/" in name and name.endswith(".py") for name in names):
        return "script"
    pickled = any(name.endswith("/data.pkl") for name in names)
    return "exported" if suffix == ".pt2" and not pickled else None  # whose reader says what is wrong with it
