"""One flipped bit of any file: what is read is what was written, or an error says that it is damaged."""

from __future__ import annotations

import logging
import random
import shutil
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest
from kinds_of_files import KINDS, made

from equitangents.errors import EquitangentsError

CHECKED = ["model", "model.means", "model.turned", "model.classes", "deep", "checkpoints", "stage.npz", "cache.npz"]
# Zarr has no checksum of its metadata, .npy none at all, and JSON that somebody wrote by hand neither


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("flips")


def aimed(content: bytes, rng: random.Random) -> int:
    """A byte of a header, of a directory at the end, or of a checksum: what says how the rest is read."""
    words = (b"PK", b"descr", b"shape", b"crc32", b"sha256", b"number")
    marks = [at for word in words if (at := content.rfind(word)) >= 0]
    near = rng.choice([0, len(content) - 1, *marks])
    return min(max(near + rng.randrange(-4, 60), 0), len(content) - 1)


def flips(name: str, place: Path, random_ones: int, aimed_ones: int) -> tuple[list[str], int]:
    """(flips that changed what is read or raised something raw, in words, how many were refused)."""
    logging.disable(logging.CRITICAL)
    valid, kind, rng = made(name, place), KINDS[name], random.Random(name)
    whole, told, refused = kind.use(valid), [], 0
    for number in range(random_ones + aimed_ones):
        copy = place / "flipped" / name
        shutil.rmtree(copy.parent, ignore_errors=True)
        copy.parent.mkdir()
        shutil.copytree(valid, copy) if valid.is_dir() else shutil.copyfile(valid, copy)
        files = [copy] if copy.is_file() else sorted(f for f in copy.rglob("*") if f.is_file() and f.stat().st_size)
        file = rng.choice(files)
        content = bytearray(file.read_bytes())
        at = rng.randrange(len(content)) if number < random_ones else aimed(bytes(content), rng)
        bit = rng.randrange(8)
        content[at] ^= 1 << bit
        file.write_bytes(bytes(content))
        said = f"{name}: bit {bit} of byte {at} of {file.name}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = kind.use(copy)
        except EquitangentsError:
            refused += 1
            continue
        except Exception:
            told.append(f"{said}: {traceback.format_exc()}")
            continue
        if found is None:  # damaged files of stages and caches count as none
            refused += 1
        elif not all(map(np.array_equal, found, whole)) or len(found) != len(whole):
            told.append(f"{said}: other values, and no error")
    logging.disable(logging.NOTSET)
    return told, refused


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", ["model", "deep", "stage.npz"])
def test_some_flips_are_seen(name, place):
    told, refused = flips(name, place, 4, 3)
    assert told == []
    assert refused >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_200_random_flips_and_30_aimed_ones_are_seen(name, place):
    told, refused = flips(name, place, 200, 30)
    assert told == []
    assert refused >= 50  # the others change nothing that is read
