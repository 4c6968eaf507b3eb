"""Agreement of predictions over orbits against the number of members (arXiv 2403.03103), with mirror images too: D4."""

import matplotlib.pyplot as plt
import numpy as np

import equitangents as et

digits = et.data.digits().subset(train=200)
action = et.actions.image_dihedral(4)
foreign = et.data.gaussian_noise(100, (8, 8, 1))  # images unlike the training data
targets = np.eye(10)[digits.train_y] - 0.1

net = et.nn.Sequential(et.nn.Conv(16, (3, 3), W_std=2**0.5, b_std=0.1), et.nn.Relu(), et.nn.Flatten(), et.nn.Dense(10))
deep = et.DeepEnsemble(net, members=32, augmentation=action, optimizer="momentum", learning_rate=0.5, epochs=10)
deep.fit(digits.train_x, targets)
infinite = et.InfiniteEnsemble(net, augmentation=action).fit(digits.train_x, targets)

sizes = [1, 2, 4, 8, 16, 32]
agreement = []
for size in sizes:
    mean = lambda images, size=size: deep.predict_members(images)[:size].mean(axis=0)
    agreement.append(et.metrics.orbit_same_predictions(mean, action, foreign).mean)
    print(f"{size:3d} networks  {agreement[-1]:.2f} of 8")
limit = et.metrics.orbit_same_predictions(infinite.predict, action, foreign).mean
print(f"infinitely many  {limit:.2f} of 8")

fig, ax = plt.subplots()
ax.semilogx(sizes, agreement, "o-", label="mean of networks")
ax.axhline(limit, linestyle="--", label="infinitely many, infinitely wide")
ax.set(xlabel="members", ylabel="orbit same predictions, of 8")
ax.legend()
fig.savefig("figure.svg")
