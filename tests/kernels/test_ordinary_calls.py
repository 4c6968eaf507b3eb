"""What an ordinary call leaves out, it may leave out: the shorter ways give what the longer ones give."""

import pickle

import numpy as np
import pytest

from equitangents.errors import NotFiniteError
from equitangents.kernels.engines import engine_of
from equitangents.kernels.plans.stages import StagedPlan, in_bands, staged
from equitangents.kernels.scales import are_ordinary, law_of, scales_of
from equitangents.nn import AvgPool, Conv, Dense, Erf, Flatten, GlobalAvgPool, Monomial, Relu, Sequential

NETS = {
    "homogeneous": Sequential(Dense(1), Relu(), Dense(1)),
    "with biases": Sequential(Dense(1, b_std=0.3), Relu(), Dense(1)),
    "saturating": Sequential(Dense(1), Erf(), Dense(1)),
    "a power": Sequential(Dense(1), Monomial(3), Dense(1)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NETS)
def test_inputs_that_their_extreme_norms_show_to_be_ordinary_are_so_one_by_one(name, dtype, rng):
    law, shown = law_of(NETS[name].lowered(np.ones((1, 3)))[1]), 0
    for _ in range(60):
        # A few norms apart, near the bounds of what is comfortable, zero, or too large to be squared.
        at, spread = rng.choice([-140, -30, -19, -2, 0, 3, 18, 30, 63, 120]), rng.choice([0, 1, 3, 6])
        x, y = (rng.standard_normal((4, 3)) * 2.0 ** (at + spread * rng.random((4, 1))) for _ in range(2))
        x[0] *= rng.choice([1, 1, 1, 0])
        x, y = x.astype(dtype), y.astype(dtype)
        if are_ordinary(law, (x, y)):
            scales = scales_of(law, dtype, x, y)
            assert not scales.far
            assert not scales.moved
            assert not scales.zero1.any()
            assert not scales.zero2.any()
            shown += 1
    assert shown > 5
    assert are_ordinary(law, (np.ones((2, 3), dtype),))
    assert not are_ordinary(law, (np.ones((2, 3), dtype), np.full((2, 3), np.nan, dtype)))
    assert not are_ordinary(law, (np.zeros((0, 3), dtype),))


@pytest.mark.parametrize("n2", [None, 3, 20])
def test_kernels_that_no_number_can_hold_are_refused_by_the_engine_wherever_they_are(n2):
    net = Sequential(Dense(1, W_std=1e18), Relu(), Dense(1, W_std=1e18))
    program = net.lowered(np.ones((1, 3), np.float32))[1]
    x = np.full((20, 3), 1e-20, np.float32)
    y = None if n2 is None else x[:n2].copy()
    nngp, _ = engine_of("cpu").kernels(program, x, y)
    assert np.isfinite(nngp).all()
    for at in (0, 13, 19):
        large = x.copy()
        large[at] = 3e4
        with pytest.raises(NotFiniteError, match=r"as large as 3.0e\+04"):
            engine_of("cpu").kernels(program, large, large if n2 is None else np.full((n2, 3), 3e4, np.float32))


def test_a_copy_of_a_program_in_another_process_hashes_as_programs_there_do():
    net = Sequential(Conv(1, 3), Relu(), AvgPool(2), Conv(1, 3), Relu(), Flatten(), Dense(1))
    program = net.lowered(np.ones((1, 8, 8, 3)))[1]
    for kept in (program, staged(program)):
        stored = pickle.dumps(kept)
        assert str(hash(kept)).encode() not in stored
        assert b"_hash" not in stored
        copy = pickle.loads(stored)
        assert copy == kept
        assert hash(copy) == hash(kept)


def test_coarse_fibres_are_complete_soon_after_they_were_begun():
    side, conv = 16, (Conv(1, 3, padding="zero"), Relu())
    net = Sequential(*conv, AvgPool(2), *conv, AvgPool(2), *conv, GlobalAvgPool(), Dense(1))
    plan = staged(net.lowered(np.ones((1, side, side, 3)))[1])
    assert isinstance(plan, StagedPlan)
    for fine, coarse in zip(plan.stages[:-1], plan.stages[1:], strict=True):
        offsets, wanted = fine.fibres.array, coarse.fibres.array
        assert len(np.unique(offsets, axis=0)) == len(offsets)
        touched = (np.abs(offsets[None] - 2 * wanted[:, None]) < 2).all(axis=-1)  # by coarse and fine fibre
        first, last = touched.argmax(axis=1), touched.shape[1] - 1 - touched[:, ::-1].argmax(axis=1)
        run = np.maximum.accumulate(last)  # fine fibres that were run when it is a coarse one's turn
        begun = [np.count_nonzero(first[i:] <= run[i]) for i in range(len(wanted))]
        assert max(begun) < len(wanted) / 3


def test_bands_hold_every_fibre_once():
    fibres = np.stack(np.meshgrid(*[np.arange(-5, 6)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    found = in_bands(fibres, 2)
    assert sorted(map(tuple, found)) == sorted(map(tuple, fibres))
    assert (in_bands(fibres[:, :1], 1) == fibres[:, :1]).all()
