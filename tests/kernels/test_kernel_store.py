"""Kernels kept on disk: read for equal content and for nothing else, whole or not at all, within a limit."""

from __future__ import annotations

import logging
import os
import threading

import jax.numpy as jnp
import numpy as np
import pytest

from equitangents import archives, nn
from equitangents.errors import InvalidTypeError
from equitangents.files import cache_folder
from equitangents.kernels import KeptKernel, KernelStore
from equitangents.kernels.store import described, kernel_key

NET = nn.Sequential(nn.Dense(1, W_std=1.5), nn.Relu(), nn.Dense(1))
X = np.random.default_rng(0).normal(size=(7, 3))


@pytest.fixture
def store(tmp_path):
    return KernelStore(tmp_path)


def says(caplog, text):
    return any(text in record.getMessage() for record in caplog.records)


def key(net=NET, x1=X, x2=None, engine="cpu"):
    return kernel_key(net.lower(x1.shape[1:])[1], x1, x2, engine)


class TestWhatIsRead:
    @pytest.mark.parametrize("x2", [None, X[:4] + 1])
    def test_is_what_was_computed_to_the_last_bit(self, store, x2):
        first = KeptKernel(NET, store, tile=3).kernel(X, x2)
        again = KeptKernel(NET, store, tile=3).kernel(X, x2)
        direct = NET.kernel(X, x2)
        for field in ("nngp", "ntk"):
            np.testing.assert_array_equal(getattr(first, field), getattr(again, field))
            np.testing.assert_allclose(getattr(first, field), getattr(direct, field), rtol=1e-12)
        assert (again.engine, again.form) == (first.engine, first.form) == (direct.engine, direct.form)

    def test_a_network_is_not_asked_again(self, store, monkeypatch):
        KeptKernel(NET, store).kernel(X)
        monkeypatch.setattr(nn.Sequential, "kernel", lambda *_: pytest.fail("computed again"))
        KeptKernel(NET, store).kernel(X)

    def test_more_inputs_read_the_tiles_of_fewer(self, store, caplog):
        caplog.set_level(logging.INFO)
        KeptKernel(NET, store, tile=2).kernel(X[:4])
        KeptKernel(NET, store, tile=2).kernel(X[:6])
        assert says(caplog, "3 of 6 tiles were read")


def of_layers(*layers):
    return nn.Sequential(*layers, nn.Dense(1))


def windows(size):
    return of_layers(nn.Conv(1, size, padding="circular"), nn.Relu(), nn.Flatten())


def test_the_key_differs_with_all_that_kernels_depend_on(monkeypatch):
    last_bit, grid = X.copy(), np.zeros((2, 4, 4, 1))
    last_bit[3, 1] = np.nextafter(last_bit[3, 1], 9)
    calls = [
        {}, {"x1": last_bit}, {"x2": X}, {"x2": last_bit}, {"x1": X.astype(np.float32)}, {"x1": X[:6]},
        {"engine": "reference"}, {"net": of_layers(nn.Dense(1, W_std=1.5 + 1e-15), nn.Relu())},
        {"net": of_layers(nn.Dense(1, W_std=1.5), nn.LeakyRelu(0.1))},
        {"net": nn.Sequential(nn.Dense(1, W_std=1.5), nn.Relu(), nn.Dense(1, b_std=0.1))},
        {"net": windows(1), "x1": grid}, {"net": windows(3), "x1": grid},
    ]  # fmt: skip
    keys = [key(**call) for call in calls]
    assert len(set(keys)) == len(calls)
    assert key(net=of_layers(nn.Dense(64, W_std=1.5), nn.Relu())) == key(), "kernels do not see widths"
    monkeypatch.setattr("equitangents.kernels.store.VERSION", 99)
    assert key() not in keys


conv = lambda size=3: nn.Conv(4, size, padding="zero", b_std=0.5)
END = nn.Flatten(), nn.Dense(1)
WITH_BRANCHES = {
    "residual": (conv(), nn.Residual(nn.Relu(), conv()), *END),
    "summed": (conv(), nn.Relu(), nn.Parallel([conv(), nn.Relu()], conv(1)), nn.Sum(), *END),
    "side by side": (conv(), nn.Relu(), nn.Parallel([conv(), nn.Relu()], conv(1)), nn.Concatenate(), *END),
    "joined in groups": (
        conv(),
        nn.Relu(),
        nn.Parallel([conv(), nn.Relu()], nn.Identity(), conv(1)),
        nn.Sum((0, 1), (1, 2)),
        nn.Parallel(nn.Dropout(0.25), conv()),
        nn.Concatenate(),
        *END,
    ),
    "attention in one": (conv(), nn.Relu(), nn.Parallel(nn.Attention(4), conv()), nn.Sum(), nn.Relu(), *END),
    "of features": (
        nn.PointCloud("SO(2)", "1x0+1x1"),
        nn.SteerableConv("2x0+1x1"),
        nn.Parallel(nn.SteerableDense("2x0+1x1"), nn.Identity()),
        nn.Sum(),
        nn.SteerablePool(),
        nn.SteerableDense("1x0"),
    ),
}


