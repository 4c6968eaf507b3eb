"""A bucket in memory that counts requests, for tests of stores by their URL."""

from __future__ import annotations

from collections import Counter

from obstore.store import MemoryStore


class Bucket(MemoryStore):
    """Keeps its objects in memory, and the requests that it was asked, in order: (what, name)."""

    __module__ = "obstore.memory"  # which Zarr asks for

    def __init__(self):
        self.asked: list[tuple[str, str]] = []

    @property
    def counted(self) -> Counter:
        return Counter(what for what, _ in self.asked)

    def content(self, below: str) -> dict[str, bytes]:
        return {
            each["path"][len(below) + 1 :]: bytes(MemoryStore.get(self, each["path"]).bytes())
            for some in MemoryStore.list(self, below)
            for each in some
        }

    def put(self, path, file, **options):
        self.asked.append(("put", path))
        return super().put(path, bytes(file), **options)  # a copy: that of a real store is elsewhere

    def get(self, path, **options):
        self.asked.append(("get", path))
        return super().get(path, **options)

    def get_range(self, path, **options):
        self.asked.append(("get", path))
        return super().get_range(path, **options)

    def head(self, path):
        self.asked.append(("head", path))
        return super().head(path)

    def list(self, prefix=None, **options):
        self.asked.append(("list", prefix))
        return super().list(prefix, **options)
