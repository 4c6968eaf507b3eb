"""Computes a store in s3://bucket, slowly, and is killed before its n-th put: scale.s3_worker NAME ROWS TILE PUT."""

import os
import signal
import sys
import time

from equitangents.scale.place import ObjectPath
from scale.stores import store

if __name__ == "__main__":
    name, (rows, tile, last) = sys.argv[1], map(int, sys.argv[2:])
    put, count = ObjectPath.write_bytes, 0

    def counted(self: ObjectPath, content: bytes, **how: bool) -> None:
        global count
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        put(self, content, **how)

    ObjectPath.write_bytes = counted  # type: ignore[method-assign]
    found = store(f"s3://bucket/{name}", rows, tile).compute()
    print(found.missing)
