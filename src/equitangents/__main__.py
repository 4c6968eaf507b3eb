"""The command `equitangents`, also `python -m equitangents`: Ctrl-C is heard from the first import to the last word."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading

_SOON = 0.05  # seconds
# Threads of OpenBLAS wait this power of two of clock cycles at full speed for more work, 28 unless told: a tenth of a
# second, in which a compiled engine has the cores for half. They read it once, as NumPy is imported.
_BLAS_WAITS = "18"


def run() -> None:
    """Run the command line on the arguments of the process, and exit with its status.

    Ctrl-C ends it with one line and status 130, also while it is imported, and where Python would only print it, in
    what collects garbage. Once everything is done it changes nothing any more.
    """
    sys.unraisablehook = _heard
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _BLAS_WAITS)
    kept = "nothing was begun"
    try:
        from equitangents.cli.main import main

        kept = "files that were named as written are whole"  # main says more itself, but where it has just ended
        main()
    except KeyboardInterrupt:
        print(f"equitangents: interrupted; {kept}: the same command starts again", file=sys.stderr)
        sys.exit(130)
    except SystemExit as end:
        signal.signal(signal.SIGINT, signal.SIG_DFL if end.code else signal.SIG_IGN)
        raise


def _heard(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt again, and soon, where Ctrl-C was caught in what cannot raise; the rest is printed as Python does."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(_SOON, _interrupt).start()
    else:
        sys.__unraisablehook__(lost)


def _interrupt() -> None:
    """Ctrl-C as from the terminal: by a signal, where there are any, which also ends what the main thread waits for."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


if __name__ == "__main__":
    run()
