"""Runs random programs through the engine's library named on the command line, one built with sanitizers."""

import ctypes
import sys

import numpy as np

import equitangents as et
from equitangents import nn
from equitangents.kernels.engines import engine_of
from equitangents.kernels.engines.cpu import descriptor, library
from equitangents.kernels.engines.cpu import rotations as compiled
from equitangents.kernels.engines.cpu import run as runs
from equitangents.kernels.engines.cpu.structured import CompiledStructured
from equitangents.kernels.fields import part_of
from equitangents.kernels.plans.stages import stages_of
from equitangents.kernels.rotations.program import sections
from equitangents.kernels.structured import batch_of
from equitangents.nn.lowering import lower_field

NONLINEARITIES = (
    nn.Relu(), nn.Erf(), nn.Gelu(), nn.Sin(), nn.Cos(), nn.Abs(), nn.Rbf(0.4), nn.Gaussian(),
)  # fmt: skip
POWERS = (nn.Hermite(3), nn.Hermite(6), nn.RectifiedMonomial(3), nn.Exp(0.5, 0.4))
LARGEST = 20_000  # positions times fibres


def random_grid(rng):
    """(network, shape of an input), or None where the layers do not fit each other."""
    d = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, {1: 20, 2: 9, 3: 5}[d], d))
    padding = str(rng.choice(["circular", "zero", "valid"]))
    layers = []
    for _ in range(rng.integers(1, 4)):
        window = tuple(int(rng.integers(1, min(6, n) + 1)) for n in shape)
        layers += [nn.Conv(1, window, stride=int(rng.integers(1, 3)), padding=padding, b_std=0.1)]
        power = (nn.LayerNorm(), POWERS[rng.integers(len(POWERS))])  # of variance 1, so that nothing overflows
        layers += power if rng.integers(4) == 0 else [NONLINEARITIES[rng.integers(len(NONLINEARITIES))]]
        if padding != "valid" and rng.integers(2):
            inner = nn.Residual(nn.Conv(1, window, padding=padding), nn.Cos())
            layers += [nn.Residual(nn.Conv(1, window, padding=padding, b_std=0.1), nn.Relu(), inner)]
    if rng.integers(2):
        layers += [*_branches(rng, padding, len(shape)), nn.Dense(1), nn.LayerNorm(positions=True), nn.Relu()]
    readout = (nn.Flatten(), nn.GlobalAvgPool())[rng.integers(2)]
    end = (nn.Erf(), nn.Dense(1)) if rng.integers(2) else ()
    end = (*end, nn.Residual(nn.Dense(1), nn.Gelu())) if rng.integers(2) else end
    return nn.Sequential(*layers, readout, nn.Dense(1), *end), (*shape, int(rng.integers(1, 4)))


def _branches(rng, padding, d):
    """Branches with strides, and one inside another."""
    stride = int(rng.integers(1, 3))
    one = [nn.Conv(1, (2,) * d, stride=stride, padding=padding), nn.Cos(), nn.Dense(1)]
    other = [nn.Parallel(nn.Dense(1), [nn.Dense(1), nn.Relu(), nn.Dense(1)]), nn.Sum(), nn.Relu()]
    return nn.Parallel(one, [*one, *other], one), nn.Concatenate() if rng.integers(2) else nn.Sum()


def random_pools(rng):
    """(network that pools between layers, shape of an input), or what does not fit."""
    d = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(2, {1: 20, 2: 8, 3: 5}[d], d))
    padding = str(rng.choice(["circular", "zero"]))

    def conv():
        return nn.Conv(1, tuple(int(rng.integers(1, 4)) for _ in shape), padding=padding, b_std=0.1)

    layers = []
    for _ in range(rng.integers(2, 4)):
        layers += [conv(), NONLINEARITIES[rng.integers(len(NONLINEARITIES))]]
        if rng.integers(2):
            inner = nn.Residual(conv(), nn.AvgPool(2, stride=1, padding=padding))
            layers += [nn.Residual(conv(), nn.Relu(), nn.AvgPool(3, stride=1, padding="zero"), conv(), inner)]
        pools = (nn.AvgPool(2), nn.AvgPool(int(rng.integers(1, 4)), int(rng.integers(1, 4)), padding))
        layers += [pools[rng.integers(2)]]
    readout = (nn.Flatten(), nn.GlobalAvgPool())[rng.integers(2)]
    return nn.Sequential(*layers, conv(), nn.Relu(), readout, nn.Dense(1), nn.Relu(), nn.Dense(1)), (*shape, 3)


