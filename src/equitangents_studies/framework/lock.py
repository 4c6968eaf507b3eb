"""One run at a time in a folder. The system gives the lock back when a process ends, however it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from equitangents.errors import InvalidArgumentError
from equitangents.extending import HeldError, held

NAME = ".lock"


@contextlib.contextmanager
def only_run(path: Path) -> Iterator[None]:
    """Hold the folder `path`, which is made if need be; what another process left behind when it died does not count.

    Raises InvalidArgumentError where another run holds the folder, or nothing can be written.
    """
    made = not path.exists()
    with contextlib.ExitStack() as stack:
        try:
            path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(held(path / NAME))
        except HeldError as error:
            who = f" (process {error.owner})" if error.owner else ""
            raise InvalidArgumentError(
                f"another run{who} is writing into {path}; wait until it is done, or choose another folder with --out"
            ) from None
        except OSError as error:
            raise InvalidArgumentError(f"out is {path}, where nothing can be written: {error.strerror}") from None
        try:
            yield
        finally:
            stack.close()
            if made:
                with contextlib.suppress(OSError):  # a folder that holds something stays
                    path.rmdir()
