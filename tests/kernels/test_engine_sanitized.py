"""The CPU engine under the address and undefined-behaviour sanitizers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1"


@pytest.mark.slow
def test_random_programs_touch_no_memory_but_their_own(tmp_path):
    own = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where cmake was installed with the package
    configure = ["cmake", "-S", ROOT / "native", "-B", tmp_path, f"-DPython_EXECUTABLE={sys.executable}"]
    # Loops checked at -O3 take a quarter of an hour to compile, and touch the same memory.
    options = ["-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_FLAGS={FLAGS}", "-DEQT_OPTIMISATION=-O1"]
    for command in ([*configure, *options], ["cmake", "--build", tmp_path]):
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PATH": own})
    names = ("libasan.so", "libubsan.so", "libstdc++.so")
    runtimes = [
        subprocess.run(["c++", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
        for name in names
    ]
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("sanitized_cases.py"), tmp_path / "libequitangents.so"],
        env=os.environ | {"LD_PRELOAD": " ".join(runtimes), "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 120
