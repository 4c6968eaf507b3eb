"""A plugin of pytest for tests of neural-tangents: `equitangents` under its name, a sample of tests, a row for each."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_ROOT = Path(os.environ["PEER_ROOT"])
_SAMPLE = int(os.environ.get("PEER_SAMPLE", "1"))
_LONG = "the test took too long"
_SECONDS = float(os.environ.get("PEER_SECONDS", "120"))


def _alias() -> None:
    """Put our modules where their tests import from; helpers of their tests come from the checkout."""
    ours = importlib.import_module("equitangents")
    functional = importlib.import_module("equitangents.functional")
    sys.modules["neural_tangents"] = ours
    for name in ("stax", "predict"):
        sys.modules[f"neural_tangents.{name}"] = importlib.import_module(f"equitangents.{name}")
    source = ModuleType("neural_tangents._src")
    source.__path__ = [str(_ROOT / "neural_tangents" / "_src")]
    sys.modules["neural_tangents._src"] = source
    for name in ("batching", "empirical", "monte_carlo", "predict"):
        module = ModuleType(f"neural_tangents._src.{name}")
        held = sys.modules[f"neural_tangents.{name}"] if name == "predict" else functional
        vars(module).update({key: getattr(held, key) for key in held.__all__})
        sys.modules[module.__name__] = module
        setattr(source, name, module)
    _collectable(sys.modules["neural_tangents.stax"])
    vars(sys.modules["neural_tangents._src.empirical"])["_DEFAULT_TESTING_NTK_IMPLEMENTATION"] = 1
    batching = vars(sys.modules["neural_tangents._src.batching"])
    batching["_serial"], batching["_parallel"] = functional.batch, lambda fn, *args, **keywords: functional.batch(fn)
    vars(sys.modules["neural_tangents._src.predict"])["_is_on_cpu"] = lambda x: True


def _collectable(stax: Any) -> None:
    """What files name while they are read: a function that JAX no longer has, and names that are not here, to fail in
    the tests that use them."""
    jax = importlib.import_module("jax")
    vars(jax)["tree_map"] = jax.tree.map
    missing = type(stax.Slice)
    missing.__getitem__ = lambda self, index: self
    stax.layer = stax.supports_masking = lambda *args, **keywords: args[0] if args else lambda fn: fn


_alias()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep a sample by hashes of names, so that it is the same in every run."""
    items[:] = [i for i in items if int(hashlib.sha256(i.nodeid.encode()).hexdigest(), 16) % _SAMPLE == 0]


def pytest_runtest_setup(item: Any) -> None:
    """Stop a test that takes too long."""
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)


def _stop(*_: object) -> None:
    raise TimeoutError(_LONG)


def pytest_runtest_makereport(item: Any, call: Any) -> None:
    """Write a row for what a test did, or for its failure in preparation."""
    failed = call.excinfo is not None
    if call.when != "call" and not failed:
        return
    skipped = failed and call.excinfo.errisinstance(_SKIPS)
    cause = ""
    if failed:
        error = call.excinfo.value
        with contextlib.suppress(Exception):
            cause = f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]
    row = {"file": item.path.stem, "test": item.name, "cause": cause}
    row["outcome"] = "skipped" if skipped else "failed" if failed else "passed"
    if cause == f"TimeoutError: {_LONG}":
        row["outcome"] = "unfinished"
    with open(os.environ["PEER_ROWS"], "a") as out:
        out.write(json.dumps(row) + "\n")
    signal.setitimer(signal.ITIMER_PROF, 0)


def _skips() -> tuple[type[BaseException], ...]:
    import unittest

    import pytest

    return unittest.SkipTest, pytest.skip.Exception


_SKIPS = _skips()
