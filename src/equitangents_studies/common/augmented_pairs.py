"""Mean predictions of a network trained with augmentation and of one that is invariant by architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from equitangents import nn
from equitangents.actions import Action
from equitangents.ensembles import InfiniteEnsemble, ZeroOutput
from equitangents.inference import augment_inputs
from equitangents.kernels import orbit_average
from equitangents.statistics import Estimate, second_moment_share
from equitangents_studies.common.ensembles import train_to_last
from equitangents_studies.common.infinite import largest_difference, largest_rate, unit_times
from equitangents_studies.framework.study import Arrays, Task

KINDS = ("plain", "equivariant")


@dataclass(frozen=True, eq=False)
class AugmentedPair:
    """`plain(width)` trains on all copies under `action` of `sets["training"]` with targets y, `equivariant` on none.

    `y` is (N,) or (N, outputs), the same for all copies; predictions are compared on all `sets`.
    """

    plain: Callable[[int], nn.Sequential]
    equivariant: Callable[[int], nn.Sequential]
    action: Action
    sets: Mapping[str, np.ndarray]
    y: np.ndarray

    def infinite(self, units: Sequence[float]) -> Arrays:
        """Relative distances of the means at infinite width, (times, sets), at times in `units` of N/(η λ_max).

        `distance` is that of the augmented from the equivariant network, `without_augmentation` that of the plain one;
        `kernel_distance` (2,) is that of NNGP and NTK from their orbit means.
        """
        x, order = self.sets["training"], self.action.group.order
        net, equivariant = self.plain(1), self.equivariant(1)
        copies = np.tile(self.y, (order, *[1] * (self.y.ndim - 1)))
        # augmented by hand: no shortcut that rests on the theorem
        augmented = InfiniteEnsemble(net).fit(augment_inputs(self.action, x), copies)
        convolutional = InfiniteEnsemble(equivariant).fit(x, self.y)
        bare = InfiniteEnsemble(net).fit(x, self.y)
        times, last = unit_times(convolutional, units), self.sets[list(self.sets)[-1]]
        a, b = equivariant.kernel(x, last), orbit_average(net, self.action).kernel(x, last)
        predicted = {
            key: {name: model.predict(inputs, time=times) for name, inputs in self.sets.items()}
            for key, model in (("augmented", augmented), ("convolutional", convolutional), ("bare", bare))
        }
        difference = lambda key, t, name: largest_difference(
            predicted[key][name][t], predicted["convolutional"][name][t]
        )
        distance = lambda key: np.array([[difference(key, t, name) for name in self.sets] for t in range(len(times))])
        return {
            "kernel_distance": np.array([largest_difference(a.nngp, b.nngp), largest_difference(a.ntk, b.ntk)]),
            "distance": distance("augmented"),
            "without_augmentation": distance("bare"),
        }

    def training(
        self,
        checkpoints: Path,
        kind: str,
        width: int,
        task: Task,
        *,
        members: int,
        fraction: float,
        steps: Sequence[int],
        seed: int,
    ) -> Arrays:
        """Members' outputs on every set after `steps` of full-batch descent from zero output: (steps, members, values).

        A value is one output for one input. The two kinds have different seeds.
        """
        plain = kind == KINDS[0]
        return train_to_last(
            checkpoints,
            self.plain(width) if plain else self.equivariant(width),
            self.sets["training"],
            self.y,
            task,
            augmentation=self.action if plain else None,
            members=members,
            learning_rate=fraction * largest_rate(self.equivariant(1), self.sets["training"], self.y),
            record=self.sets,
            record_at=steps,
            keep=lambda recorded: {n: y.reshape(*y.shape[:2], -1).astype(np.float64) for n, y in recorded.items()},
            seed=seed + (not plain),
            variation=ZeroOutput(),
        )


def distance_share(
    plain: Float[np.ndarray, "members values"], equivariant: Float[np.ndarray, "members values"], level: float = 0.95
) -> Estimate:
    """(E f_plain − E f_equivariant)² over E f_plain², E over members, without the bias of finitely many."""
    return second_moment_share(plain - equivariant, plain, confidence=level)
