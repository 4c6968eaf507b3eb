"""How far a trained classifier is from invariance under quarter turns, and what averaging over turns would give."""

import numpy as np

import equitangents as et

digits = et.data.digits().subset(train=500, test=200)
net = et.nn.Sequential(
    et.nn.Conv(16, (3, 3), W_std=2**0.5), et.nn.Relu(), et.nn.AvgPool((2, 2)), et.nn.Flatten(), et.nn.Dense(10)
)
model = et.DeepEnsembleClassifier(net, members=1, optimizer="momentum", learning_rate=0.5, epochs=20)
model.fit(digits.train_x, digits.train_y)


def probabilities(images):
    """The model as anything that maps an array of images to an array of outputs."""
    return model.predict_proba(images)


report = et.audit(probabilities, "C4", digits.test_x, effort="quick")
print(report)
report.to_html("audit.html")

averaged = report.remedy("average")
again = et.audit(averaged, "C4", digits.test_x, effort="quick")
print(again)

turned = np.rot90(digits.test_x, axes=(1, 2))
print("largest change by a turn, before", np.abs(probabilities(turned) - probabilities(digits.test_x)).max())
print("largest change by a turn, after ", np.abs(averaged(turned) - averaged(digits.test_x)).max())
