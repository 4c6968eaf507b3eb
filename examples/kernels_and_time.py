"""Mean and spread of infinitely many networks over training, beside gradient descent on real ones."""

import jax
import numpy as np

import equitangents as et

rng = np.random.default_rng(0)
x, x_new = rng.normal(size=(30, 4)), rng.normal(size=(6, 4))
y = np.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3]

net = et.nn.Sequential(et.nn.Dense(512, W_std=1.5, b_std=0.1), et.nn.Erf(), et.nn.Dense(1))
kernels = net.kernel(x_new, x)  # NNGP and NTK, (6, 30) each
print("NTK", kernels.ntk.shape, "computed by", kernels.engine)

params = net.init(jax.random.key(0), (4,))
finite = et.empirical_ntk_fn(net.apply)(x_new, x, params)
print("one network of width 512 is off by", float(np.abs(finite - kernels.ntk).max() / np.abs(kernels.ntk).max()))

steps = [1, 10, 100]
infinite = et.InfiniteEnsemble(net, dynamics="discrete", learning_rate=1.0).fit(x, y)
print("step  infinite mean and spread  mean of 50 networks")
for step in steps:
    mean, std = infinite.predict(x_new[:1], time=step, return_std=True)
    deep = et.DeepEnsemble(net, members=50, optimizer="gd", learning_rate=1.0, epochs=step).fit(x, y)
    print(f"{step:4d}  {mean[0, 0]:8.4f} ± {std[0]:.4f}        {deep.predict(x_new[:1])[0, 0]:8.4f}")
