"""A small convolutional network in PyTorch as people train one: the peer of `fit` that its benchmark adds.

Three convolutions 3×3 with batch norm and ReLU, two of them with a pool, the mean over positions, a dense layer. Adam;
the rate and the number of epochs are chosen by folds of the training images; three networks are then trained on all of
them, and the temperature of their mean logits is the one of the left-out ones.
"""

from collections.abc import Sequence

import numpy as np
import scipy.special

RATES, WIDTHS = (3e-3, 1e-3), (16, 32, 64)
BATCH, MEMBERS, SIDE = 32, 3, 32


def probabilities(
    x: np.ndarray, y: np.ndarray, folds: Sequence[np.ndarray], new: np.ndarray, classes: int, *, turned: bool, seed: int
) -> np.ndarray:
    """(m, classes) of new images, by the mean of three networks; turned: trained on random quarter turns."""
    from equitangents.inference.probabilities import inverse_temperatures

    mean, scale = x.mean(axis=(0, 1, 2)), x.std(axis=(0, 1, 2)) + 1e-6
    x, new = ((smaller(images) - mean) / scale for images in (x, new))
    most = 40 + 16_000 // len(x)  # epochs: 600 steps and more
    tried: list[tuple[float, float, int, np.ndarray]] = []
    for rate in RATES:
        held, epochs = np.zeros((len(x), classes)), []
        for fold in folds:
            kept = np.setdiff1d(np.arange(len(x)), fold)
            count, logits = trained(x[kept], y[kept], x[fold], y[fold], rate, most, classes, turned, seed)
            epochs.append(count)
            held[fold] = logits
        loss = float(-scipy.special.log_softmax(held, axis=1)[np.arange(len(y)), y].mean())
        tried.append((loss, rate, int(np.median(epochs)), held))
    _, rate, count, logits = min(tried, key=lambda each: each[0])
    members = [trained(x, y, new, None, rate, count, classes, turned, seed + 1 + i)[1] for i in range(MEMBERS)]
    beta = float(inverse_temperatures(logits[None], y)[0])
    return np.asarray(scipy.special.softmax(beta * np.mean(members, axis=0), axis=1))


def smaller(images: np.ndarray) -> np.ndarray:
    """Averaged over blocks down to at most 32 pixels of a side."""
    window = max(1, images.shape[1] // SIDE)
    n, height, width, channels = images.shape
    return images.reshape(n, height // window, window, width // window, window, channels).mean(axis=(2, 4))


def trained(
    x: np.ndarray,
    y: np.ndarray,
    other: np.ndarray,
    labels: np.ndarray | None,
    rate: float,
    epochs: int,
    classes: int,
    turned: bool,
    seed: int,
) -> tuple[int, np.ndarray]:
    """(epochs, logits of other images) after so many epochs; with labels of those after the best of them."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    torch.set_num_threads(1)  # batches are small
    blocks: list[nn.Module] = []
    for before, after in zip((x.shape[-1], *WIDTHS), WIDTHS, strict=False):
        pool = nn.Identity() if after == WIDTHS[-1] else nn.MaxPool2d(2)
        blocks += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), pool]
    net = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTHS[-1], classes))
    optimiser = torch.optim.Adam(net.parameters(), rate, weight_decay=1e-4)
    images, others = (torch.as_tensor(each, dtype=torch.float32).permute(0, 3, 1, 2) for each in (x, other))
    copies, targets = (
        torch.stack([torch.rot90(images, k, (2, 3)) for k in range(4 if turned else 1)]),
        torch.as_tensor(y),
    )
    best, found = (np.inf, 0), np.zeros((len(other), classes))
    for epoch in range(1, epochs + 1):
        net.train()
        for rows in torch.randperm(len(images)).split(BATCH):
            if len(rows) > 1:  # batch norm has no variance of one
                batch = copies[torch.randint(len(copies), (len(rows),)), rows]
                optimiser.zero_grad()
                nn.functional.cross_entropy(net(batch), targets[rows]).backward()
                optimiser.step()
        if labels is None and epoch < epochs:
            continue
        net.eval()
        with torch.no_grad():
            logits = net(others).numpy()
        if labels is None:
            return epoch, logits
        loss = float(-scipy.special.log_softmax(logits, axis=1)[np.arange(len(labels)), labels].mean())
        if loss < best[0]:
            best, found = (loss, epoch), logits
        if epoch - best[1] >= epochs // 4:
            break
    return best[1], found
