"""Models in another process: a command that reads a batch as .npy on its standard input and writes the outputs as .npy.

Several inputs come one after another, in the order of the arguments or of the dictionary; so do several outputs. The
program may answer one batch and end, or go on until its input ends; which of both is found out with the second batch.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, final

import jax
import numpy as np

from equitangents._types import Tree
from equitangents.audit.adapters.model import Model
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ModelError

_MAGIC = b"\x93NUMPY"
_KEPT = 2**16  # bytes of stderr
_QUOTED = 60
_UNREAD = 5.0  # seconds for what an answered process has not read yet


class PipeError(Exception):
    """The process did not answer as it should; the message goes on after its name."""

    def __init__(self, said: str, *, timed_out: bool = False, ended_well: bool = False):
        super().__init__(said)
        self.timed_out, self.ended_well = timed_out, ended_well


class Pipe:
    """A process that is running: `send` batches, take `answers`."""

    def __init__(self, words: Sequence[str]):
        # a session of its own: Ctrl-C ends the audit with a report, and the audit ends the process
        self._process = subprocess.Popen(
            list(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._changed = threading.Condition()
        self._read, self._said, self._ended, self._answered = bytearray(), bytearray(), False, 0
        self._readers = [threading.Thread(target=run, daemon=True) for run in (self._listen, self._hear)]
        self._writer: threading.Thread | None = None
        for reader in self._readers:
            reader.start()

    def send(self, arrays: Sequence[np.ndarray], last: bool) -> None:
        """Write the arrays, in the background; with `last` the process's input ends after them."""
        self.no_more(0.0)
        buffer = io.BytesIO()
        for a in arrays:
            np.lib.format.write_array(buffer, a, allow_pickle=False)
        self._finish_writing(_UNREAD)
        self._writer = threading.Thread(target=self._write, args=(buffer.getbuffer(), last), daemon=True)
        self._writer.start()

    def end_input(self) -> None:
        """Tell the process that nothing more comes."""
        self._finish_writing(1.0)
        with contextlib.suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.close()

    def answers(self, count: int, limit: float) -> list[np.ndarray]:
        """So many arrays; raises PipeError where they do not come until `limit` of the monotonic clock."""
        found = [self._array(limit) for _ in range(count)]
        self._answered += 1
        return found

    def no_more(self, seconds: float) -> None:
        """Wait so long for the output to end; raises PipeError if the process wrote more than its answer."""
        limit = time.monotonic() + seconds
        with self._changed:
            while not self._ended and not self._read.strip() and (left := limit - time.monotonic()) > 0:
                self._changed.wait(left)
            more = bytes(self._read)
        if more.startswith(_MAGIC):
            raise PipeError("wrote one more array after its answer; name all of them, answers= (--answers a,b)")
        if more.strip():
            raise PipeError(f"wrote {len(more)} bytes more than its answer, {_quoted(more)}")

    def ends_within(self, seconds: float) -> bool:
        """Whether the process ends by itself that soon."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stderr(self, most: int) -> str:
        """The end of what the process wrote to its standard error, in one line."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
        self._readers[1].join(0.5 if self._process.poll() is not None else 0.05)
        with self._changed:
            text = self._said.decode(errors="replace")
        lines = " | ".join(line.strip() for line in text.splitlines() if line.strip())
        return lines if len(lines) <= most else f"… {lines[-most:]}"

    def close(self) -> None:
        """End the process if it has not ended by itself, and let go of its pipes."""
        if self._writer is not None and self._writer.is_alive():
            self._process.kill()  # it does not read; closing a pipe that is written to would wait for it
        self.end_input()
        if not self.ends_within(0.05 if self._answered else 0.0):
            self._process.kill()
            self._process.wait()
        for thread in (self._writer, *self._readers):
            if thread is not None:
                thread.join(1.0)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError, ValueError):
                if stream is not None:
                    stream.close()

    def _array(self, limit: float) -> np.ndarray:
        start = self._take(8, limit)
        if start[:6] != _MAGIC:
            raise PipeError(
                f"wrote {_quoted(start + self._rest())} in place of an .npy array (print to stderr instead)"
            )
        wide = 2 if start[6] == 1 else 4
        length = self._take(wide, limit)
        text = self._take(int.from_bytes(length, "little"), limit)
        header = io.BytesIO(length + text)
        try:
            reader = np.lib.format.read_array_header_1_0 if wide == 2 else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = reader(header)
        except ValueError as error:
            raise PipeError(f"wrote an .npy array that NumPy cannot read: {error}") from None
        if dtype.hasobject:
            raise PipeError("wrote an array of objects, which is a pickle and is not loaded; expected numbers")
        content = self._take(math.prod(shape) * dtype.itemsize, limit)
        array = np.frombuffer(content, dtype).copy()
        return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)

    def _take(self, count: int, limit: float) -> bytes:
        with self._changed:
            while len(self._read) < count:
                if self._ended:
                    raise self._end()
                left = limit - time.monotonic()
                if left <= 0:
                    raise PipeError("did not answer within TIMEOUT", timed_out=not self._read)
                self._changed.wait(left)
            taken = bytes(self._read[:count])
            del self._read[:count]
            return taken

    def _end(self) -> PipeError:
        """What an end of the output before the answer means."""
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return PipeError("closed its output before it had answered")
        begun = ", in the middle of its answer" if self._read else ""
        if status == 0:
            good = bool(self._answered) and not self._read
            return PipeError(f"ended without an answer (exit status 0){begun}", ended_well=good)
        how = f"exit status {status}" if status > 0 else f"signal {-status}"
        return PipeError(f"crashed ({how}){begun}")

    def _rest(self) -> bytes:
        time.sleep(0.05)  # for a line that is being written
        with self._changed:
            return bytes(self._read)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(self._process.stdout.fileno(), 2**18):
                with self._changed:
                    self._read += part
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _hear(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(self._process.stderr.fileno(), 2**16):
                with self._changed:
                    self._said = (self._said + part)[-_KEPT:]

    def _write(self, content: memoryview, last: bool) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError, ValueError):  # that it ended is seen at its output
            at = 0
            while at < len(content):
                at += stdin.write(content[at : at + 2**20]) or 0
            if last:
                stdin.close()

    def _finish_writing(self, seconds: float) -> None:
        if self._writer is not None:
            self._writer.join(seconds)


def _quoted(content: bytes) -> str:
    shown = content[:_QUOTED].decode(errors="replace")
    return repr(shown + ("…" if len(content) > _QUOTED else ""))


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


def _in_order(x: Tree) -> list[np.ndarray]:
    """The arrays of the inputs: of a dictionary in its own order."""
    if isinstance(x, dict):
        return [a for value in x.values() for a in _in_order(value)]
    return [np.asarray(leaf) for leaf in jax.tree.leaves(x)]
