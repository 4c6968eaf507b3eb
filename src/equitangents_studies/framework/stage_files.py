"""Files of complete stages: arrays, and the fingerprint of the run that they belong to. One with damage counts as none.

Every byte is checked: a header with a flipped byte may ask for too few numbers, a list of contents hide an array, which
the rest would not betray. So are the names of the arrays, which stand beside the fingerprint.
"""

from __future__ import annotations

import io
import logging
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.extending import UNREADABLE, append_checksum, check_arrays, file_bytes, process_memory, whole_file
from equitangents.extending import check_checksum as check

Arrays = dict[str, np.ndarray]
logger = logging.getLogger("equitangents")


def write(path: Path, arrays: Arrays, fingerprint: str) -> None:
    """Keep `arrays`; the file appears when it is complete."""
    contents: dict[str, Any] = {**arrays, "fingerprint": np.array([fingerprint, *sorted(arrays)])}
    with whole_file(path) as partial:
        np.savez_compressed(partial, **contents)
        append_checksum(partial)


def read(path: Path, fingerprint: str) -> Arrays | None:
    """The arrays of a stage of the run with this fingerprint; None where there are none, or they are damaged.

    Raises OSError where the file may be good and cannot be read: without permission, or from a disk that fails.
    """
    try:
        content = file_bytes(path, process_memory())
    except FileNotFoundError:
        return None
    try:
        check(io.BytesIO(content))
        check_arrays(io.BytesIO(content))
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            wrong = archive.zip.testzip()
            if wrong is not None:
                raise zipfile.BadZipFile(f"the checksum of {wrong} is wrong")
            found, *names = np.atleast_1d(archive["fingerprint"]).tolist()
            if found != fingerprint:
                return None
            if names != (there := sorted(name for name in archive.files if name != "fingerprint")):
                raise zipfile.BadZipFile(f"it holds {', '.join(there) or 'nothing'}; written were {', '.join(names)}")
            return {name: archive[name] for name in there}
    except UNREADABLE as error:
        logger.warning("study: %s is damaged (%s), and the stage is computed again", path, error)
        return None
