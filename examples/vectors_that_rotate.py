"""Forces on particles from few examples: outputs that rotate with their inputs, exactly, after any training time."""

import numpy as np

import equitangents as et

rng = np.random.default_rng(0)
positions = rng.normal(size=(40, 3))
forces = -positions / (0.1 + np.linalg.norm(positions, axis=1, keepdims=True) ** 3)
new = rng.normal(size=(200, 3))
truth = -new / (0.1 + np.linalg.norm(new, axis=1, keepdims=True) ** 3)

turn = et.actions.rotations(et.groups.octahedral())  # the 24 rotations of a cube, acting on vectors
net = et.nn.Sequential(et.nn.Dense(1, W_std=1.5, b_std=0.3), et.nn.Relu(), et.nn.Dense(1))
plain = et.InfiniteEnsemble(net, ridge=1e-3).fit(positions, forces)
augmented = et.InfiniteEnsemble(net, ridge=1e-3, augmentation=turn, label_action=turn).fit(positions, forces)

for name, model in (("plain", plain), ("augmented", augmented)):
    error = np.sqrt(np.mean((model.predict(new) - truth) ** 2))
    violation = np.abs(model.predict(turn(7, new)) - turn(7, model.predict(new))).max()
    print(f"{name:10s} error {error:.3f}  largest violation of a rotation {violation:.1e}")
print("solved as", augmented.solver_)
