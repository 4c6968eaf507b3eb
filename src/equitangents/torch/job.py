"""Members that PyTorch trains: modules, some of them at once or one after another, that go on from a checkpoint."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from equitangents.ensembles.training.run import Job
from equitangents.ensembles.training.variations import Variation, variation_key
from equitangents.errors import StoreError
from equitangents.torch.modules import Factory, Tensors, make, member_seeds, outputs_of, tensors
from equitangents.torch.recipe import Data, Recipe
from equitangents.torch.trainers import OneByOne, Vectorised

if TYPE_CHECKING:
    import torch


class Trainer(Protocol):
    """Some modules in training: `vectorised` or `one_by_one`."""

    optimiser: torch.optim.Optimizer

    def training(self) -> AbstractContextManager[None]:
        """Within it epochs are trained."""

    def epoch(self, orders: Sequence[torch.Tensor]) -> np.ndarray:
        """One pass over the rows that each member visits in order; mean losses (members,)."""

    def tensors(self) -> Tensors:
        """Parameters and buffers by name, stacked over members."""

    def noise(self) -> list[torch.Tensor]:
        """States of the generators that modules draw from."""

    def set_noise(self, states: Sequence[torch.Tensor]) -> None:
        """Go on from `noise`."""


class Here:
    """The calling thread, of whose devices and generators PyTorch keeps track."""

    def map(self, fn: Callable[[Any], Any], items: Sequence[Any], *, first_alone: bool = False) -> list[Any]:
        """[fn(item) for item in items]."""
        return [fn(item) for item in items]


@dataclass(frozen=True)
class ModuleJob(Job):
    """What a run computes by PyTorch: members `first` to `first + members − 1`, trained by `recipe` on `data`.

    `resampled` is how many transformed copies of each sample the data hold. `vectorised`: several modules at once.
    """

    factory: Factory
    recipe: Recipe
    data: Data
    resampled: int
    layout: str
    first: int
    members: int
    seed: int
    dtype: str
    variation: Variation
    vectorised: bool

    stacks_state = False
    in_pieces = True

    @property
    def numbers(self) -> int:
        """How many numbers the outputs at an input are."""
        return int(self.data.y.shape[1])

    @property
    def has_baseline(self) -> bool:
        """Whether something is subtracted from a member's outputs."""
        return self.variation.has_baseline

    def in_blocks(self, rows: int) -> ModuleJob:
        """This job: batches are computed whole."""
        return self

    def groups(self, chunk: int) -> list[range]:
        """The members of every chunk, the last of which may have fewer."""
        ids = range(self.first, self.first + self.members)
        return [ids[k : k + chunk] for k in range(0, len(ids), chunk)]

    def workers(self) -> AbstractContextManager[Any]:
        """The calling thread, which trains and evaluates chunks."""
        return nullcontext(Here())

    def beginner(self) -> Callable[[range], ModuleChunk]:
        """A function that makes the chunk of some members, before training."""
        return lambda ids: ModuleChunk(self, ids)

    def made(self, member: int) -> torch.nn.Module:
        """A member before training."""
        return make(self.factory, self.seed, member, self.dtype, self.recipe.device)

    def own_data(self, ids: range, start: dict[str, np.ndarray] | None) -> Data:
        """The data with what the members `ids` have of their own: drawn rows, and what is subtracted from outputs."""
        import torch

        data, device, own, offsets = self.data, self.recipe.device, None, None
        if self.variation.gathers:
            samples, copies = len(data.x) // self.resampled, self.resampled
            rows = [self.variation.rows(variation_key(self.seed, i), samples, copies) for i in ids]
            own = torch.from_numpy(np.array(rows, np.int64)).to(device)
        if start is not None:
            x = data.x.cpu().numpy()
            parts = outputs_of(self.made(ids[0]), start, x, "channels_last", self.recipe.fields)  # laid out already
            offsets = torch.from_numpy(np.concatenate(list(parts), axis=1)).to(device)
        return replace(data, own=own, offsets=offsets)


class ModuleChunk:
    """Members that are trained at once."""

    def __init__(self, job: ModuleJob, ids: range) -> None:
        import torch

        self._job = job
        self._template: torch.nn.Module | None = None  # which members fill to be evaluated
        modules, seeds = [job.made(i) for i in ids], [member_seeds(job.seed, i) for i in ids]
        self._generators = [torch.Generator().manual_seed(s.order) for s in seeds]
        kind = Vectorised if job.vectorised else OneByOne
        self.start: dict[str, np.ndarray] | None = None
        if job.has_baseline:
            parts = [_copied(tensors(module)) for module in modules]
            self.start = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
        self._trainer: Trainer = kind(modules, job.own_data(ids, self.start), job.recipe, seeds)

    def restore(self, params: Sequence[np.ndarray], state: Sequence[np.ndarray]) -> None:
        """Go on from parameters and buffers in the order of their names, and from what `state` gave."""
        import torch

        trained = self._trainer.tensors()
        with torch.no_grad():
            for name, values in zip(sorted(trained), params, strict=True):
                trained[name].copy_(torch.from_numpy(np.array(values)))
        (written,) = state
        try:  # an optimizer of one's own may keep objects that are not read without running code
            found = torch.load(io.BytesIO(np.asarray(written).tobytes()), weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
            reason = str(error).partition("\n")[0]
            raise StoreError("checkpoint", reason, "an optimizer's state that can be read", "train anew") from None
        self._trainer.optimiser.load_state_dict(found["optimizer"])
        self._trainer.set_noise(found["noise"])
        for generator, order in zip(self._generators, found["orders"], strict=True):
            generator.set_state(order)

    def advance(self, first: int, count: int) -> np.ndarray:
        """Train for `count` more epochs; losses (count, members)."""
        if not count:
            return np.zeros((0, len(self._generators)), self._job.dtype)
        losses, job = [], self._job
        with self._trainer.training():
            for _ in range(count):
                orders = [job.data.order(g, job.recipe.batch_size) for g in self._generators]
                losses.append(self._trainer.epoch(orders))
        return np.stack(losses).astype(job.dtype)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Outputs (members, N, outputs), less the members' baselines."""
        job = self._job
        module = self._template = job.made(job.first) if self._template is None else self._template

        def evaluated(params: dict[str, np.ndarray]) -> np.ndarray:
            return np.concatenate(list(outputs_of(module, params, x, job.layout, job.recipe.fields)), axis=1)

        found = evaluated(self.params())
        return found if self.start is None else found - evaluated(self.start)

    def params(self) -> dict[str, np.ndarray]:
        """Parameters and buffers by name, stacked over members."""
        return _copied(self._trainer.tensors())

    def state(self) -> list[np.ndarray]:
        """What else the members go on from, as bytes: their optimisers, and the generators that they draw from."""
        import torch

        written = io.BytesIO()
        orders = [generator.get_state() for generator in self._generators]
        held = {"optimizer": self._trainer.optimiser.state_dict(), "noise": self._trainer.noise(), "orders": orders}
        torch.save(held, written)
        return [np.frombuffer(written.getvalue(), np.uint8)]


def _copied(found: Tensors) -> dict[str, np.ndarray]:
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in found.items()}