class TestWhatIsDescribed:
    def test_is_of_every_space_and_nothing_else_has_the_same(self):
        nets = {name: nn.Sequential(*layers) for name, layers in WITH_BRANCHES.items()}
        shapes = {name: (5, 5) if name == "of features" else (5, 2) for name in nets}
        texts = {described(net.lower(shapes[name])[1]) for name, net in nets.items()}
        assert len(texts) == len(nets)
        again = [described(nn.Sequential(*layers).lower(shapes[name])[1]) for name, layers in WITH_BRANCHES.items()]
        assert set(again) == texts


class TestFiles:
    @pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:300] + b"\0" + b[301:]])
    def test_that_are_damaged_are_computed_anew_and_said_so(self, store, caplog, damage):
        first = KeptKernel(NET, store).kernel(X)
        (path,) = store.files
        path.write_bytes(damage(path.read_bytes()))
        again = KeptKernel(NET, store).kernel(X)
        np.testing.assert_array_equal(again.ntk, first.ntk)
        assert says(caplog, "is damaged")
        caplog.clear()
        KeptKernel(NET, store).kernel(X)
        assert not says(caplog, "is damaged")

    def test_under_the_wrong_name_are_not_taken(self, store, caplog):
        KeptKernel(NET, store).kernel(X)
        (path,) = store.files
        os.replace(path, path.with_name(key(x1=X + 1) + ".npz"))
        assert store.read(key(x1=X + 1)) is None
        assert says(caplog, "holds another kernel")

    def test_beyond_the_limit_the_least_recently_used_goes(self, tmp_path):
        store = KernelStore(tmp_path)
        for i in range(3):
            KeptKernel(NET, store).kernel(X + i)
            os.utime(tmp_path / f"{key(x1=X + i)}.npz", (i + 1, i + 1))
        limit = int(3.5 * store.size / 3)
        KeptKernel(NET, store).kernel(X)  # used again, so that the second is now the oldest
        KeptKernel(NET, KernelStore(tmp_path, limit)).kernel(X + 3)
        assert {path.stem for path in store.files} == {key(x1=X + i) for i in (0, 2, 3)}

    def test_clear_removes_all(self, store):
        KeptKernel(NET, store, tile=4).kernel(X)
        assert store.clear()[0] == 3
        assert (store.files, store.size) == ([], 0)

    def test_that_cannot_be_written_are_said_so_and_the_kernel_is_there(self, tmp_path, caplog):
        (tmp_path / "file").write_text("in the way")
        kernel = KeptKernel(NET, KernelStore(tmp_path / "file" / "kernels")).kernel(X)
        np.testing.assert_array_equal(kernel.ntk, NET.kernel(X).ntk)
        assert says(caplog, "nothing can be kept")


def test_a_header_that_python_fails_to_parse_beside_another_thread_is_read_again(tmp_path, monkeypatch):
    kernels, store, calls = NET.kernel(X), KernelStore(tmp_path), []
    store.write("k" * 64, kernels)

    def check(file, whole):
        calls.append(file)
        if len(calls) == 1:
            raise SystemError("AST constructor recursion depth mismatch (before=42, after=32)")

    monkeypatch.setattr(archives, "check_arrays", check)
    assert np.array_equal(store.read("k" * 64).ntk, kernels.ntk)
    assert len(calls) == 2


def test_two_threads_may_write_and_read_one_kernel_at_once(tmp_path, caplog):
    kernels, read = NET.kernel(X), []

    def work():
        for _ in range(20):
            store = KernelStore(tmp_path)
            store.write("k" * 64, kernels)
            read.append(store.read("k" * 64))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read) == 40
    assert all(found is not None and np.array_equal(found.ntk, kernels.ntk) for found in read)
    assert not caplog.records
    assert [path.name for path in tmp_path.iterdir()] == ["k" * 64 + ".npz"]


def test_the_folder_is_that_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUITANGENTS_CACHE", str(tmp_path / "mine"))
    assert KernelStore().folder == tmp_path / "mine" / "kernels"
    monkeypatch.delenv("EQUITANGENTS_CACHE")
    assert "equitangents" in str(cache_folder())


def test_a_function_of_the_users_has_no_description_by_content(store):
    net = nn.Sequential(nn.Dense(1), nn.Elementwise(jnp.tanh), nn.Dense(1))
    with pytest.raises(InvalidTypeError, match="compute it without a store"):
        KeptKernel(net, store).kernel(X)
    with pytest.raises(InvalidTypeError, match="expected a network"):
        KeptKernel(object(), store)
