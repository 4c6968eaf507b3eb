"""Members that PyTorch trains: modules, some of them at once or one after another, that go on from a checkpoint."""

from __future__ import annotations

import io
import logging
import pickle
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equitangents.ensembles.training.run import Augmented, Job, array_digest, resolve_batch_size
from equitangents.errors import EquitangentsError, InvalidArgumentError, NetworkError, StoreError
from equitangents.torch.modules import Factory, FieldOutputs, make, member_seeds, outputs_of, to_tensor
from equitangents.torch.trainers import Data, OneByOne, TorchRecipe, Vectorised, reason_against

if TYPE_CHECKING:
    import torch

logger = logging.getLogger("equitangents")

_AT_ONCE = 16  # members trained at once, by default
_SETTINGS = ("seed", "learning_rate", "momentum", "layout", "augmentation_mode", "dtype")  # that members depend on


class Here(AbstractContextManager["Here"]):
    """The calling thread, of whose devices and generators PyTorch keeps track."""

    def map(self, fn: Callable[[Any], Any], items: Sequence[Any], *, first_alone: bool = False) -> list[Any]:
        """[fn(item) for item in items]."""
        return [fn(item) for item in items]

    def __exit__(self, *error: object) -> None: ...


@dataclass(frozen=True)
class ModuleJob(Job):
    """What a run computes by PyTorch: members `first` to `first + members − 1`, trained by `recipe` on `data`."""

    recipe: TorchRecipe
    factory: Factory
    data: Data
    layout: str
    reason: str | None = None  # why modules are trained one after another

    in_pieces = True
    workers = Here

    @property
    def facts(self) -> dict[str, object]:
        """How members are trained, and why."""
        return {"reason_": self.reason, "trained_by_": "torch.func" if self.reason is None else "one after another"}

    def groups(self) -> list[range]:
        """The members of every chunk, the last of which may have fewer."""
        ids, chunk = range(self.first, self.first + self.members), self.chunk
        return [ids[k : k + chunk] for k in range(0, len(ids), chunk)]

    def begin(self, ids: range) -> ModuleChunk:
        """The chunk of some members, before training."""
        return ModuleChunk(self, ids)

    def made(self, member: int) -> torch.nn.Module:
        """A member before training."""
        return make(self.factory, self.seed, member, self.dtype, self.recipe.device)


