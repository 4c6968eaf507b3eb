"""Fetching data sets from their public homes, only when asked, every file checked against its SHA-256."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.errors import EquitangentsError, InvalidArgumentError
from equitangents.extending import require, whole_file
from equitangents_studies.data.catalogue import SOURCES, RemoteFile
from equitangents_studies.data.folder import ENVIRONMENT_VARIABLE, data_folder


class DownloadError(EquitangentsError, OSError):
    """A file could not be fetched, or is not the file that was expected."""


def download(name: str, data_dir: str | Path | None = None, *, timeout: float = 60.0) -> Path:
    """Fetch `name` from its public home into `<data_dir>/<name>.npz` and return that path.

    An existing file is kept. Every fetched file is compared with its SHA-256; the archive appears only when complete.
    Raises InvalidArgumentError where the set has no public home or no folder is set, DownloadError where fetching
    fails or a checksum differs.
    """
    fetchable = [s.name for s in SOURCES.values() if s.home]
    if name not in fetchable:
        raise InvalidArgumentError("name", name, list(fetchable), "these can be downloaded")
    folder = data_folder(data_dir)
    if folder is None:
        raise InvalidArgumentError("data_dir", None, "a folder for the download", f"or set {ENVIRONMENT_VARIABLE}")
    source = SOURCES[name]
    target = folder / source.file
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        files = [_fetch(remote, Path(scratch), timeout) for remote in source.home]
        arrays: dict[str, Any] = dict(_READERS[source.format](files))
    with whole_file(target) as partial:
        np.savez_compressed(partial, **arrays, class_names=np.array(source.class_names))
    return target


def _fetch(remote: RemoteFile, folder: Path, timeout: float) -> Path:
    pooch = require("pooch", "studies", "a download")
    pooch.get_logger().setLevel("WARNING")
    http = remote.url.startswith(("http://", "https://"))
    try:
        path = pooch.retrieve(
            remote.url,
            known_hash=f"sha256:{remote.sha256}",
            fname=remote.name,
            path=folder,
            downloader=pooch.HTTPDownloader(timeout=timeout) if http else _from_disk,
        )
    except OSError as error:  # those of requests are such
        raise DownloadError(f"{remote.url} could not be fetched: {error}") from None
    except ValueError as error:
        raise DownloadError(f"{remote.url} is not the file of SHA-256 {remote.sha256}: {error}") from None
    return Path(path)


def _from_disk(url: str, target: Any, _: Any) -> None:
    """A mirror on disk, by its file: address, which pooch does not know."""
    with urllib.request.urlopen(url) as source, open(target, "wb") as out:
        shutil.copyfileobj(source, out)


def _read_idx(path: Path) -> np.ndarray:
    """An IDX file: two zero bytes, a type (8 = uint8), the rank, big-endian sizes, then the data."""
    with gzip.open(path, "rb") as file:
        content = file.read()
    kind, rank = content[2], content[3]
    if content[:2] != b"\0\0" or kind != 8:
        raise DownloadError(f"{path.name} is not an IDX file of bytes")
    shape = np.frombuffer(content, dtype=">i4", count=rank, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * rank).reshape([int(s) for s in shape])


def _idx_set(files: list[Path]) -> dict[str, np.ndarray]:
    return dict(zip(("train_x", "train_y", "test_x", "test_y"), map(_read_idx, files), strict=True))


def _cifar_set(files: list[Path]) -> dict[str, np.ndarray]:
    """Records of 1 label byte and 3,072 pixel bytes, channel by channel, five training files and one test file."""
    blocks: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    with tarfile.open(files[0], "r:gz") as archive:
        for member in sorted(archive.getmembers(), key=lambda m: m.name):
            stream = archive.extractfile(member) if member.name.endswith(".bin") else None
            if stream is not None:
                records = np.frombuffer(stream.read(), dtype=np.uint8).reshape(-1, 3073)
                blocks["test" if "test" in member.name else "train"].append(records)
    if not all(blocks.values()):
        raise DownloadError(f"{files[0].name} lacks its .bin files")
    arrays = {}
    for part, found in blocks.items():
        records = np.concatenate(found)
        arrays[f"{part}_x"] = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        arrays[f"{part}_y"] = records[:, 0]
    return arrays


_READERS = {"idx": _idx_set, "cifar": _cifar_set}
