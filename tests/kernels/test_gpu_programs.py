"""What the GPU engine compiles and launches: one program without fields, its arguments, its memory.

None of this needs a GPU: a driver that runs kernels on the host stands in for one.
"""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.ffi
import jax.numpy as jnp
import numpy as np
import pytest

from equitangents.kernels.engines import gpu
from equitangents.kernels.engines.gpu import compiler, run, source
from equitangents.kernels.engines.gpu.engine import GpuEngine
from equitangents.kernels.plans.plan import plan, tables_of
from equitangents.nn import (
    Conv,
    Dense,
    Erf,
    Gelu,
    GlobalAvgPool,
    Relu,
    Sequential,
)
from kernels.comparison import assert_as_exact


@pytest.mark.slow
def test_kernels_touch_no_memory_but_their_own(tmp_path):
    compiler = tmp_path / "c++"
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
    compiler.write_text(f'#!/bin/sh\nexec c++ {flags} "$@"\n')
    compiler.chmod(0o755)
    runtimes = [
        subprocess.run(["c++", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so", "libstdc++.so")
    ]
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("sanitized_gpu_cases.py")],
        env=os.environ
        | {gpu.EMULATE: "1", "CXX": str(compiler), "LD_PRELOAD": " ".join(runtimes), "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 10


def build(target, *arguments):
    command = [shutil.which("c++") or "g++", "-std=c++17", "-O0", "-shared", "-fPIC", *arguments, "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True)
    return ctypes.CDLL(str(target), mode=ctypes.RTLD_GLOBAL)


@pytest.fixture
def pretended(tmp_path, monkeypatch):
    """The launcher, bound without a stream, above a driver that runs kernels on the host."""
    here = Path(__file__).parent
    build(tmp_path / "driver.so", str(here / "pretended_driver.cpp"), "-Wl,-soname,libcuda.so.1", "-ldl")
    launcher = build(tmp_path / "launcher.so", "-isystem", jax.ffi.include_dir(), str(here / "launch_on_host.cpp"))
    name = f"pretended_{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:8]}"
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(launcher.launch_on_host), platform="cpu")
    monkeypatch.delenv(gpu.EMULATE, raising=False)
    monkeypatch.setattr(run, "_registered", lambda emulated: name)
    monkeypatch.setattr(run, "capability", lambda: "9.0")
    monkeypatch.setattr(gpu, "why_unavailable", lambda: None)
    monkeypatch.setattr(GpuEngine, "untried", lambda self: False)  # its own test would ask JAX for the device

    def machine_code(text, capability):
        assert capability == "9.0"
        path = compiler.host_library(text)
        return str(path).encode() + b"\0"

    monkeypatch.setattr(run, "cubin", machine_code)


def test_kernels_are_launched_with_what_they_need(pretended, rng):
    net = Sequential(Conv(1, 3, b_std=0.1), Relu(), Conv(1, 3), Erf(), GlobalAvgPool(), Dense(1), Relu(), Dense(1))
    assert_as_exact(net, rng.standard_normal((3, 5, 4, 2)), engine="gpu", dtype=np.float64, judge="cpu")
    x1, x2 = rng.standard_normal((3, 5, 4, 2)), rng.standard_normal((2, 5, 4, 2))
    assert_as_exact(net, x1, x2, engine="gpu", dtype=np.float32, judge="cpu")


def test_a_gpu_program_is_one_launch_and_holds_no_fields(monkeypatch):
    """What JAX would compile for a GPU: fields over fibres, or over positions of pairs, are never arrays of it."""
    monkeypatch.delenv(gpu.EMULATE, raising=False)
    monkeypatch.setattr(run, "cubin", lambda text, capability: b"machine code")
    monkeypatch.setattr(run, "capability", lambda: "9.0")
    side, inputs = 16, 3
    net = Sequential(*(Conv(1, 3), Relu()) * 4, GlobalAvgPool(), Dense(1))
    program = net.lower((side, side, 3))[1]
    tables = {key: jnp.asarray(table) for key, table in tables_of(plan(program), program).items()}
    x = jax.ShapeDtypeStruct((inputs, side, side, 3), jnp.float32)
    traced = jax.jit(lambda x: run.kernels(plan(program), tables, x)).trace(x)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("@equitangents_eqt_ffi_gpu_launch") == 1
    sizes = [np.prod([int(n) for n in shape.split("x")[:-1]]) for shape in re.findall(r"tensor<((?:\d+x)+f32)>", text)]
    sides = max(sizes)  # what is known of each input alone, at all positions of all layers
    assert inputs * side**2 < sides < inputs * 12 * 2 * side**2
    assert sides < inputs**2 * side**4


def test_the_kernel_names_no_part_of_a_standard_library_that_gpus_lack():
    net = Sequential(Conv(1, 3), Relu(), Conv(1, 3), Gelu(), GlobalAvgPool(), Dense(1))
    text = source.source(plan(net.lower((8, 8, 3))[1]), 3, "float32").text
    standard = [line for line in text.splitlines() if line.startswith("#include")]
    guarded = text[text.index("#else") : text.index("#endif")]
    assert standard == [line for line in guarded.splitlines() if line.startswith("#include")]
