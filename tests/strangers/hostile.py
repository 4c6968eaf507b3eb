"""Hostile files: valid ones whose parts are exchanged, planted, deepened or enlarged, with checksums of their own."""

from __future__ import annotations

import copy
import functools
import io
import json
import pickle
import random
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from kinds_of_files import contents, packed


class Planted:
    """An object whose pickle runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.system, (self.command,)


def objects(command: str) -> list[Any]:
    """What must never be built."""

    def thing(name: str, /, **state: Any) -> dict[str, Any]:
        pairs = [[key, value] for key, value in state.items()]
        return {"is": "object", "number": 90, "class": name, "state": pairs}

    words = {"is": "list", "items": ["sh", "-c", command]}
    return [
        thing("equitangents.audit.adapters.callables:CallableModel", function=words),
        thing("equitangents.scale.gram:GramStore", path="/nowhere/else"),
        thing("planted_module:Thing", x=1),
        thing("os:system"),
        thing("subprocess:Popen", args=words),
        thing("builtins:eval"),
        thing("nn.Relu", predict=words, __class__="x", kernel=1),
        thing("nn.Dense", channels=-5, W_std=1e300, b_std=float("nan"), parametrisation="x"),
        thing("nn.Dense", channels="5", W_std=words, b_std=None, parametrisation=1),
        thing("nn.Sequential", _layers={"is": "tuple", "items": []}),
        thing("nn.Sequential", _layers={"is": "same", "number": 90}),
        thing("nn.Elementwise", fn=words, tolerance=1),
        thing("solvers.OutOfCore", path="/nowhere/else", tile=1, precision=None, tolerance=1.0),
        thing("solvers.PCG", rank=-1, tolerance=-1.0, max_iterations=0, seed="x"),
        {"is": "class", "name": "equitangents.audit.adapters.callables:CallableModel"},
        {"is": "class", "name": "os:system"},
        {"is": "class", "name": "nn.Dense"},
        {"is": "_object", "number": 0},
        {"is": "given", "name": "net"},
        {"is": "given", "name": "x"},
        {"is": "array", "number": -1},
        {"is": "array", "number": 10**9},
        {"is": "array", "number": "0"},
        {"is": "same", "number": 3},
        {"is": "dtype", "name": "O"},
        {"is": "dtype", "name": "V99999999999"},
        {"is": "number", "dtype": "<U3", "value": {"is": "x"}},
        {"is": "number", "dtype": "O", "value": 3},
        {"is": "path", "name": "/nowhere/else/x"},
        {"is": "slice", "parts": [words, None, None]},
        {"is": "dict", "items": [[{"is": "list", "items": []}, 1]]},
    ]


_DANGEROUS = 7  # the first of them
PLAIN = [None, True, -1, 0, 10**30, 1e308, float("nan"), "", "x" * 3000, "\0", "__class__", [], {}, [[1]], {"is": 3}]


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a tree of JSON."""
    keys = range(len(tree)) if isinstance(tree, list) else list(tree) if isinstance(tree, dict) else ()
    for key in keys:
        yield tree, key
        yield from places(tree[key])


