"""An S3 server on this machine, in a thread of this process or by itself: moto's, with a bucket `bucket`."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

from moto.server import ThreadedMotoServer

from equitangents.scale import place


@contextmanager
def server() -> Iterator[ThreadedMotoServer]:
    """The server, which may stop and start meanwhile; this process has the environment of s3://bucket."""

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    running = ThreadedMotoServer("127.0.0.1", port, verbose=False)
    running.start()
    address = f"http://127.0.0.1:{port}"
    given = {
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": address,
        "AWS_ALLOW_HTTP": "true",
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    place.bucket.cache_clear()
    try:
        for method, name in (("POST", "moto-api/reset"), ("PUT", "bucket")):
            with urlopen(Request(f"{address}/{name}", method=method), timeout=30):
                pass
        yield running
    finally:
        running.stop()
        place.bucket.cache_clear()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def content(below: str) -> dict[str, bytes]:
    """Every object in s3://bucket below a name."""
    at = place.ObjectPath("s3://bucket", below)
    return {name: (at / name).read_bytes() for name, _ in at.sizes()}
