"""The command `equitangents`, also `python -m equitangents`: Ctrl-C works from the first import on."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading

_SOON = 0.05  # seconds
# Threads of OpenBLAS spin for 2 to this power of clock cycles while they wait for work: by default 28, a tenth of a
# second, in which the C++ engine gets half of the cores. OpenBLAS reads it when NumPy is imported.
_BLAS_WAITS = "18"


def run() -> None:
    """Run the command line on the arguments of the process, and exit with its status.

    Ctrl-C ends it with one line and status 130, also during imports and in finalisers, where Python would only print
    the exception. After the end of the command it has no effect.
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
    """Interrupt again soon where Ctrl-C was raised in a finaliser; other exceptions are printed as Python does."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(_SOON, _interrupt).start()
    else:
        sys.__unraisablehook__(lost)


def _interrupt() -> None:
    """Interrupt as Ctrl-C does: by a signal, where there are signals, which also ends waits of the main thread."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


if __name__ == "__main__":
    run()
