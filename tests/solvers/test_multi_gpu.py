"""The solver of several GPUs: rows are handed out, what comes back is checked, what is missing is said."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import positive, shifted, targets

from equitangents import InfiniteEnsemble, nn, solvers
from equitangents.errors import (
    EquitangentsError,
    InvalidArgumentError,
    MemoryLimitError,
    MissingLibraryError,
    NotPositiveDefiniteError,
)
from equitangents.solvers import multi_gpu
from equitangents.solvers.method import Task

METHOD = solvers.MultiGPU(tile=4)


def potrs(matrix, right, *, T_A, mesh, in_specs, return_status):
    """What jaxmg 0.0.9 asks for and returns."""
    assert return_status
    rows, size = matrix.shape
    assert rows == size == len(right)
    assert rows % (T_A * mesh.size) == 0
    assert matrix.dtype == right.dtype == np.float64
    assert matrix.sharding.is_equivalent_to(jax.sharding.NamedSharding(mesh, in_specs[0]), 2)
    jax.config.update("jax_enable_x64", True)  # as jaxmg does
    try:
        lower = np.linalg.cholesky(np.asarray(matrix))
    except np.linalg.LinAlgError:
        return jnp.full(right.shape, np.nan), np.int32(3)
    return jnp.asarray(np.linalg.solve(lower.T, np.linalg.solve(lower, np.asarray(right)))), np.int32(0)


@pytest.fixture
def on_processors(monkeypatch):
    """This machine's processors in place of GPUs, and the stand-in."""
    monkeypatch.setattr(multi_gpu, "_FEWEST", 1)
    monkeypatch.setattr(multi_gpu, "gpus", jax.local_devices)
    monkeypatch.setattr(multi_gpu, "potrs", lambda: potrs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("size", "ridge"), [(22, 0.0), (24, 1e-3), (3, 1e-2)])
def test_solutions_are_those_of_the_dense_matrix(on_processors, dtype, size, ridge):
    theta, y, before = positive(size, 100).astype(dtype), targets(size, 2), jax.config.jax_enable_x64
    solution = solvers.solve(theta, y, ridge=ridge, solver=METHOD)
    np.testing.assert_allclose(solution.coefficients, np.linalg.solve(shifted(theta, ridge), y), rtol=1e-9)
    report = solution.report
    assert (report.solver, report.precision) == ("multi-gpu", "float64")
    assert report.residual < 1e-12
    assert "GPUs, by jaxmg" in str(report)
    values = np.linalg.eigvalsh(shifted(theta, ridge))
    np.testing.assert_allclose([report.smallest, report.largest], values[[0, -1]], rtol=0.1)
    assert jax.config.jax_enable_x64 == before


def test_ensembles_are_solved_by_it_and_finite_times_by_lanczos(on_processors):
    x, net = targets(9, 3), nn.Sequential(nn.Dense(1, W_std=1.5, b_std=0.1), nn.Relu(), nn.Dense(1))
    for time in (np.inf, 5.0):
        one, two = (InfiniteEnsemble(net, ridge=1e-2, time=time, solver=s).fit(x, x[:, 0]) for s in (METHOD, "eigh"))
        np.testing.assert_allclose(one.predict(x), two.predict(x), rtol=1e-8)


class TestWrongNumbers:
    @pytest.mark.parametrize("error", [1e-3, 1e-7, np.inf])
    def test_do_not_pass(self, on_processors, monkeypatch, error):
        def wrong(*arguments, **keywords):
            found, status = potrs(*arguments, **keywords)
            return found.at[0, 0].multiply(1 + error), status

        monkeypatch.setattr(multi_gpu, "potrs", lambda: wrong)
        with pytest.raises(EquitangentsError, match=r"relative residual of .* not used|not positive definite"):
            solvers.solve(positive(22, 100), targets(22, 1), solver=METHOD)

    def test_of_a_status_do_not_pass(self, on_processors, monkeypatch):
        monkeypatch.setattr(multi_gpu, "potrs", lambda: lambda *a, **k: (potrs(*a, **k)[0], np.int32(7)))
        with pytest.raises(NotPositiveDefiniteError, match="breaks down"):
            solvers.solve(positive(22, 100), targets(22, 1), solver=METHOD)

    def test_of_an_indefinite_matrix_are_refused_with_its_eigenvalue_and_a_ridge(self, on_processors):
        theta = positive(22, 100) - 0.1 * np.eye(22)
        with pytest.raises(NotPositiveDefiniteError, match=r"smallest eigenvalue -(8\.9|9\.0).*set ridge="):
            solvers.solve(theta, targets(22, 1), solver=METHOD)


