"""What ensembles of PyTorch modules for regression and for classification share: training, evaluating, saving."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from equitangents._types import FileName
from equitangents.actions import as_action
from equitangents.actions.group_action import GroupAction
from equitangents.actions.named import ActionLike
from equitangents.audit.adapters.optional import require
from equitangents.ensembles.deep.predictions import Members
from equitangents.ensembles.fields.targets import Positions
from equitangents.ensembles.inputs import EstimatorNotFittedError, check_inputs
from equitangents.ensembles.parameters import Estimator
from equitangents.ensembles.training.fingerprint import array_digest, check_same
from equitangents.ensembles.training.jobs import augmented, check_probabilities
from equitangents.ensembles.training.optimizers import resolve_batch_size
from equitangents.ensembles.training.settings import check_actions
from equitangents.errors import EquitangentsError, InvalidArgumentError, NetworkError
from equitangents.scale.place import local
from equitangents.torch import storage
from equitangents.torch.seeds import member_seeds
from equitangents.torch.settings import check_settings
from equitangents.validation import check_whole

if TYPE_CHECKING:
    from equitangents.torch.recipe import Data, FieldOutputs, Recipe

logger = logging.getLogger("equitangents")

_ROWS = 256  # evaluated at once
_TOGETHER = 16  # members trained at once, unless told otherwise


class TorchEnsemble(Members, Estimator):
    """PyTorch modules trained from independent initialisations; `Ensemble` says what the parameters are."""

    _default_loss: ClassVar[str]

    def __init__(
        self,
        factory: Callable[[], Any],
        members: int = 10,
        augmentation: ActionLike | None = None,
        label_action: GroupAction | None = None,
        augmentation_mode: str = "full",
        optimizer: Any = "sgd",
        learning_rate: float = 0.1,
        epochs: int = 100,
        batch_size: int | None = None,
        momentum: float = 0.9,
        loss: str | None = None,
        seed: int = 0,
        input_shape: tuple[int, ...] | None = None,
        layout: str = "channels_first",
        method: str = "auto",
        device: str = "cpu",
        dtype: str = "float32",
        members_per_chunk: int | None = None,
        memory_limit: int | None = None,
        progress: bool = False,
    ) -> None:
        self.factory = factory
        self.members = members
        self.augmentation = augmentation
        self.label_action = label_action
        self.augmentation_mode = augmentation_mode
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.momentum = momentum
        self.loss = loss
        self.seed = seed
        self.input_shape = input_shape
        self.layout = layout
        self.method = method
        self.device = device
        self.dtype = dtype
        self.members_per_chunk = members_per_chunk
        self.memory_limit = memory_limit
        self.progress = progress

    @property
    def net(self) -> Any:
        """The factory, which stands where other ensembles have their network."""
        return self.factory

    def member(self, i: int) -> Any:
        """Member i, a module of its own in evaluation mode."""
        self._check_fitted()
        check_whole("i", i, 0, self._trained - 1)
        return self._module({name: a[i] for name, a in self.params_.items()})

    def save(self, path: FileName) -> None:
        """Write parameters and fitted state to a directory `path`, all of it or nothing.

        An ensemble that was saved there is replaced. The folder holds JSON and arrays with checksums, no pickles. The
        factory, and other parameters that are functions or objects of PyTorch, are left out: give them to `load`.
        """
        self._check_fitted()
        storage.save(self, local("path", path))

    @classmethod
    def load(cls, path: FileName, *, trust: bool = False, **parameters: Any) -> Self:
        """What `save` wrote, with `parameters`, the factory among them, in place of what was saved, or could not be.

        It runs no code but that of equitangents and of the factory, whoever wrote the folder. Folders of versions up to
        0.12 hold a pickle, which runs whatever code its author put in: they are refused unless `trust`. Raises
        StoreError for a folder that is damaged or holds something else.
        """
        return storage.load(cls, local("path", path), parameters, trust)

    def _fit(self, x: Any, targets: np.ndarray) -> None:
        for name in ("params_", "history_"):
            self.__dict__.pop(name, None)
        data, recipe = self._prepared(x, targets)
        self.n_outputs_ = targets.shape[-1]
        self.positions_ = targets.shape[1:-1]
        self.augmentation_ = as_action("augmentation", self.augmentation, np.shape(x))
        self._depends_on = self._fingerprint(data, recipe)
        self.params_, self.history_ = self._train(range(self.members), data, recipe)
        self._warn_if_diverged()

    def _extend(self, members: int, x: Any, targets: np.ndarray) -> None:
        check_whole("members", members, self._trained)
        if members == self._trained:
            return
        data, recipe = self._prepared(x, targets)
        check_same(self._depends_on, self._fingerprint(data, recipe), "this fitted ensemble")
        params, history = self._train(range(self._trained, members), data, recipe)
        self.params_ = {name: np.concatenate([a, params[name]]) for name, a in self.params_.items()}
        self.history_ = np.concatenate([self.history_, history], axis=1)
        self.members = members
        self._warn_if_diverged()

    def _prepared(self, x: Any, targets: np.ndarray) -> tuple[Data, Recipe]:
        """Data and recipe, all checked; raises before anything is trained."""
        check_settings(self)
        torch = require("torch", "torch")
        from equitangents.torch.modules import to_tensor
        from equitangents.torch.recipe import Data, Recipe

        action = as_action("augmentation", self.augmentation, x.shape)
        check_actions(action, self.label_action, x, targets)
        made = augmented(self, action, x, targets)
        if self._loss == "cross_entropy":
            check_probabilities(made.y.reshape(-1, targets.shape[-1]))
        batch_size = resolve_batch_size(self.optimizer, self.batch_size, made.samples)
        device = torch.device(self.device)
        recipe = Recipe(
            self._loss,
            self.optimizer,
            float(self.learning_rate),
            float(self.momentum),
            int(self.epochs),
            batch_size,
            device,
            self._field_outputs(targets.shape[1:]),
        )
        y = torch.from_numpy(made.y).to(device)
        return Data(to_tensor(made.x, self.layout, device), y, made.samples, made.copies), recipe

    def _train(self, ids: range, data: Data, recipe: Recipe) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """(tensors stacked over members, losses (epochs, members)) of the members `ids`."""
        from equitangents.torch.in_turn import train_in_turn
        from equitangents.torch.modules import arrays, make
        from equitangents.torch.together import train_together

        made = lambda i: make(self.factory, int(self.seed), i, self.dtype, recipe.device)
        self._check_module(made(ids[0]), data, recipe.fields)
        self.reason_ = self._reason(ids, data, recipe)
        self.trained_by_ = "torch.func" if self.reason_ is None else "one after another"
        size = 1 if self.reason_ is not None else self.members_per_chunk or _TOGETHER
        found: list[dict[str, np.ndarray]] = []
        history = []
        for chunk in self._shown([ids[k : k + size] for k in range(0, len(ids), size)]):
            modules = [made(i) for i in chunk]
            seeds = [member_seeds(int(self.seed), i) for i in chunk]
            if self.reason_ is None:
                history.append(train_together(modules, data, recipe, seeds))
            else:
                history.append(train_in_turn(modules[0], data, recipe, seeds[0])[:, None])
            found += [arrays(module) for module in modules]
        stacked = {name: np.stack([values[name] for values in found]) for name in found[0]}
        return stacked, np.concatenate(history, axis=1).astype(self.dtype)

    def _reason(self, ids: range, data: Data, recipe: Recipe) -> str | None:
        """Why members are trained one after another; None if they are not. Says which in the log."""
        from equitangents.torch.modules import make
        from equitangents.torch.together import reason_against

        if self.method == "in turn":
            return "method is 'in turn'"
        tried = [make(self.factory, int(self.seed), i, self.dtype, recipe.device) for i in (ids[0], ids[0] + 1)]
        reason = reason_against(tried, data, recipe, int(self.seed))
        if reason is None:
            logger.info("members are trained together, by torch.func")
        elif self.method == "torch.func":
            raise InvalidArgumentError(f"method is 'torch.func', which is not for this module: {reason}")
        else:
            logger.info("members are trained one after another: %s", reason)
        return reason

    def _ends_on(self, x: Any, y: Any) -> Positions | None:
        return None if np.ndim(y) < 3 else Positions(np.shape(y)[1:-1])

    def _field_outputs(self, shape: tuple[int, ...]) -> FieldOutputs | None:
        """How the module gives fields of this shape, (*positions, outputs); None for other outputs."""
        from equitangents.torch.recipe import FieldOutputs

        *grid, outputs = shape
        return FieldOutputs(tuple(grid), outputs, self.layout == "channels_first" and len(grid) > 1) if grid else None

    def _check_module(self, module: Any, data: Data, fields: FieldOutputs | None) -> None:
        """Raise NetworkError unless the module makes the outputs of y."""
        import torch

        try:
            with torch.no_grad():
                shape = tuple(module.eval()(data.x[:2]).shape)
        except EquitangentsError:
            raise
        except Exception as error:
            said = " ".join(str(error).split())[:300]
            raise NetworkError(
                f"the module {type(module).__name__} cannot take inputs of shape {tuple(data.x[:2].shape)} (layout is "
                f"{self.layout!r}): {type(error).__name__}: {said}"
            ) from error
        rows, outputs = len(data.x[:2]), data.y.shape[1]
        if fields is not None and shape != (rows, *fields.shape):
            raise NetworkError(
                f"y has fields of shape {(*fields.grid, fields.outputs)}, (*positions, outputs), and the module makes "
                f"outputs of shape {shape} of {rows} inputs; expected {(rows, *fields.shape)} (layout is "
                f"{self.layout!r})"
            )
        if fields is None and shape != (rows, outputs):
            labels = "; for labels take EnsembleClassifier" if outputs == 1 and self._default_loss == "mse" else ""
            raise NetworkError(
                f"y has {outputs} output(s) or classes and the module makes outputs of shape {shape} of {rows} inputs; "
                f"expected ({rows}, {outputs}){labels}"
            )

    def _member_outputs(self, x: np.ndarray) -> Iterator[np.ndarray]:
        torch = require("torch", "torch")
        from equitangents.torch.modules import to_tensor

        modules, fields = self._filled(), self._field_outputs((*self.positions_, self.n_outputs_))
        as_rows = (lambda f: f) if fields is None else fields.rows
        with torch.inference_mode():
            for begin in range(0, len(x), _ROWS):
                rows = to_tensor(x[begin : begin + _ROWS], self.layout, torch.device(self.device))
                yield np.stack([as_rows(module(rows)).cpu().numpy() for module in modules()])

    def _filled(self) -> Callable[[], Iterator[Any]]:
        """One module that is filled with one member after another, each time it is asked for them."""
        from equitangents.torch.modules import fill

        module = self._module({name: a[0] for name, a in self.params_.items()})

        def members() -> Iterator[Any]:
            for i in range(self._trained):
                yield fill(module, {name: a[i] for name, a in self.params_.items()})

        return members

    def _module(self, values: dict[str, np.ndarray]) -> Any:
        torch = require("torch", "torch")
        from equitangents.torch.modules import fill, make

        return fill(make(self.factory, int(self.seed), 0, self.dtype, torch.device(self.device)), values)

    def _fingerprint(self, data: Data, recipe: Recipe) -> dict[str, str]:
        """What the members depend on, by name."""
        names = ("seed", "epochs", "learning_rate", "momentum", "layout", "augmentation_mode", "dtype")
        settings = {name: repr(getattr(self, name)) for name in names}
        optimizer = self.optimizer if isinstance(self.optimizer, str) else "given"
        return settings | {
            "loss": recipe.loss,
            "optimizer": optimizer,
            "batch size": str(recipe.batch_size),
            "X (after augmentation)": array_digest(data.x.cpu().numpy()),
            "y (after augmentation)": array_digest(data.y.cpu().numpy()),
        }

    def _shown(self, chunks: list[range]) -> Any:
        if not self.progress:
            return chunks
        from rich.progress import track

        return track(chunks, description=f"{sum(map(len, chunks))} members")

    @property
    def _loss(self) -> str:
        return self._default_loss if self.loss is None else self.loss

    @property
    def _trained(self) -> int:
        return self.history_.shape[1]

    def _query(self, X: Any) -> np.ndarray:
        self._check_fitted()
        return np.asarray(check_inputs(self, X, self.input_shape, reset=False), self.dtype)

    def _warn_if_diverged(self) -> None:
        bad = np.flatnonzero(~np.isfinite(self.history_).all(axis=0))
        if len(bad):
            warnings.warn(
                f"training diverged for {len(bad)} of {self._trained} members (the first is member {bad[0]}); lower "
                f"learning_rate, which is {self.learning_rate}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _facts(self) -> list[tuple[str, object]]:
        if not self.__sklearn_is_fitted__():
            return []
        augmentation = "none" if self.augmentation_ is None else self.augmentation_
        how = self.trained_by_ if self.reason_ is None else f"{self.trained_by_}: {self.reason_}"
        return [
            ("networks", f"{self._trained}, trained for {len(self.history_)} epochs"),
            ("trained", how),
            ("augmentation", augmentation),
        ]

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise EstimatorNotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "params_")
