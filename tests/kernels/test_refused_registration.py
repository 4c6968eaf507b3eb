"""A compiled engine whose calls JAX refuses is not available, and says so once."""

import logging

import jax.ffi
import pytest

from equitangents.kernels.engines.cpu import library


def test_leaves_the_reference_engine_and_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*args: object, **more: object) -> None:
        raise RuntimeError("INVALID_ARGUMENT: wrong api version\nmore lines")

    library.registered.cache_clear()
    library._refused.cache_clear()
    monkeypatch.setattr(jax.ffi, "register_ffi_target", refuse)
    try:
        with caplog.at_level(logging.WARNING, "equitangents"):
            whys = [library.why_unavailable() for _ in range(3)]
        assert str(whys[0]).endswith("INVALID_ARGUMENT: wrong api version")
        assert (len(set(whys)), len(caplog.records)) == (1, 1)
    finally:
        library._refused.cache_clear()
        library.registered.cache_clear()