def mutated(tree: Any, rng: random.Random, command: str) -> Any:
    """A tree with one to three parts exchanged."""
    tree = {"root": copy.deepcopy(tree)}
    for _ in range(rng.randint(1, 3)):
        inside, key = rng.choice(list(places(tree)))
        others = [found[at] for found, at in places(tree)]
        how = rng.choice(["plant", "plain", "other", "delete", "rename", "double", "deep", "bomb", "dangerous"])
        if how == "dangerous":  # in place of an object, or as the attribute of one
            at = [(one, key) for one, key in places(tree) if isinstance(one[key], dict) and "is" in one[key]]
            inside, key = rng.choice([*at[: 1 + len(at) // 8], *at]) if at else (inside, key)
            inside[key] = rng.choice(objects(command)[:_DANGEROUS])
        if how == "plant":
            inside[key] = rng.choice(objects(command))
        elif how == "plain":
            inside[key] = rng.choice(PLAIN)
        elif how == "other":
            inside[key] = copy.deepcopy(rng.choice(others))
        elif how == "delete" and inside is not tree:
            del inside[key]
        elif how == "rename" and isinstance(inside, dict) and inside is not tree:
            inside[rng.choice(["predict", "__setstate__", "is", "class", "x"])] = inside.pop(key)
        elif how == "double" and isinstance(inside, list):
            inside.append(copy.deepcopy(inside[key]))
        elif how == "deep":
            for _ in range(rng.choice([50, 150, 190])):
                inside[key] = rng.choice([{"is": "list", "items": [inside[key]]}, [inside[key]]])
        elif how == "bomb":
            for _ in range(40):
                inside[key] = {"is": "list", "items": [{"is": "same", "number": 0}] * 2}
    return tree["root"]


@functools.cache
def arrays(command: str) -> list[bytes]:
    """Files that claim to be arrays."""

    def header(text: str, rest: bytes = b"") -> bytes:
        padded = text.encode() + b" " * 20 + b"\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + rest

    def saved(array: Any) -> bytes:
        file = io.BytesIO()
        np.save(file, array, allow_pickle=True)
        return file.getvalue()

    def about(shape: str, descr: str = "'<f8'") -> str:
        return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"

    def archive(content: bytes, **more: Any) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name in ("x.npy", "y.npy", "fingerprint.npy", "key.npy", "about.npy", "ntk.npy", "nngp.npy"):
                zipped.writestr(name, content)
        return file.getvalue()

    bomb = header(about("(4000000000,)"), bytes(2**24))
    found = [
        saved(np.array([Planted(command)], object)),
        pickle.dumps(Planted(command)),
        header(about("(4000000000,)")),
        header(about("(4000000000, 0)")),
        header(about("(-1,)"), bytes(8)),
        header(about("(2,)", "[('a', '|O')]"), bytes(16)),
        header(about("(1,)", "'|V99999999999'")),
        header(about("(" * 3000)),
        header("-" * 9000 + "1"),
        header(about("(" + "1, " * 90 + ")"), bytes(8)),
        header(about("(True,)"), bytes(8)),
        header("__import__('planted_module')"),
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x09\x09" + bytes(90),
        saved(np.zeros((2, 3), "U4")),
        saved(np.full((5, 2), np.nan)),
        saved(np.zeros((5, 2), complex)),
        saved(np.zeros((), bool)),
        saved(np.zeros((3, 1, 2, 1))),
        bomb,
    ]
    return found + [archive(content) for content in found]


class Hostile:
    """Draws hostile files from a folder of valid ones."""

    def __init__(self, seed: int, command: str) -> None:
        self.rng, self.command, self.arrays = random.Random(seed), command, arrays(command)

    def spoil(self, path: Path) -> str:
        """Change something in a file or folder; what, in words."""
        if (path / "model.npz").is_file() and self.rng.random() < 0.9:  # of a model what is in its archive
            return self._spoil_model(path / "model.npz")
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        texts = [file for file in files if _is_json(file)]
        file = self.rng.choice(texts if texts and self.rng.random() < 0.7 else files)
        how = self._spoil_json(file) if file in texts else self._spoil_array(file)
        return f"{file.name}: {how}"

    def _spoil_model(self, archive: Path) -> str:
        held = contents(archive)
        with tempfile.TemporaryDirectory() as folder:
            name = "model.json" if self.rng.random() < 0.7 else self.rng.choice(list(held))
            file = Path(folder) / name
            file.write_bytes(held[name])
            how = self._spoil_json(file) if name == "model.json" else self._spoil_array(file)
            packed(archive, held | {name: file.read_bytes()})
        return f"{name} of {archive.name}: {how}"

    def _spoil_json(self, file: Path) -> str:
        whole = json.loads(file.read_bytes())
        if self.rng.random() < 0.08:
            deep = self.rng.choice([300, 990, 5000, 10**5])
            text = "[" * deep + "]" * deep
            file.write_text(self.rng.choice([text, json.dumps(whole)[:-1] + ', "deep": ' + text + "}"]))
            return f"{deep} brackets"
        changed = mutated(whole, self.rng, self.command)
        file.write_text(json.dumps(changed))
        return "another content"

    def _spoil_array(self, file: Path) -> str:
        content = self.rng.choice(self.arrays)
        if self.rng.random() < 0.2:
            valid = file.read_bytes()
            cut = self.rng.randrange(len(valid) + 1)
            content = self.rng.choice([valid[:cut], valid[cut:] + valid, valid[:cut] + bytes(8) + valid[cut:]])
        file.write_bytes(content)
        return f"{content[:40]!r}"


def _is_json(file: Path) -> bool:
    try:
        return isinstance(json.loads(file.read_bytes()), list | dict)
    except (ValueError, RecursionError):
        return False
