"""What a training run depends on, digested, so that a checkpoint is continued by the same run or not at all."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.ensembles.training.network_job import NetworkJob
from equitangents.ensembles.training.recipe import Own, run_epochs
from equitangents.errors import InvalidArgumentError

_ADDRESS = re.compile(r"0x[0-9a-f]+")


def array_digest(*arrays: ArrayLike) -> str:
    """A digest of shapes, types and values."""
    digest = hashlib.sha256()
    for array in arrays:
        a = np.ascontiguousarray(array)
        digest.update(f"{a.shape}{a.dtype}".encode())
        digest.update(a.tobytes())
    return digest.hexdigest()[:16]


def program_digest(job: NetworkJob) -> str:
    """A digest of the arithmetic of training: network, loss, optimiser and batches, with all their constants."""
    with precision.scope(job.dtype):
        one = jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *a.shape), a.dtype), job.member_shapes())
        data = (jax.ShapeDtypeStruct(a.shape, job.dtype) for a in (job.x, job.y))
        step = lambda members, x, y: run_epochs(job.recipe, *members, Own(), x, y, np.int32(0), np.int32(1))
        program = jax.make_jaxpr(step)(one, *data)
    text = _ADDRESS.sub("", str(program))
    return hashlib.sha256((text + array_digest(*_constants(program))).encode()).hexdigest()[:16]


def _constants(program: ClosedJaxpr | Jaxpr) -> Iterator[ArrayLike]:
    """The constants of a program and of the programs that its steps hold, which its text leaves out."""
    for constant in program.consts if isinstance(program, ClosedJaxpr) else ():
        is_key = jax.dtypes.issubdtype(constant.dtype, jax.dtypes.prng_key)
        yield jax.random.key_data(constant) if is_key else constant
    is_program = lambda value: isinstance(value, ClosedJaxpr | Jaxpr)
    for step in program.eqns:
        for value in jax.tree.leaves(list(step.params.values()), is_leaf=is_program):
            if is_program(value):
                yield from _constants(value)


def job_fingerprint(job: NetworkJob, settings: dict[str, Any]) -> dict[str, str]:
    """What the run depends on, by name: settings as they are, the rest as digests."""
    return {
        "JAX": jax.__version__,
        **{name: json.dumps(value) for name, value in settings.items()},
        "network, optimizer or their settings": program_digest(job),
        "X (after augmentation)": array_digest(job.x),
        "y (after augmentation)": array_digest(job.y),
    }


def record_fingerprint(recorded: dict[str, np.ndarray]) -> dict[str, str]:
    """The inputs whose outputs are recorded, by name."""
    return {"record": json.dumps({name: array_digest(x) for name, x in sorted(recorded.items())})}


def check_same(fingerprint: dict[str, str], other: dict[str, str], what: str) -> None:
    """Raise InvalidArgumentError, naming what differs, unless the two fingerprints are equal."""
    differing = [name for name in fingerprint if fingerprint[name] != other.get(name)]
    if differing:
        changes = "; ".join(f"{name}: {other.get(name, 'absent')} there, {fingerprint[name]} now" for name in differing)
        raise InvalidArgumentError(f"{what} is of another run, differing in {changes}")