def cosets():
    """Networks that pool over cosets and go on."""
    group = et.groups.wallpaper(rotations=4, reflections=False, shape=(3, 3))
    for readout in (nn.Flatten(), nn.GroupPool()):
        hidden = (nn.Lift(group, 1, window=(2, 1)), nn.Relu(), nn.GroupPool(group.generated_subgroup([9])))
        yield nn.Sequential(*hidden, nn.Dense(1), nn.Relu(), readout, nn.Dense(1)), (3, 3, 2)


def groups():
    """Networks on groups, with windows of several kinds."""
    for order, reflections, shape in ((4, True, (3, 3)), (2, False, (4, 3))):
        group = et.groups.wallpaper(rotations=order, reflections=reflections, shape=shape)
        for window in ((3, 3), (2, 1), "full"):
            for readout in (nn.Flatten(), nn.GroupPool()):
                layers = (nn.Lift(group, 1, window=window), nn.Relu(), nn.GroupConv(1, window=window), nn.Relu())
                yield nn.Sequential(*layers, readout, nn.Dense(1)), (*shape, 2)


def run(net, shape, rng):
    """Every variant, precision and kind of matrix; False where the engine does not run the network."""
    try:
        steps = engine_of("cpu").steps(net.lower(shape)[1])
    except et.errors.EquitangentsError:
        return False
    if descriptor.obstacle(steps) or sum(len(s.fibres.array) for s in stages_of(steps)) * steps.positions > LARGEST:
        return False
    for dtype in (np.float32, np.float64):
        x, y = (rng.standard_normal((int(rng.integers(1, 20)), *shape)).astype(dtype) for _ in range(2))
        for number in range(len(library.instruction_sets())):
            for other in (y, None):
                assert all(np.isfinite(k).all() for k in runs.kernels(steps, x, other, number))
        runs.listed(steps, x)
        run_fields(net, x, y)
    return True


def run_vectors(rng):
    """So many plain vectors that threads share them, and most tiles are whole."""
    layers = (nn.Dense(1, b_std=0.1), nn.Relu()) * 2
    steps = engine_of("cpu").steps(nn.Sequential(*layers, nn.Dense(1)).lower((300,))[1])
    for dtype in (np.float32, np.float64):
        x, y = rng.standard_normal((2, 400, 300)).astype(dtype)
        for number in range(len(library.instruction_sets())):
            for other in (y, None):
                assert all(np.isfinite(k).all() for k in runs.kernels(steps, x, other, number))
    return True


def run_fields(net, x, y):
    """All parts of the field of the layers before the readout, in every variant."""
    readouts = (nn.Flatten, nn.GlobalAvgPool, nn.GroupPool)
    end = next((i for i, layer in enumerate(net.layers) if isinstance(layer, readouts)), None)
    if not end:
        return
    body = nn.Sequential(*net.layers[:end])
    count = body.signals(x.shape[1:])[-1].positions.count
    if count == 1 or count**2 > LARGEST:
        return
    program, engine = lower_field(body.layers, body.signals(x.shape[1:]))[1], engine_of("cpu")
    for positions in ("all", "same", [[0, count - 1], [count - 1, 0]]):
        part = part_of(positions, count)
        if engine.obstacle(program, x.dtype, part):
            return
        plan = engine.field_steps(program, part)
        for number in range(len(library.instruction_sets())):
            for other in (y, None):
                assert all(np.isfinite(k).all() for k in runs.field_kernels(plan, x, other, number))
        runs.field_diagonal(plan, x)


