"""What a piece of work does that a file must not bring about: commands, writing elsewhere, imports, unpickling."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMANDS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "subprocess.Popen", "pty.spawn")
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
# what must not be imported because a file says so; modules that are there already are not seen: two are unloaded
FOREIGN = ("planted_module", "equitangents.audit.adapters.callables", "equitangents.cli", "antigravity", "this")

_seen: list[str] | None = None
_folder = ""


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    if event in COMMANDS:
        _seen.append(f"{event} {arguments[0]!r}")
    elif event == "pickle.find_class":
        _seen.append(f"unpickled {arguments}")
    elif event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        mode, flags = arguments[1], arguments[2] or 0
        writes = any(letter in "wax+" for letter in mode) if isinstance(mode, str) else bool(flags & _WRITING)
        if writes and _is_elsewhere(arguments[0]):
            _seen.append(f"wrote {arguments[0]!r}")
    elif event in CHANGES:
        inside = arguments[-1] if isinstance(arguments[-1], int) and arguments[-1] >= 0 and len(arguments) > 1 else None
        base = "" if inside is None or event == "os.truncate" else os.readlink(f"/proc/self/fd/{inside}")
        if not isinstance(arguments[0], int) and _is_elsewhere(os.path.join(base, os.fsdecode(arguments[0]))):
            _seen.append(f"{event} {arguments[0]!r}")


def _is_elsewhere(path: Any) -> bool:
    place = os.path.abspath(os.fsdecode(path))
    allowed = (
        _folder,
        "/dev/",
        os.path.expanduser("~/.cache"),
        sys.prefix,
        os.environ.get("JAX_COMPILATION_CACHE_DIR", "/dev"),  # where tests keep compiled programs
    )
    return bool(place) and not place.startswith(allowed) and "__pycache__" not in place


sys.addaudithook(_hook)


@contextmanager
def watched(folder: Path) -> Iterator[list[str]]:
    """What is done meanwhile, in words; changes inside of `folder` are allowed."""
    global _seen, _folder
    for name in [name for name in sys.modules if name.startswith(FOREIGN[:2])]:
        del sys.modules[name]
    _seen, _folder, before = [], str(folder.resolve()), set(sys.modules)
    seen = _seen
    try:
        yield seen
    finally:
        _seen = None
        seen += [f"imported {name}" for name in set(sys.modules) - before if name.startswith(FOREIGN)]
