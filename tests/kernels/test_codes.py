"""Numbers that Python and C++ have in common are written once."""

import os
import re
import runpy
import sys
from enum import IntEnum
from pathlib import Path

import pytest

from equitangents.kernels.engines import codes

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
SOURCE = ROOT / "src/equitangents/kernels/engines/codes.py"
KINDS = [value for value in vars(codes).values() if isinstance(value, type) and issubclass(value, IntEnum)]
KINDS.remove(IntEnum)


@pytest.fixture
def made(tmp_path):
    """The header, made as the build makes it."""
    sys_path = list(sys.path)
    runpy.run_path(str(NATIVE / "tools/codes.py"))["main"](str(SOURCE), str(tmp_path / "codes.hpp"))
    assert sys.path == sys_path
    return tmp_path / "codes.hpp"


def test_the_header_has_every_kind_with_its_number_and_every_count_of_sides(made):
    header = made.read_text()
    for kind in KINDS:
        listed = re.search(rf"enum class {kind.__name__} : int32_t {{(.*?)}};", header).group(1)
        numbers = {name: int(value) for name, value in re.findall(r"(\w+) = (\d+)", listed)}
        assert numbers == {member.name.lower(): member.value for member in kind}
        assert sorted(numbers.values()) == list(range(len(kind))), "from nought without gaps"
    assert set(codes.DUAL_SIDES) == set(codes.DualKind)
    for kind, count in (*codes.DUAL_SIDES.items(), *codes.JOINT_SIDES.items()):
        assert f"case {type(kind).__name__}::{kind.name.lower()}: return {count};" in header


def test_a_header_that_would_not_change_is_left_alone(made):
    os.utime(made, (1, 1))
    main = runpy.run_path(str(NATIVE / "tools/codes.py"))["main"]
    main(str(SOURCE), str(made))
    assert made.stat().st_mtime == 1
    made.write_text("of before")
    main(str(SOURCE), str(made))
    assert "kPlanVersion" in made.read_text()


def test_no_file_of_the_engine_numbers_kinds_by_itself():
    of_kinds = re.compile(rf"enum (class )?({'|'.join(kind.__name__ for kind in KINDS)})\b")
    files = [path for ending in ("hpp", "cpp") for path in (NATIVE / "src").rglob(f"*.{ending}")]
    assert len(files) > 30
    assert not [path.name for path in files if of_kinds.search(path.read_text())]