def rotations():
    """Networks on rotations, with bandlimits and kinds of groups."""
    for group, bandlimit in (
        (et.groups.so3(5), 1),
        (et.groups.so3(5), 2),
        (et.groups.o3(5), 5),
        (et.groups.octahedral(), 3),
    ):
        for resolution in (1, 3):
            branch = nn.Residual(nn.GroupConv(1), nn.Gelu())
            layers = (nn.SphereLift(group, 1, resolution=resolution), nn.Erf(), branch, nn.GroupPool())
            yield nn.Sequential(*layers, nn.Dense(1), nn.Relu(), nn.Dense(1)), bandlimit, resolution


def run_rotations(net, bandlimit, resolution, rng):
    """Every variant and precision; matrices and lists."""
    program = sections(net.lower((bandlimit**2, 2))[1])
    for dtype in (np.float32, np.float64):
        x, y = (rng.standard_normal((int(rng.integers(1, 20)), bandlimit**2, 2)).astype(dtype) for _ in range(2))
        plan = compiled.plan_of(program, resolution, x.itemsize)
        for number in range(len(library.instruction_sets())):
            for other in (compiled.vectors(y), None):
                assert all(np.isfinite(k).all() for k in runs.kernels(plan, compiled.vectors(x), other, number))
        listed = np.zeros(37, int), np.arange(37) % len(y)
        compiled.CompiledRotations().kernels(program, resolution, x, y, listed)
    return True


def run_structured(rng):
    """One random network with masks, graphs and attention, in every variant; matrices and diagonals."""
    shape = tuple(int(n) for n in rng.integers(2, 6, int(rng.integers(1, 3))))
    count = int(np.prod(shape))
    layers = []
    for _ in range(rng.integers(1, 3)):
        conv = nn.Conv(1, 3, padding=str(rng.choice(["zero", "circular"])), b_std=0.1)
        layers += [conv, NONLINEARITIES[rng.integers(len(NONLINEARITIES))]]
        matrix = nn.Aggregate(rng.standard_normal((count, count)) / count)
        layers += [(nn.Attention(1), matrix, nn.Dropout(0.5), nn.Residual(conv, nn.Relu()))[rng.integers(4)]]
    if all(n % 2 == 0 for n in shape):
        layers += [(nn.AvgPool(2), nn.SumPool(2))[rng.integers(2)]]
    layers += [nn.Dense(1), nn.LayerNorm(positions=True), (nn.Flatten(), nn.GlobalAvgPool())[rng.integers(2)]]
    net = nn.Sequential(*layers, nn.Dense(1), nn.Relu(), nn.Dense(1))

    def batch():
        x = rng.standard_normal((int(rng.integers(1, 20)), *shape, 2))
        return et.Masked(x, rng.random(x.shape[:-1]) < 0.7, "neural-tangents") if masked else x

    masked = bool(rng.integers(2))
    x, y = batch(), batch()
    program, engine = (
        net.lowered(et.Masked(x, np.ones(x.shape[:-1], bool), "neural-tangents") if not masked else x)[1],
        CompiledStructured(),
    )
    one, other = (batch_of(program, v) for v in (x, y))
    for number in range(len(library.instruction_sets())):
        for second in (other, None):
            assert all(np.isfinite(k).all() for k in engine.kernels(program, one, second, number))
    engine.diagonal(program, one)
    return True


def main(path):
    """Count what ran."""
    sanitized = ctypes.CDLL(path)
    sanitized.eqt_instruction_set_name.restype = ctypes.c_char_p
    library._loaded = lambda: (sanitized, None)
    rng = np.random.default_rng(0)
    vectors = nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dense(1))
    grids = (*(random_grid(rng) for _ in range(60)), *(random_pools(rng) for _ in range(60)))
    cases = [*grids, *groups(), *cosets(), *((vectors, (n,)) for n in (1, 130, 300))]
    ran = sum(run(net, shape, rng) for net, shape in cases) + sum(run_rotations(*case, rng) for case in rotations())
    ran += run_vectors(rng)
    print(ran + sum(run_structured(rng) for _ in range(60)))


if __name__ == "__main__":
    main(sys.argv[1])
