"""A classifier from 200 labelled images: the best network by leave-one-out, and how right it is on new images."""

import numpy as np

import equitangents as et

digits = et.data.digits().subset(train=200, test=300)
choice = et.fit.auto(digits.train_x, digits.train_y, minutes=1)
print(choice)

predicted = choice.model.predict(digits.test_x)
probability = choice.model.predict_proba(digits.test_x).max(axis=1)
print(f"accuracy on new images   {np.mean(predicted == digits.test_y):.3f}")
print(f"mean probability claimed {probability.mean():.3f}")

sure = probability >= 0.8
right = np.mean(predicted[sure] == digits.test_y[sure])
print(f"accuracy of the {sure.mean():.0%} that claim 0.8 or more  {right:.3f}")
