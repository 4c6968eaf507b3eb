"""Files of predictions as arrays by name, whatever the format."""

import numpy as np
import zarr


def read(path):
    """Arrays by name; what a .npy holds is called the mean."""
    if path.suffix == ".npy":
        return {"mean": np.load(path)}
    if path.suffix == ".npz":
        return dict(np.load(path))
    return {name: array[:] for name, array in zarr.open_group(path, mode="r").arrays()}
