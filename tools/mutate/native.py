"""All faults of the compiled engine in one library, built once: EQUITANGENTS_FAULT chooses which of them is there.

An expression becomes `(eqt_fault == 3 ? (fault) : (as it was))`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.mutate.faults import Fault, FaultError

VARIABLE = "EQUITANGENTS_FAULT"
_CODES = Path("src/equitangents/kernels/engines/codes.py")  # numbers of which CMake makes a header
_HEADER = f"""#pragma once
#include <cstdlib>
inline const int eqt_fault = [] {{
  const char* chosen = std::getenv("{VARIABLE}");
  return chosen ? std::atoi(chosen) : 0;
}}();
"""


def build(root: Path, faults: Sequence[Fault], into: Path) -> Path:
    """The library that holds `faults`, numbered from 1; raises FaultError with the compiler's words."""
    sources = into / "native"
    shutil.copytree(root / "native", sources, ignore=shutil.ignore_patterns("CMakeCache.txt", "CMakeFiles"))
    (into / _CODES).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(root / _CODES, into / _CODES)
    header = into / "fault.hpp"
    header.write_text(_HEADER)
    for number, fault in enumerate(faults, start=1):
        file = into / fault.path
        choice = f"(eqt_fault == {number} ? ({fault.put}) : ({fault.find}))"
        text = file.read_text()
        fault.planted(text)
        file.write_text(text.replace(fault.find, choice))
    folder = into / "build"
    for command in (
        ["cmake", "-S", str(sources), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", "-DEQT_OPTIMISATION=-O1",
         f"-DPython_EXECUTABLE={sys.executable}", f"-DCMAKE_CXX_FLAGS=-include {header}"],
        ["cmake", "--build", str(folder), "--parallel", str(min(2, os.cpu_count() or 1))],
    ):  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise FaultError(
                f"the compiled engine does not build with its faults:\n{(done.stdout + done.stderr)[-4000:]}"
            )
    return next(folder.glob("libequitangents.*"))
