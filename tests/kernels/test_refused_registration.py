"""A compiled engine whose calls JAX refuses is not available, and says so once."""

import json
import logging
from collections.abc import Iterator

import jax.ffi
import numpy as np
import pytest

from equitangents.cli import self_test
from equitangents.cli.main import main
from equitangents.kernels.engines import select
from equitangents.kernels.engines.cpu import library
from equitangents.nn import compiled_windows


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*args: object, **more: object) -> None:
        raise RuntimeError("INVALID_ARGUMENT: wrong api version\nmore lines")

    kept = (library.registered, library._refused, compiled_windows._registered)
    for each in kept:
        each.cache_clear()
    monkeypatch.setattr(jax.ffi, "register_ffi_target", refuse)
    yield
    for each in kept:
        each.cache_clear()


def test_leaves_the_reference_engine_and_one_warning(refused: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "equitangents"):
        whys = [library.why_unavailable() for _ in range(3)]
    assert str(whys[0]).endswith("INVALID_ARGUMENT: wrong api version")
    assert (len(set(whys)), len(caplog.records)) == (1, 1)


def test_no_call_of_the_library_is_registered_then(refused: None) -> None:
    """Whoever asks for the library is told why, those of windows too."""
    with pytest.raises(RuntimeError, match="not available: JAX cannot register its calls"):
        compiled_windows._registered("outputs", np.dtype("float32").name)
    with pytest.raises(RuntimeError, match="not available: JAX cannot register its calls"):
        library.library()


@pytest.mark.parametrize("asked", [None, "reference"])
def test_doctor_says_why_in_one_line(refused: None, asked: str | None, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(self_test, "CHECKS", [])
    if asked is not None:
        monkeypatch.setenv(select.VARIABLE, asked)
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "--json", str(tmp_path / "d.json")])
    told = json.loads((tmp_path / "d.json").read_text("utf-8"))["installation"]
    assert stop.value.code in (0, None)
    assert told["cpu engine"].startswith("not available: JAX cannot register its calls")
    assert told["cpu engine"].endswith("INVALID_ARGUMENT: wrong api version")
    assert told["kernel engine"].startswith("reference")
