"""Memory of the compiled engine's results is used again, and never while anybody holds a number in it."""

import threading

import numpy as np
import pytest

from equitangents.kernels.engines.cpu.memory import BLOCKS, LINE, ResultMemory

SHAPE, DTYPE = (512, 1024), np.dtype(np.float32)


def address(array):
    return array.ctypes.data


@pytest.fixture
def memory():
    return ResultMemory()


def test_memory_that_nobody_holds_is_used_again(memory):
    first = address(memory.array(SHAPE, DTYPE))
    again = memory.array(SHAPE, DTYPE)
    assert address(again) == first
    assert address(again) % LINE == 0
    assert address(memory.array((500, 1024), DTYPE)) != first


@pytest.mark.parametrize(
    "hold",
    [
        lambda a: a,
        lambda a: a[3:4, 5],
        lambda a: a.T,
        lambda a: memoryview(a),
        lambda a: np.asarray(a).view(np.int32)[:1],
        lambda a: np.frombuffer(a, np.uint8, 4),
        lambda a: {"result": [a]},
    ],
)
def test_memory_that_is_held_is_left_alone(memory, hold):
    held = hold(memory.array(SHAPE, DTYPE))
    others = [memory.array(SHAPE, DTYPE) for _ in range(2 * BLOCKS)]
    starts = [address(a) for a in others]
    assert len(set(starts)) == len(starts)
    for other in others:
        other.fill(1)
    del others
    kept = memory.array(SHAPE, DTYPE)
    assert not np.shares_memory(kept, np.asarray(held["result"][0] if isinstance(held, dict) else held))


def test_threads_never_share_a_block(memory):
    wrong = []

    def work(number):
        for _ in range(20):
            a = memory.array(SHAPE, DTYPE)
            a[:] = number
            wrong.append(bool((a != number).any()))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 60
    assert not any(wrong)
