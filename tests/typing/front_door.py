"""What a type checker sees of a user's file: right uses pass, and each wrong one is an error.

`make lint` checks this file; an error that is no longer seen leaves an ignore without use, which is an error itself.
"""

import jax
import numpy as np

import equitangents as et

net = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(8), et.nn.Relu(), et.nn.Dense(2))
x, y = np.zeros((4, 4, 4, 1)), np.zeros(4)
turns = et.actions.image_rotations(4)


def right() -> None:
    """Passes in strict mode."""
    infinite = et.InfiniteEnsemble(net, augmentation=turns, kernel="ntk").fit(x, y)
    et.DeepEnsemble(net, members=2, epochs=1).fit(x, y)
    mean, std = infinite.predict(x, return_std=True)
    print(mean.shape, std.shape, net.kernel(x).ntk)
    report = et.audit(infinite.predict, turns, x, output_action=et.audit.Labels([1, 0]), tolerance=0.1)
    print(report.verdict, report.summary())
    print(et.plan_ensemble(infinite, turns, x, target=0.01).members)
    print(et.metrics.orbit_same_predictions(infinite.predict, turns, x).mean)
    print(et.kernels.empirical(net, net.init(jax.random.key(0), (4, 4, 1)), x, x).shape)
    et.testing.assert_equivariant(infinite.predict, turns, x)
    print(et.studies.registry["toy"].presets, et.data.digits(), et.contenders.names())
    print(et.systems.rotate(x, "P(3d)").shape)


def wrong() -> None:
    """None of these passes."""
    et.InfinteEnsemble(net)  # type: ignore[attr-defined]
    et.InfiniteEnsemble(net, kernel="nntk")  # type: ignore[arg-type]
    et.DeepEnsemble(net, member=2)  # type: ignore[call-arg]
    print(et.audit(net, "C4", x).verdit)  # type: ignore[attr-defined]
    et.audit(net, "C4", x, tolerence=1)  # type: ignore[call-arg]
    et.systems.learning_curves(net, x, y)  # type: ignore[attr-defined]
