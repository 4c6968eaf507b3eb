"""Files of complete stages: arrays, and the fingerprint of their run. One with damage counts as none."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import numpy as np

from equitangents.extending import Archive, atomic_file, file_bytes, process_memory, write_archive

Arrays = dict[str, np.ndarray]
logger = logging.getLogger("equitangents")


def write(path: Path, arrays: Arrays, fingerprint: str) -> None:
    """Keep `arrays`; the file appears when it is complete."""
    about = {"fingerprint": fingerprint, "arrays": list(arrays)}
    with atomic_file(path) as partial:
        write_archive(partial, about, [np.asarray(array) for array in arrays.values()])


def read(path: Path, fingerprint: str) -> Arrays | None:
    """The arrays of a stage of the run with this fingerprint; None where there are none, or they are damaged.

    Raises OSError where the file may be good and cannot be read: without permission, or from a disk that fails.
    """
    try:
        content = file_bytes(path, process_memory())
    except FileNotFoundError:
        return None
    try:
        archive = Archive(io.BytesIO(content))
        if archive["fingerprint"] != fingerprint:
            return None
        return {str(name): archive.array(number) for number, name in enumerate(archive["arrays"])}
    except (ValueError, KeyError, IndexError, TypeError) as error:
        logger.warning("study: %s is damaged (%s), and the stage is computed again", path, error)
        return None
