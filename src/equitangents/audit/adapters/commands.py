"""Models in another process: a command that reads a batch as .npy on its standard input and writes the outputs as .npy.

Several inputs come one after another, in the order of the arguments or of the dictionary; so do several outputs. The
program may answer one batch and end, or go on until its input ends; which of both is found out with the second batch.
"""

from __future__ import annotations

import contextlib
import math
import shlex
import time
from collections.abc import Iterator, Sequence
from typing import Any, final

import jax
import numpy as np

from equitangents._types import Tree
from equitangents.audit.adapters.model import Model
from equitangents.audit.adapters.streams import Pipe, PipeError
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ModelError

TIMEOUT = 60.0
"""Seconds that one batch may take."""
_PATIENCE = 1.0  # seconds, at least, until a program that does not answer is taken to wait for the end of its input
_SLOWER = 3.0  # or so many times what the first batch took
_ENDING = 0.3  # seconds for a program to end by itself after its answer
_TOLD = 500  # characters of stderr in a message
_UNSEEKABLE = "; a pipe cannot be read by np.load itself: np.load(io.BytesIO(sys.stdin.buffer.read()))"


@final
class Command(Model):
    """A program as a model, in any language and environment: `et.audit(Command("julia model.jl"), "C4", x)`.

    Each batch is written to the program's standard input as one .npy array an input; it writes one .npy array with a
    row an input to its standard output. It may end then, or read the next batch. In Python:

        import io, sys
        import numpy as np
        x = np.load(io.BytesIO(sys.stdin.buffer.read()))
        answer = io.BytesIO()
        np.save(answer, model(x))
        sys.stdout.buffer.write(answer.getvalue())

    Args:
        command: what is run, without a shell: a line as one types it, or a list of words.
        timeout: seconds that one batch may take, the start of the program included.
        answers: names of the outputs, if the program writes several arrays one after another.
    """

    kind = "command"

    def __init__(self, command: str | Sequence[str], *, timeout: float = TIMEOUT, answers: Sequence[str] | None = None):
        if not isinstance(command, str) and not all(isinstance(word, str) for word in command):
            raise InvalidTypeError(f"command is {command!r}; expected a line, or a list of words")
        try:
            self._words = shlex.split(command) if isinstance(command, str) else list(command)
        except ValueError as error:
            raise InvalidArgumentError(f"command is {command!r}, which cannot be split into words: {error}") from None
        if not self._words:
            raise InvalidArgumentError("command is empty; expected a program and its arguments")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
            raise InvalidArgumentError(f"timeout is {timeout!r}; expected seconds, above 0")
        if answers is not None and (isinstance(answers, str) or not answers or len({*answers}) < len(answers)):
            raise InvalidArgumentError(f"answers is {answers!r}; expected the names of the outputs, each once")
        self.name = shlex.join(self._words)
        self.timeout, self._answers = float(timeout), None if answers is None else list(answers)
        self._pipe: Pipe | None = None
        self._goes_on: bool | None = None
        """Whether the program answers more than one batch; None: not known yet."""
        self._first: float | None = None

    def run(self, x: Tree) -> Tree:
        """What the program answers, by names if there are several arrays."""
        arrays = [np.ascontiguousarray(a) for a in _in_order(x)]
        count = 1 if self._answers is None else len(self._answers)
        try:
            found = self._ask(arrays, count)
        except PipeError as problem:
            raise self._error(problem, arrays) from None
        return found[0] if self._answers is None else dict(zip(self._answers, found, strict=True))

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Within it the program may stay; afterwards it is ended."""
        try:
            yield
        finally:
            self._close()

    def _ask(self, arrays: list[np.ndarray], count: int) -> list[np.ndarray]:
        began = time.monotonic()
        limit = began + self.timeout
        if self._goes_on and self._pipe is not None:
            try:
                return self._exchange(self._pipe, arrays, count, limit)
            except PipeError as problem:
                if not problem.ended_well:
                    raise
                self._goes_on = False  # it ends after some batches: start it anew
        self._close()
        pipe = self._pipe = self._open()
        if self._first is None or self._goes_on is False:
            found = self._exchange(pipe, arrays, count, limit, last=True)
            if self._first is None:
                self._first = time.monotonic() - began
                pipe.no_more(_PATIENCE)
            self._close()
            return found
        patient = min(limit, began + max(_PATIENCE, _SLOWER * self._first))
        try:
            found = self._exchange(pipe, arrays, count, patient)
            self._goes_on = not pipe.ends_within(_ENDING)
        except PipeError as problem:
            if not problem.timed_out or patient >= limit:
                raise
            pipe.end_input()
            found = pipe.answers(count, limit)
            self._goes_on = False
        if not self._goes_on:
            self._close()
        return found

    def _exchange(
        self, pipe: Pipe, arrays: list[np.ndarray], count: int, limit: float, last: bool = False
    ) -> list[np.ndarray]:
        pipe.send(arrays, last)
        return pipe.answers(count, limit)

    def _open(self) -> Pipe:
        try:
            return Pipe(self._words)
        except OSError as error:
            raise ModelError(f"{self._words[0]} cannot be run: {error.strerror or error}") from None

    def _close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def _error(self, problem: PipeError, arrays: list[np.ndarray]) -> ModelError:
        """One line with what happened, for which inputs, and the end of what the program said."""
        said = self._pipe.stderr(_TOLD) if self._pipe is not None else ""
        self._close()
        shapes = " and ".join(f"{a.shape} {a.dtype}" for a in arrays)
        what = str(problem).replace("TIMEOUT", f"{self.timeout:g} s (timeout)")
        remedy = _UNSEEKABLE if "not seekable" in said else ""
        return ModelError(f"{self.name!r} {what}, given {shapes}; stderr: {said or 'nothing'}{remedy}")

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: Any) -> None:
        self._close()


def _in_order(x: Any) -> list[np.ndarray]:
    """The arrays of the inputs: of a dictionary in its own order."""
    if isinstance(x, dict):
        return [a for value in x.values() for a in _in_order(value)]
    return [np.asarray(leaf) for leaf in jax.tree.leaves(x)]
