"""CNNs whose training is random: dropout and batch normalisation, built of the layers of Flax."""

from __future__ import annotations

import flax.linen as nn
import jax


class NoisyCNN(nn.Module):
    """3×3 convolutions on a torus with ReLU, then all positions into one dense layer.

    dropout: the share of values that are left out after each ReLU; normalised: by batches, before it.
    """

    channels: int
    hidden_layers: int
    outputs: int
    dropout: float = 0.0
    normalised: bool = False

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        """x (n, height, width, channels) to (n, outputs)."""
        for _ in range(self.hidden_layers):
            x = nn.Conv(self.channels, (3, 3), padding="CIRCULAR")(x)
            if self.normalised:
                x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
            x = nn.relu(x)
            if self.dropout:
                x = nn.Dropout(self.dropout)(x, deterministic=not train)
        return nn.Dense(self.outputs)(x.reshape(len(x), -1))
