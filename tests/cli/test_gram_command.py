"""`equitangents gram`: a file of inputs, a store on disk, and what bad input gets."""

from __future__ import annotations

import os

import numpy as np
import pytest
import zarr

from equitangents.nn.specification import plain_network

X = np.random.default_rng(0).normal(size=(9, 3))
NET = plain_network("mlp", 1, 1.5, 0.1)


@pytest.fixture
def data(tmp_path):
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy"


@pytest.fixture
def run(command, data, tmp_path):
    """Status, standard output and standard error of the command on the data."""

    def call(*arguments, out="k.zarr"):
        options = ["--data", data, *(["--out", tmp_path / out] if out else []), "--net", "mlp", "--depth", 1]
        return command("gram", *options, "--W-std", 1.5, *arguments)

    return call


def kept(tmp_path, name="ntk"):
    return zarr.open_group(tmp_path / "k.zarr", mode="r")[name][:]


def test_the_store_holds_the_kernel_of_the_network(run, tmp_path):
    status, out, err = run("--tile", 4)
    assert (status, out) == (0, f"{tmp_path / 'k.zarr'}: complete; arrays ntk and nngp, 9 × 9, float64\n")
    assert "6 of 6 tiles computed" in err
    np.testing.assert_allclose(kept(tmp_path), NET.kernel(X).ntk, rtol=1e-12)
    np.testing.assert_allclose(kept(tmp_path, "nngp"), NET.kernel(X).nngp, rtol=1e-12)


def test_shards_together_are_the_whole_the_same_command_goes_on(run, tmp_path):
    status, out, _ = run("--tile", 4, "--shard", "0/2")
    assert (status, "part 0/2 is done; 3 of 6 tiles are missing" in out) == (0, True)
    assert "3 of 6 tiles computed, the others were there" in run("--tile", 4)[2]
    assert "part 1/2 is done; complete" in run("--tile", 4, "--shard", "1/2")[1]
    assert not np.isnan(kept(tmp_path)).any()
    assert "0 of 6 tiles computed" in run()[2]


def test_against_others_in_an_archive_and_in_the_precision_asked_for(run, tmp_path):
    np.savez(tmp_path / "z.npz", x=X[:4] + 1)
    assert run("--against", tmp_path / "z.npz", "--precision", "float32")[0] == 0
    np.testing.assert_allclose(kept(tmp_path), NET.kernel(X, X[:4] + 1).ntk, rtol=1e-5)
    assert kept(tmp_path).dtype == np.float32


def test_standardised_inputs_are_those_of_a_fit_and_others_follow_the_data(run, data, tmp_path):
    np.save(data, 100 * X + 7)
    np.savez(tmp_path / "z.npz", x=100 * X[:4] + 50)
    status, _, err = run("--standardise", "--against", tmp_path / "z.npz")
    assert (status, err.splitlines()[0]) == (0, "inputs are standardised: each channel")
    x = 100 * X + 7
    first, second = ((z - x.mean(axis=0)) / x.std(axis=0) for z in (x, 100 * X[:4] + 50))
    np.testing.assert_allclose(kept(tmp_path), NET.kernel(first, second).ntk, rtol=1e-10)


def test_rows_that_were_added_to_the_data_are_computed(run, data, tmp_path):
    run("--tile", 4)
    np.save(data, np.concatenate([X, X + 1]))
    assert run()[0] == 0
    assert kept(tmp_path).shape == (18, 18)
    assert not np.isnan(kept(tmp_path)).any()


def test_check_repairs_what_is_damaged(run, tmp_path):
    run("--tile", 4)
    good = kept(tmp_path)
    path = tmp_path / "k.zarr" / "ntk" / "c" / "0" / "1"
    path.write_bytes(b"\1" + path.read_bytes()[1:])
    assert "1 of 6 tiles computed" in run("--check")[2]
    np.testing.assert_array_equal(kept(tmp_path), good)
    assert "0 of 6 tiles computed" in run("--check")[2]


def test_estimate_prints_and_makes_nothing(run, tmp_path):
    status, out, _ = run("--estimate", out=None)
    assert (status, "pairs of inputs     45" in out) == (0, True)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes among files")
def test_a_pipe_is_refused_since_it_is_read_once(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    status, _, err = run("--against", tmp_path / "pipe")
    assert (status, err.count("\n")) == (2, 1)
    assert "pipe'; expected a file, since inputs are read more than once; write the pipe to a file" in err


def test_a_store_of_other_data_and_no_worker_are_refused(run, data):
    assert "--workers" in run("--workers", 0)[2]
    run()
    np.save(data, X + 1)
    status, _, err = run()
    assert status == 2
    assert err.startswith("equitangents: --data has other values in the first rows")


def test_a_network_of_ones_own_is_named_by_its_module(run, tmp_path, monkeypatch):
    (tmp_path / "my_gram_net.py").write_text(
        "from equitangents import nn\nnet = nn.Sequential(nn.Dense(1, W_std=2.0), nn.Erf(), nn.Dense(1))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert run("--net", "my_gram_net:net")[0] == 0
    from my_gram_net import net

    np.testing.assert_allclose(kept(tmp_path), net.kernel(X).ntk, rtol=1e-12)
