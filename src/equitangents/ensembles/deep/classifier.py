"""Classification by an ensemble of finite networks, one output a class.

cross_entropy  P(k) = (1/M) Σ_i softmax(f(x; θ_i))_k
mse            targets one-hot minus 1/K; P(k) = P(output k is the largest) of a Gaussian with the members' mean and std
"""

from __future__ import annotations

from equitangents.ensembles.deep.base import DeepEnsembleBase
from equitangents.ensembles.deep.predictions import Classification
from equitangents.ensembles.scores import FieldClassifierMixin


class DeepEnsembleClassifier(FieldClassifierMixin, Classification, DeepEnsembleBase):
    """`DeepEnsemble` on labels; parameters as there; the loss is "cross_entropy" unless `training` says another.

    The network's last layer makes one output a class. `label_action` acts on the targets (N, K), columns in the order
    of `classes_`: with "cross_entropy" it must permute classes. Of networks that end on positions labels are
    (N, *positions), and losses sums over positions.

    Attributes:
        classes_: the K distinct labels, sorted, of any type.
        params_, history_, recorded_, …: as there; recorded are outputs, not probabilities.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(64), et.nn.Relu(), et.nn.Dense(2))
    >>> x = np.array([[1.0, 0.0], [0.9, 0.2], [-1.0, 0.0], [-0.8, 0.1]])
    >>> model = et.DeepEnsembleClassifier(net, members=4, training=et.ensembles.Training(learning_rate=1.0))
    >>> model = model.fit(x, ["cat", "cat", "dog", "dog"])
    >>> model.predict([[1.0, 0.1]]).tolist()
    ['cat']
    """

    _default_loss = "cross_entropy"