class ModuleChunk:
    """Members that are trained at once."""

    start = None

    def __init__(self, job: ModuleJob, ids: range) -> None:
        import torch

        self._job = job
        self._template: torch.nn.Module | None = None  # which members fill to be evaluated
        modules, seeds = [job.made(i) for i in ids], [member_seeds(job.seed, i) for i in ids]
        self._generators = [torch.Generator().manual_seed(s.order) for s in seeds]
        kind = Vectorised if job.reason is None else OneByOne
        self._trainer: OneByOne | Vectorised = kind(modules, job.data, job.recipe, seeds)

    def restore(self, params: Sequence[np.ndarray], state: Sequence[np.ndarray]) -> None:
        """Resume from parameters and buffers in the order of their names, and from `state`."""
        import torch

        trained = self._trainer.tensors()
        with torch.no_grad():
            for name, values in zip(sorted(trained), params, strict=True):
                trained[name].copy_(torch.from_numpy(np.array(values)))
        (written,) = state
        try:  # a custom optimizer may store objects that cannot be read without running code
            saved = torch.load(io.BytesIO(np.asarray(written).tobytes()), weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
            reason = str(error).partition("\n")[0]
            raise StoreError("checkpoint", reason, "an optimizer's state that can be read", "train again") from None
        self._trainer.optimiser.load_state_dict(saved["optimizer"])
        self._trainer.noise = list(saved["noise"])
        for generator, order in zip(self._generators, saved["orders"], strict=True):
            generator.set_state(order)

    def advance(self, first: int, count: int) -> np.ndarray:
        """Train for `count` more epochs; losses (count, members)."""
        losses, job = [], self._job
        with self._trainer.training():
            for _ in range(count):
                orders = [job.data.order(g, job.recipe.batch_size) for g in self._generators]
                losses.append(self._trainer.epoch(orders))
        return np.stack(losses).astype(job.dtype)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Outputs (members, N, outputs)."""
        job = self._job
        module = self._template = job.made(job.first) if self._template is None else self._template
        return np.concatenate(list(outputs_of(module, self.params(), x, job.layout, job.recipe.fields)), axis=1)

    def params(self) -> dict[str, np.ndarray]:
        """Parameters and buffers by name, stacked over members."""
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self._trainer.tensors().items()}

    def state(self) -> list[np.ndarray]:
        """The remaining state of the members as bytes: optimisers and random generators."""
        import torch

        written = io.BytesIO()
        orders = [generator.get_state() for generator in self._generators]
        held = {"optimizer": self._trainer.optimiser.state_dict(), "noise": self._trainer.noise, "orders": orders}
        torch.save(held, written)
        return [np.frombuffer(written.getvalue(), np.uint8)]


def job_of(estimator: Any, made: Augmented, first: int, members: int) -> ModuleJob:
    """Members `first` to `first + members − 1` of an estimator on augmented data, and how they are trained and why.

    Raises NetworkError unless the module makes the outputs of the targets.
    """
    import torch

    p, device = estimator, torch.device(estimator.device)
    recipe = TorchRecipe(
        p._loss,
        p.optimizer,
        float(p.learning_rate),
        float(p.momentum),
        resolve_batch_size(p.optimizer, p.batch_size, made.samples),
        device,
        field_outputs(p.layout, made.targets.shape[1:]),
    )
    data = Data(to_tensor(made.x, p.layout, device), torch.from_numpy(made.y).to(device), made.samples, made.copies)
    job = ModuleJob(recipe, first, members, int(p.seed), p.dtype, 1, recipe.batch_size, p.factory, data, p.layout)
    module = job.made(first)
    _check_module(module, job, p)
    job = replace(job, reason=_reason(job, p.method))
    if job.reason is None:
        job = replace(job, chunk=p.members_per_chunk or _AT_ONCE)
    fingerprint = {name: repr(getattr(p, name)) for name in _SETTINGS} | {
        "loss": recipe.loss,
        "optimizer": p.optimizer if isinstance(p.optimizer, str) else "given",
        "batch size": str(recipe.batch_size),
        "X (after augmentation)": array_digest(data.x.cpu().numpy()),
        "y (after augmentation)": array_digest(data.y.cpu().numpy()),
        "module": repr(module),
        "trained by": str(job.facts["trained_by_"]),
    }
    return replace(job, fingerprint=fingerprint)


def _reason(job: ModuleJob, method: str) -> str | None:
    """Why members are trained one after another; None if they are not. Says which in the log."""
    if method == "in turn":
        return "method is 'in turn'"
    reason = reason_against([job.made(job.first), job.made(job.first + 1)], job.data, job.recipe, job.seed)
    if reason is None:
        logger.info("members are trained together, by torch.func")
    elif method == "torch.func":
        raise InvalidArgumentError("method", "torch.func", "'in turn' for this module", reason)
    else:
        logger.info("members are trained one after another: %s", reason)
    return reason


def field_outputs(layout: str, shape: tuple[int, ...]) -> FieldOutputs | None:
    """How a module gives fields of this shape, (*positions, outputs); None for other outputs."""
    *grid, outputs = shape
    return FieldOutputs(tuple(grid), outputs, layout == "channels_first" and len(grid) > 1) if grid else None


def _check_module(module: torch.nn.Module, job: ModuleJob, estimator: Any) -> None:
    """Raise NetworkError unless the module makes the outputs of y."""
    import torch

    data, fields, layout = job.data, job.recipe.fields, job.layout
    try:
        with torch.no_grad():
            shape = tuple(module.eval()(data.x[:2]).shape)
    except EquitangentsError:
        raise
    except Exception as error:
        message = " ".join(str(error).split())[:300]
        raise NetworkError(
            "module",
            tuple(data.x[:2].shape),
            "inputs that it takes",
            f"layout is {layout!r}: {message}",
            verb="fails on inputs of shape",
        ) from error
    rows, outputs = len(data.x[:2]), data.y.shape[1]
    if fields is not None and shape != (rows, *fields.shape):
        raise NetworkError(
            "module", shape, (rows, *fields.shape), "the shape of y's fields; see layout", verb="gives outputs of shape"
        )
    if fields is None and shape != (rows, outputs):
        labels = "; for labels take EnsembleClassifier" if outputs == 1 and estimator._default_loss == "mse" else ""
        raise NetworkError("module", shape, (rows, outputs), f"as y has{labels}", verb="gives outputs of shape")
