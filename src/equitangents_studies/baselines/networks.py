"""Fitted baselines: networks trained together, kernel regression, averages over orbits; and their sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from equitangents import actions, nn
from equitangents.ensembles import DeepEnsembleClassifier, InfiniteEnsembleClassifier
from equitangents.extending import ArrayLike, DType, FiniteNetwork, Params
from equitangents_studies.baselines.baseline import BaselineProblem, checked

W_STD, B_STD, LAST_STD = 2**0.5, 0.1, 0.5


def patch_cnn(
    channels: Sequence[int],
    outputs: int,
    *,
    patch: int = 2,
    padding: Literal["circular", "zero"] = "circular",
    output_std: float,
    pooled: bool = False,
) -> nn.Sequential:
    """Patches without overlap, then 3×3 convolutions, with ReLU; then all positions, or their mean, into a dense layer.

    Where the patches fill the image, rotations by 90° map windows to windows.
    """
    first, *others = channels
    std: dict[str, Any] = {"padding": padding, "W_std": W_STD, "b_std": B_STD}
    layers: list[nn.Layer] = [nn.Conv(first, (patch, patch), stride=patch, **std), nn.Relu()]
    for width in others:
        layers += [nn.Conv(width, (3, 3), **std), nn.Relu()]
    return nn.Sequential(*layers, nn.GlobalAvgPool() if pooled else nn.Flatten(), nn.Dense(outputs, W_std=output_std))


def cnn(problem: BaselineProblem, channels: tuple[int, ...] | None = None) -> nn.Sequential:
    """The plain network, without built-in symmetry."""
    chosen = problem.channels if channels is None else channels
    return patch_cnn(chosen, problem.classes, padding="zero", output_std=LAST_STD)


def count_parameters(net: FiniteNetwork, shape: tuple[int, ...]) -> int:
    """Number of parameters, without drawing any."""
    params = jax.eval_shape(lambda key: net.init(key, shape, "float32"), jax.random.key(0))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


def count_multiplications(net: FiniteNetwork, shape: tuple[int, ...]) -> int:
    """Multiplications in matrix products and convolutions per predicted image."""
    params = jax.eval_shape(lambda key: net.init(key, shape, "float32"), jax.random.key(0))
    counts = [
        _count(jax.make_jaxpr(net.apply)(params, jax.ShapeDtypeStruct((images, *shape), np.float32)).jaxpr)
        for images in (1, 2)
    ]
    return counts[1] - counts[0]


def _count(program: Any) -> int:
    total = 0
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            total += math.prod(equation.outvars[0].aval.shape) * math.prod(left[i] for i in contracted)
        elif equation.primitive.name == "conv_general_dilated":
            kernel, numbers = equation.invars[1].aval.shape, equation.params["dimension_numbers"]
            per_output = math.prod(kernel) // kernel[numbers.rhs_spec[0]]
            total += math.prod(equation.outvars[0].aval.shape) * per_output
        repeats = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        total += repeats * sum(_count(inner) for inner in _inner(equation.params))
    return total


def _inner(params: Mapping[str, Any]) -> list[Any]:
    """Programs inside an instruction: loop bodies and called functions."""
    values = [v for value in params.values() for v in (value if isinstance(value, tuple | list) else (value,))]
    programs = [getattr(value, "jaxpr", value) for value in values]
    return [program for program in programs if hasattr(program, "eqns")]


@dataclass(frozen=True)
class Canonicalised:
    """Learned canonicalisation (Kaba et al. 2023, arXiv 2211.06489): a small network chooses the rotation to undo.

    s(g) = h(ρ(g)⁻¹x) scores every element; g* = argmax s; f(x) = c(ρ(g*)⁻¹x). Since s(ρ(k)x)(g) = s(x)(k⁻¹g), the
    rotated image that c sees is the same for the whole orbit. Gradients reach h straight through the argmax: those of
    softmax(s). `scorer`, h, has one output, the score of the orientation it is shown; `classifier`, c, sees the chosen
    one.
    """

    group: str
    scorer: nn.Sequential
    classifier: nn.Sequential

    def init(self, key: jax.Array, input_shape: tuple[int, ...], dtype: DType = "float32") -> Params:
        """Random parameters of scorer and classifier, in a pair."""
        first, second = jax.random.split(key)
        return self.scorer.init(first, input_shape, dtype), self.classifier.init(second, input_shape, dtype)

    def apply(self, params: Params, x: ArrayLike) -> jax.Array:
        """(N, H, W, C) to (N, classes)."""
        scorer, classifier = params
        x = jnp.asarray(x, jax.tree.leaves(params)[0].dtype)
        orbit = self._rotated_back(x)
        scores = self.scorer.apply(scorer, orbit.reshape((-1, *x.shape[1:]))).reshape(orbit.shape[:2])
        soft = jax.nn.softmax(scores, axis=0)
        hard = jax.nn.one_hot(jnp.argmax(scores, axis=0), len(scores), axis=0, dtype=soft.dtype)
        weights = hard + soft - jax.lax.stop_gradient(soft)
        return self.classifier.apply(classifier, jnp.einsum("gn,gnhwc->nhwc", weights, orbit))

    def _rotated_back(self, x: jax.Array) -> jax.Array:
        """ρ(g)⁻¹x for every g: (|G|, N, H, W, C)."""
        action = actions.as_action("group", self.group, x.shape)
        inverse = np.array([int(action.group.inverse(g)) for g in range(action.group.order)])
        return action.orbit(x)[inverse]


class TrainedNetworks:
    """`members` networks of one architecture, trained by Adam on the cross-entropy, from independent weights.

    With `augmented` each member rotates every image by a random element in every epoch, so that all networks of a
    comparison take the same number of steps.
    """

    def __init__(
        self, net: FiniteNetwork, problem: BaselineProblem, *, members: int = 1, augmented: bool = False
    ) -> None:
        self.net, self.problem, self.members = net, problem, members
        self.ensemble = DeepEnsembleClassifier(
            net,
            members=members,
            augmentation=problem.action if augmented else None,
            augmentation_mode="random" if augmented else "full",
            optimizer="adam",
            learning_rate=problem.learning_rate,
            epochs=problem.epochs,
            batch_size=problem.batch,
            seed=problem.seed,
        )

    @property
    def parameters(self) -> int:
        """Number of parameters of all members together."""
        return self.members * count_parameters(self.net, self.problem.shape)

    @property
    def multiplications(self) -> int:
        """Multiplications of one prediction for one image, all members together."""
        return self.members * count_multiplications(self.net, self.problem.shape)

    def fit(self, x: Float[np.ndarray, "n height width channels"], y: Int[np.ndarray, " n"]) -> TrainedNetworks:
        """Train all members on the same images."""
        self.ensemble.fit(x, y)
        return self

    def predict(self, x: Float[np.ndarray, "n height width channels"]) -> Float[np.ndarray, "n classes"]:
        """Probabilities of the classes of `fit`, mean over members."""
        return every_class(self.ensemble.predict_proba(x), self.ensemble.classes_, self.problem.classes, 0.0)

    def predict_members(self, x: Float[np.ndarray, "n height width channels"]) -> np.ndarray:
        """Probabilities of every member, (members, N, classes)."""
        outputs = self.ensemble.predict_members(x).astype(np.float64)
        outputs = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        outputs /= outputs.sum(axis=-1, keepdims=True)
        return every_class(outputs, self.ensemble.classes_, self.problem.classes, 0.0)


def every_class(scores: np.ndarray, known: np.ndarray, classes: int, other: float) -> np.ndarray:
    """Scores for all classes; classes without a training image get the score `other`."""
    full = np.full((*scores.shape[:-1], classes), other)
    full[..., known] = scores
    return full


_RIDGE = 1e-3
_ROWS = 1000


class KernelMachine:
    """The mean of infinitely many infinitely wide networks, trained to convergence with a small weight decay."""

    def __init__(self, net: nn.Sequential, problem: BaselineProblem, *, augmented: bool) -> None:
        self.problem = problem
        augmentation = problem.action if augmented else None
        self._model = InfiniteEnsembleClassifier(net, augmentation=augmentation, time=float("inf"), ridge=_RIDGE)

    @property
    def parameters(self) -> None:
        """None: there are infinitely many; coefficients of training images are stored."""
        return None

    def fit(self, x: np.ndarray, y: np.ndarray) -> KernelMachine:
        """Solve for the first `kernel_images` images."""
        count = self.problem.kernel_images
        self._model.fit(x[:count].astype(np.float32), y[:count])
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Mean outputs, (N, classes)."""
        rows = [self._model.ensemble_.predict(x[i : i + _ROWS].astype(np.float32)) for i in range(0, len(x), _ROWS)]
        outputs = np.concatenate(rows)
        return every_class(outputs, self._model.classes_, self.problem.classes, outputs.min() - 1.0)