class TestRefusals:
    def test_without_gpus_or_with_one(self, monkeypatch):
        for found, words in (([], "JAX sees none"), ([object()], "JAX sees one")):
            monkeypatch.setattr(multi_gpu, "gpus", lambda found=found: found)
            with pytest.raises(InvalidArgumentError, match=f"two or more GPUs of this process, and {words}"):
                solvers.solve(positive(5, 10), targets(5, 1), solver="multi-gpu")

    def test_on_this_machine_name_what_is_missing(self):
        with pytest.raises((InvalidArgumentError, MissingLibraryError), match="solver is 'multi-gpu'"):
            solvers.solve(positive(5, 10), targets(5, 1), solver="multi-gpu")

    def test_without_jaxmg_or_with_one_that_takes_a_process_for_each_gpu(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "jaxmg", None)
        with pytest.raises(MissingLibraryError, match=r"jaxmg, and that is not installed.*equitangents\[multi-gpu\]"):
            multi_gpu.potrs()
        monkeypatch.setitem(sys.modules, "jaxmg", SimpleNamespace(potrs=potrs))
        monkeypatch.setattr(multi_gpu, "version", lambda name: "1.1.1")
        with pytest.raises(MissingLibraryError, match=r"before 1\.0, and 1\.1\.1 is installed"):
            multi_gpu.potrs()
        monkeypatch.setattr(multi_gpu, "version", lambda name: "0.0.9")
        assert multi_gpu.potrs() is potrs

    def test_where_a_gpu_has_too_little_memory(self, on_processors, monkeypatch):
        small = SimpleNamespace(memory_stats=lambda: {"bytes_limit": 5000})
        monkeypatch.setattr(multi_gpu, "gpus", lambda: [small, small])
        with pytest.raises(MemoryLimitError, match=r"22 rows take about .* on each of 2 GPUs.*has 5 kB"):
            solvers.solve(positive(22, 100), targets(22, 1), solver=METHOD)

    def test_of_settings(self):
        for settings in ({"tile": 0}, {"tolerance": 2.0}):
            with pytest.raises(InvalidArgumentError, match="expected"):
                solvers.MultiGPU(**settings)


def test_each_gpu_needs_its_part_of_the_matrix_and_little_more():
    needed = [solvers.MultiGPU().device_memory(100_000, 10, count) for count in (2, 4, 8)]
    assert [round(8e10 / n / count, 2) for n, count in zip(needed, (2, 4, 8), strict=True)] == [0.95, 0.92, 0.82]


@pytest.mark.slow
def test_rows_are_handed_to_several_devices(tmp_path):
    code = (
        "import jax\nimport numpy as np\nfrom equitangents import solvers\nfrom equitangents.solvers import multi_gpu\n"
        "from problems import positive, targets\nfrom test_multi_gpu import potrs\n"
        "multi_gpu.gpus, multi_gpu.potrs = jax.local_devices, lambda: potrs\nassert len(jax.local_devices()) == 3\n"
        "theta, y = positive(22, 100), targets(22, 2)\n"
        "found = solvers.solve(theta, y, solver=solvers.MultiGPU(tile=4))\n"
        "np.testing.assert_allclose(found.coefficients, np.linalg.solve(theta, y), rtol=1e-9)\n"
    )
    flags = "--xla_force_host_platform_device_count=3"
    path = os.pathsep.join([os.path.dirname(__file__), *(part for part in sys.path if part)])
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=500)


def test_a_kernel_that_is_not_in_memory_costs_three_tiles_more():
    task = lambda there: Task(600, 2, 8, in_memory=there, consumed=False, tile=50, limit=1 << 30)
    assert METHOD.cost(task(False)).memory - METHOD.cost(task(True)).memory == 3 * 8 * 50**2
