"""Members that PyTorch trains and evaluates: from an estimator's parameters to a `ModuleJob`, and to outputs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from equitangents._types import InputShape, Targets, Tree
from equitangents.actions.kinds import ActionLike
from equitangents.ensembles.fields.targets import Positions
from equitangents.ensembles.training.checkpoints import array_digest
from equitangents.ensembles.training.descent import OPTIMIZERS, resolve_batch_size
from equitangents.ensembles.training.jobs import Ensemble, Prepared, Task, variation_of
from equitangents.ensembles.training.plan import Plan
from equitangents.ensembles.training.settings import check_settings
from equitangents.ensembles.training.variations import PLAIN, Bootstrap, ZeroOutput
from equitangents.errors import EquitangentsError, InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.extras import require
from equitangents.nn import Admissible
from equitangents.nn.admissible import is_admissible_law
from equitangents.validation import check_choice

if TYPE_CHECKING:
    import torch

    from equitangents.torch.job import ModuleJob
    from equitangents.torch.recipe import FieldOutputs

logger = logging.getLogger("equitangents")

LAYOUTS = ("channels_first", "channels_last")
METHODS = ("auto", "torch.func", "in turn")
_AT_ONCE = 16  # members trained at once, by default
_SETTINGS = ("seed", "learning_rate", "momentum", "layout", "augmentation_mode", "dtype")  # that members depend on


class TorchBackend:
    """Modules that a factory makes (`ensembles.training.jobs.Backend`)."""

    def check_settings(self, estimator: Ensemble) -> None:
        """Raise for parameters that cannot be, and where PyTorch is not installed."""
        p = estimator
        if any(c.__module__ == "torch.nn.modules.module" for c in type(p.factory).__mro__):
            raise InvalidTypeError(
                "factory",
                type(p.factory),
                "a function that makes the module with new weights",
                "such as lambda: Net()",
                verb="is a module",
            )
        if not callable(p.factory):
            raise InvalidTypeError("factory", p.factory, "a function without arguments that makes a module")
        check_settings(p)
        check_choice("layout", p.layout, LAYOUTS)
        check_choice("method", p.method, METHODS)
        if not callable(p.optimizer) and p.optimizer not in OPTIMIZERS:
            raise InvalidArgumentError(
                "optimizer", p.optimizer, [*OPTIMIZERS, "a function parameters -> torch.optim.Optimizer"]
            )
        variation = variation_of(p)
        if not isinstance(variation, Bootstrap | ZeroOutput) and variation != PLAIN:
            raise NetworkError(
                "variation", variation, "Bootstrap() or zero_output=True for members that PyTorch trains"
            )
        require("torch", "torch", "equitangents.torch")

    def check_inputs(self, estimator: Ensemble, x: np.ndarray) -> None:
        """Nothing: a module says what it takes when it is given data in its layout."""

    def prepared(self, estimator: Ensemble, task: Task) -> Prepared:
        """The job, how its members are trained and why, and a fingerprint of settings and data."""
        import torch

        from equitangents.torch.job import ModuleJob
        from equitangents.torch.modules import to_tensor
        from equitangents.torch.recipe import Data, Recipe

        p, device, made = estimator, torch.device(estimator.device), task.data
        recipe = Recipe(
            task.loss,
            p.optimizer,
            float(p.learning_rate),
            float(p.momentum),
            resolve_batch_size(p.optimizer, p.batch_size, made.samples),
            device,
            field_outputs(p.layout, task.targets.shape[1:]),
        )
        data = Data(to_tensor(made.x, p.layout, device), torch.from_numpy(made.y).to(device), made.samples, made.copies)
        job = ModuleJob(
            p.factory,
            recipe,
            data,
            task.copies,
            p.layout,
            task.first,
            task.members,
            int(p.seed),
            p.dtype,
            variation_of(p),
            vectorised=False,
        )
        module = job.made(job.first)
        _check_module(module, job, p)
        reason = _reason(job, p.method)
        job = replace(job, vectorised=reason is None)
        chunk = p.members_per_chunk or _AT_ONCE if job.vectorised else 1
        facts: dict[str, object] = {
            "reason_": reason,
            "trained_by_": "torch.func" if reason is None else "one after another",
        }
        fingerprint = {name: repr(getattr(p, name)) for name in _SETTINGS} | {
            "loss": recipe.loss,
            "optimizer": p.optimizer if isinstance(p.optimizer, str) else "given",
            "batch size": str(recipe.batch_size),
            "X (after augmentation)": array_digest(data.x.cpu().numpy()),
            "y (after augmentation)": array_digest(data.y.cpu().numpy()),
            "variation": repr(job.variation),
            "module": repr(module),
            "trained by": str(facts["trained_by_"]),
        }
        return Prepared(job, Plan(chunk, recipe.batch_size), fingerprint, job.variation, facts)

    def outputs(self, estimator: Ensemble, x: np.ndarray) -> Iterator[np.ndarray]:
        """Outputs of all members, less their baselines, for one block of rows after another."""
        require("torch", "torch", "equitangents.torch")
        from equitangents.torch.modules import outputs_of

        p = estimator
        fields, module = field_outputs(p.layout, (*p.positions_, p.n_outputs_)), self.member(p, 0)
        found = outputs_of(module, p.params_, x, p.layout, fields)
        if p.params0_ is None:
            return found
        start = outputs_of(self.member(p, 0), p.params0_, x, p.layout, fields)
        return (after - before for after, before in zip(found, start, strict=True))

    def member(self, estimator: Ensemble, i: int) -> torch.nn.Module:
        """A module of its own in evaluation mode."""
        torch = require("torch", "torch", "equitangents.torch")
        from equitangents.torch.modules import fill, make

        p = estimator
        module = make(p.factory, int(p.seed), 0, p.dtype, torch.device(p.device))
        return fill(module, {name: a[i] for name, a in p.params_.items()})

    def ends_on(self, estimator: Ensemble, x: np.ndarray, y: Targets) -> Positions | None:
        """The positions of y."""
        return None if np.ndim(y) < 3 else Positions(np.shape(y)[1:-1])

    def variables(self, estimator: Ensemble) -> Tree:
        """Names of parameters and buffers, as the factory makes them."""
        torch = require("torch", "torch", "equitangents.torch")
        from equitangents.torch.modules import make, tensors

        p = estimator
        return dict.fromkeys(tensors(make(p.factory, int(p.seed), 0, p.dtype, torch.device(p.device))), 0)

    def is_admissible(self, estimator: Ensemble, action: ActionLike, shape: InputShape, members: int) -> Admissible:
        """By modules that the factory makes, before training and in evaluation mode."""
        self.check_settings(estimator)
        torch = require("torch", "torch", "equitangents.torch")
        from equitangents.torch.modules import make, to_tensor

        p, device = estimator, torch.device(estimator.device)

        def outputs(x: np.ndarray) -> Iterator[np.ndarray]:
            for i in range(members):
                module = make(p.factory, int(p.seed), i, p.dtype, device).eval()
                with torch.inference_mode():  # left before what is made here is used elsewhere
                    y = module(to_tensor(x.astype(p.dtype), p.layout, device)).cpu().numpy()
                yield y[None]

        return is_admissible_law(outputs, action, shape, seed=int(p.seed))


def field_outputs(layout: str, shape: tuple[int, ...]) -> FieldOutputs | None:
    """How a module gives fields of this shape, (*positions, outputs); None for other outputs."""
    from equitangents.torch.recipe import FieldOutputs

    *grid, outputs = shape
    return FieldOutputs(tuple(grid), outputs, layout == "channels_first" and len(grid) > 1) if grid else None


def _reason(job: ModuleJob, method: str) -> str | None:
    """Why members are trained one after another; None if they are not. Says which in the log."""
    from equitangents.torch.trainers import reason_against

    if method == "in turn":
        return "method is 'in turn'"
    reason = reason_against([job.made(job.first), job.made(job.first + 1)], job.data, job.recipe, job.seed)
    if reason is None:
        logger.info("members are trained together, by torch.func")
    elif method == "torch.func":
        raise InvalidArgumentError("method", "torch.func", "'in turn' for this module", str(reason))
    else:
        logger.info("members are trained one after another: %s", reason)
    return reason


def _check_module(module: torch.nn.Module, job: ModuleJob, estimator: Ensemble) -> None:
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