class AveragedBaseline:
    """A baseline averaged over the orbit of every input: f̄(x) = (1/|G|) Σ_g f(ρ(g)x).

    Invariant exactly where ρ is exact; where it resamples, f̄(ρ(h)x) sees images that were resampled twice.

    For a baseline that predicts labels it is the majority vote. Costs are known if the baseline's are.
    """

    def __init__(self, baseline: Any, problem: BaselineProblem) -> None:
        self.baseline, self.action, self.classes = baseline, problem.action, problem.classes

    @property
    def parameters(self) -> int:
        """Parameters of the baseline that is averaged."""
        return int(self.baseline.parameters)

    @property
    def multiplications(self) -> int:
        """|G| times the multiplications of one prediction."""
        return int(self.action.group.order * self.baseline.multiplications)

    def fit(self, x: np.ndarray, y: np.ndarray) -> AveragedBaseline:
        """Train the baseline whose predictions are averaged."""
        self.baseline.fit(x, y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Mean scores over the orbit, (N, classes)."""
        order = self.action.group.order
        total = np.zeros((len(x), self.classes))
        for g in range(order):
            output = checked("the baseline that is averaged", self.baseline.predict(self.action(g, x)), *total.shape)
            total += np.eye(self.classes)[output.astype(int)] if output.ndim == 1 else output
        return total / order
