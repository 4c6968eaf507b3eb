"""Compiles a network's kernel: for the GPU with NVRTC, which comes with JAX's CUDA wheels, or for the host.

The host's version runs the same source with loops over threads and blocks in place of a GPU. It is for tests, and
asked for by the environment variable EQUITANGENTS_GPU_EMULATE=1.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache, lru_cache
from pathlib import Path

EMULATE = "EQUITANGENTS_GPU_EMULATE"
# Square roots and quotients to one or two units in the last place, and no subnormal numbers: float32 stays below 2e-6.
_APPROXIMATE = ("--prec-sqrt=false", "--prec-div=false", "--ftz=true")
_OPTIONS = ("--std=c++17", "--device-as-default-execution-space", *_APPROXIMATE)


def emulated() -> bool:
    """Whether the host is to stand in for a GPU."""
    return os.environ.get(EMULATE, "") not in ("", "0")


@cache
def nvrtc() -> ctypes.CDLL | None:
    """The run-time compiler's library, if there is one: from Python packages, else where the system looks."""
    roots = [Path(p) for p in sys.path if p]
    found = [f for root in roots for f in root.glob("nvidia/*/lib/libnvrtc.so.*") if f.suffix[1:].isdigit()]
    newest = sorted(found, key=lambda f: int(f.suffix[1:]), reverse=True)
    names = [*map(str, newest), "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"]
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


@lru_cache(maxsize=256)
def cubin(text: str, capability: str) -> bytes:
    """Machine code for a GPU of compute capability `capability` ("9.0").

    Raises:
        RuntimeError: if the compiler refuses it; the message is its log.
    """
    library = nvrtc()
    if library is None:
        raise RuntimeError("NVRTC, the CUDA compiler for use at run time, is not installed")
    program = ctypes.c_void_p()

    def check(status: int, doing: str) -> None:
        if status != 0:
            size = ctypes.c_size_t()
            library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(max(size.value, 1))
            library.nvrtcGetProgramLog(program, log)
            raise RuntimeError(f"NVRTC failed to {doing} (status {status}): {log.value.decode()[:4000]}")

    check(
        library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"fibres.cu", 0, None, None), "take the kernel"
    )
    try:
        options = [*_OPTIONS, f"--gpu-architecture=sm_{capability.replace('.', '')}"]
        array = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        check(library.nvrtcCompileProgram(program, len(options), array), "compile the kernel")
        size = ctypes.c_size_t()
        check(library.nvrtcGetCUBINSize(program, ctypes.byref(size)), "give the machine code")
        code = ctypes.create_string_buffer(size.value)
        check(library.nvrtcGetCUBIN(program, code), "give the machine code")
        return code.raw
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def host_compiler() -> str | None:
    """The C++ compiler for the emulation."""
    return next(
        (found for name in (os.environ.get("CXX"), "c++", "g++", "clang++") if (found := shutil.which(name or ""))),
        None,
    )


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="equitangents-")


@lru_cache(maxsize=256)
def host_library(text: str) -> Path:
    """The kernel compiled for the host.

    Raises:
        RuntimeError: if there is no compiler, or it refuses the kernel; the message is what it says.
    """
    compiler = host_compiler()
    if compiler is None:
        raise RuntimeError("emulating the GPU engine needs a C++ compiler")
    stem = Path(_folder().name) / hashlib.sha256(text.encode()).hexdigest()
    text_file, library = stem.with_suffix(".cpp"), stem.with_suffix(".so")
    text_file.write_text(text, encoding="utf-8")
    command = [compiler, "-std=c++17", "-O1", "-w", "-shared", "-fPIC", str(text_file), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{compiler} cannot compile the kernel: {done.stderr[:4000]}")
    return library
