"""How far a kernel is from invariance, by moving all inputs with every element of a group."""

import numpy as np


def invariance_error(net, action, x):
    """max |k(ρ(g)x, ρ(g)x') − k(x, x')| / (max |k(x, x)| or 1) over x, its moved copies and g, of NNGP and NTK."""
    elements = range(action.group.order)
    sample = np.concatenate([x, np.asarray(action(int(action.group.generators[0]), x))])
    base, errors = net.kernel(sample), []
    for g in elements:
        found = net.kernel(np.asarray(action(g, sample)))
        for a, b in ((base.nngp, found.nngp), (base.ntk, found.ntk)):
            errors.append(np.abs(np.asarray(a) - np.asarray(b)).max() / (np.abs(np.asarray(a)).max() or 1))
    return np.max(errors)
