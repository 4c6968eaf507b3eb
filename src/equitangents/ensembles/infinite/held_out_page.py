"""The page of a fitted classifier: what it learnt, how sure it may be, which samples look mislabelled, what turns do.

All but the last is of left-out samples: each is predicted by the classifier trained on the others, exactly.
Probabilities are softmax(μ/T) of those predictions, T the temperature of their smallest log loss, whether or not the
model itself is calibrated: one number fitted to all samples, so the page's own calibration error is slightly small.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.special
from jaxtyping import Float, Int

from equitangents.ensembles.infinite.classifier import InfiniteEnsembleClassifier, fitted_temperature
from equitangents.errors import InvalidArgumentError
from equitangents.report import Figure, Section, Table
from equitangents.report.figures import canvas, inline_figure
from equitangents.report.palette import BLUE, FRAME
from equitangents.report.render import Document
from equitangents.statistics.student import binomial_ends

SHOWN = 12  # images or rows of a section
UNLIKELY = 0.05  # below it a label looks wrong
TURNED = 200  # samples whose turned copies are predicted, at most
_BINS, _CLASSES = 10, 12


@dataclass(frozen=True)
class HeldOut:
    """Left-out samples: probabilities (N, K), their labels and predictions as indices of K `classes`, their names."""

    probabilities: Float[np.ndarray, "n classes"]
    labels: Int[np.ndarray, " n"]
    predictions: Int[np.ndarray, " n"]
    classes: tuple[str, ...]
    names: tuple[str, ...]
    temperature: float

    @property
    def hits(self) -> np.ndarray:
        """Whether each label is predicted, (N,)."""
        return self.predictions == self.labels

    @property
    def confidence(self) -> Float[np.ndarray, " n"]:
        """The probability of the predicted class, (N,)."""
        return self.probabilities[np.arange(len(self.labels)), self.predictions]

    @property
    def of_label(self) -> Float[np.ndarray, " n"]:
        """The probability of the label that was given, (N,)."""
        return self.probabilities[np.arange(len(self.labels)), self.labels]

    @staticmethod
    def of(model: InfiniteEnsembleClassifier, names: Sequence[str] = ()) -> HeldOut:
        """What a fitted classifier says of each sample when it is left out; `names` are by default their numbers.

        Raises InvalidArgumentError for labels at positions and for names of another number, and what
        `leave_one_out_` raises.
        """
        if model.positions_:
            raise InvalidArgumentError("the page is of one label a sample, and the model has one at every position")
        left = model.leave_one_out_
        outputs = left.outputs.predictions
        labels = np.argmax(outputs + left.residuals, axis=1)
        temperature = fitted_temperature(outputs, outputs + left.residuals)
        called = tuple(names) or tuple(f"sample {i}" for i in range(len(labels)))
        if len(called) != len(labels):
            raise InvalidArgumentError(
                f"names has {len(called)} entries; the model was fitted to {len(labels)} samples"
            )
        return HeldOut(
            scipy.special.softmax(outputs / temperature, axis=1), labels, np.argmax(outputs, axis=1),
            tuple(map(str, model.classes_)), called, temperature,
        )  # fmt: skip

    def summary(self) -> str:
        """How often it is right, with its interval, beside the most frequent label alone."""
        right, count = int(self.hits.sum()), len(self.hits)
        low, high = binomial_ends(right / count, count, 0.95, (0.0, 1.0))
        common = Counter(self.labels.tolist()).most_common(1)[0][1]
        return (
            f"On samples that it was not trained on, it names the right label for {right:,} of {count:,}, "
            f"{right / count:.1%} (95 % interval {low:.1%} to {high:.1%}, over samples); the most frequent label "
            f"alone: {common / count:.1%}."
        )

    def bins(self) -> list[tuple[float, float, int]]:
        """(mean confidence, share that is right, number) of up to ten groups of equally many samples, by confidence."""
        order = np.argsort(self.confidence, kind="stable")
        parts = np.array_split(order, min(_BINS, max(1, len(order) // 5)))
        return [(float(self.confidence[p].mean()), float(self.hits[p].mean()), len(p)) for p in parts]

    def calibration_error(self) -> float:
        """Σ_b (n_b/N) |share right − mean confidence| over the groups of `bins`."""
        return sum(n * abs(right - said) for said, right, n in self.bins()) / len(self.hits)

    def chance_error(self) -> float:
        """What `calibration_error` is about if every probability is right: Σ_b (n_b/N) √(2 p_b (1 − p_b)/(π n_b))."""
        parts = [n * math.sqrt(2 * said * (1 - said) / (math.pi * n)) for said, _, n in self.bins()]
        return sum(parts) / len(self.hits)

    def confusions(self) -> list[tuple[int, int, int]]:
        """(label, prediction, how often), the most frequent first, without the right ones."""
        wrong = Counter(zip(self.labels[~self.hits].tolist(), self.predictions[~self.hits].tolist(), strict=True))
        return [(label, said, count) for (label, said), count in sorted(wrong.items(), key=lambda w: (-w[1], w[0]))]


def held_out_page(
    model: InfiniteEnsembleClassifier,
    names: Sequence[str] = (),
    *,
    title: str,
    next_command: str = "",
    folds: HeldOut | None = None,
    first: Sequence[Section] = (),
) -> Document:
    """The page; pictures stand in it where samples are images (H, W, 1 or 3).

    folds: what is said of samples by models chosen and fitted without their folds, in place of the model's own left-out
    samples. first: sections before all others. Raises as `HeldOut.of`.
    """
    held = HeldOut.of(model, names) if folds is None else replace(folds, names=tuple(names) or folds.names)
    x = np.asarray(model._data[0])
    images = x if x.ndim == 4 and x.shape[-1] in (1, 3) else None
    sections = [*first, _learnt(held), _sure(held), _unsure(held, images), _mislabelled(held, images)]
    if images is not None:
        sections.append(_turned(model, held, images))
    if next_command:
        sections.append(Section("How to go on", [f"For new data: {next_command}"]))
    facts = {
        "Samples": f"{len(held.labels):,}",
        "Classes": str(len(held.classes)),
        "Predicted by": model.leave_one_out_.predictor if folds is None else "choices made on the other folds",
        "Temperature": "one number, of the same samples" if folds is None else "of the other folds",
        "Inputs standardised by": model.leave_one_out_.standardised_by,
        "Probabilities": "those of --calibrate" if model.temperature_ is None else "the model’s own, calibrated",
    }
    return Document(title, "Fitted classifier", held.summary(), sections, facts)


def _learnt(held: HeldOut) -> Section:
    K = len(held.classes)
    counts = np.zeros((K, K), int)
    np.add.at(counts, (held.labels, held.predictions), 1)
    if K <= _CLASSES:
        rows = [[f"{name} ({counts[k].sum()})", *map(str, counts[k])] for k, name in enumerate(held.classes)]
        shown = Table("Rows: labels and how many there are; columns: what is predicted.", ["", *held.classes], rows)
    else:
        found = held.confusions()[:SHOWN]
        rows = [[held.classes[a], held.classes[b], str(n), str(int(counts[a].sum()))] for a, b, n in found]
        shown = Table("The most frequent confusions.", ["label", "predicted", "times", "samples of the label"], rows)
    recall = [(counts[k, k] / counts[k].sum(), name) for k, name in enumerate(held.classes) if counts[k].sum()]
    worst, best = min(recall), max(recall)
    text = f"Best known is {best[1]} ({best[0]:.0%} of its samples are named so), worst {worst[1]} ({worst[0]:.0%})."
    if worst[0] == best[0]:
        text = f"All classes are known as well: {best[0]:.0%} of the samples of each are named so."
    return Section("What it learnt", [text], [shown])


def _sure(held: HeldOut) -> Section:
    bins, error = held.bins(), held.calibration_error()
    if not math.isfinite(held.temperature):
        return Section(
            "How sure it may be",
            ["Left-out samples are predicted no better than by chance, so every class is as likely as any other."],
        )
    with canvas(4.2, 3.6) as drawn:
        axes = drawn.subplots()
        axes.plot([0, 1], [0, 1], color=FRAME.light, lw=1)
        said, right = np.array([b[0] for b in bins]), np.array([b[1] for b in bins])
        ends = np.array([binomial_ends(r, n, 0.95, (0.0, 1.0)) for _, r, n in bins])
        axes.errorbar(said, right, abs(ends.T - right), fmt="o", color=BLUE.light, lw=1.2)
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.set(xlabel="mean probability of the predicted class", ylabel="share that is right")
        svg = inline_figure(drawn, "reliability")
    caption = (
        f"{len(bins)} groups of equally many left-out samples by probability; bars: 95 % intervals over the samples of "
        "a group. On the line probabilities say how often the prediction is right."
    )
    text = (
        f"The probability of the predicted class and the share that is right differ by {error:.3f} in the mean over "
        f"these groups (calibration error); if every probability were right, chance would show about "
        f"{held.chance_error():.3f}."
    )
    return Section("How sure it may be", [text], [Figure("reliability", caption, svg, "Reliability", wide=False)])


def _unsure(held: HeldOut, images: np.ndarray | None) -> Section:
    order = np.argsort(held.confidence, kind="stable")[:SHOWN]
    half = held.confidence < 0.5
    text = f"{int(half.sum()):,} of {len(half):,} samples have no class of probability one half or more"
    text += f"; of these {held.hits[half].mean():.0%} are right." if half.any() else "."
    return Section("Where it is unsure", [text], [_named(held, order, images, "unsure", "The least sure ones.")])


def _mislabelled(held: HeldOut, images: np.ndarray | None) -> Section:
    unlikely = held.of_label < UNLIKELY
    expected = float(np.where(held.probabilities < UNLIKELY, held.probabilities, 0).sum())
    text = (
        f"{int(unlikely.sum()):,} of {len(unlikely):,} samples have a label to which all others give less than "
        f"{UNLIKELY:.0%}. If every label were right and the probabilities as well, about {expected:.1f} would: "
    )
    many = unlikely.sum() > 2 * max(expected, 1)
    text += "look through those below." if many else "that alone is no sign of wrong labels."
    order = [i for i in np.argsort(held.of_label, kind="stable")[:SHOWN] if not held.hits[i]]
    if not order:
        return Section("Which look mislabelled", ["Every left-out sample is named as it is labelled."])
    shown = _named(held, order, images, "mislabelled", "Labels that the others doubt most.")
    return Section("Which look mislabelled", [text], [shown])


def _named(
    held: HeldOut, order: Sequence[int] | np.ndarray, images: np.ndarray | None, name: str, caption: str
) -> Figure | Table:
    """Samples with label, prediction and both probabilities: as pictures, or as a table where there are none."""
    label, said = (lambda i: held.classes[held.labels[i]]), (lambda i: held.classes[held.predictions[i]])
    if images is None:
        rows = [
            [held.names[i], label(i), f"{held.of_label[i]:.2f}", said(i), f"{held.confidence[i]:.2f}"] for i in order
        ]
        return Table(caption, ["sample", "label", "its probability", "predicted", "its probability"], rows)
    across = 4
    down = math.ceil(len(order) / across)
    with canvas(8.6, 2.7 * down) as drawn:
        every = np.ravel(drawn.subplots(down, across, squeeze=False))
        for axes in every:
            axes.axis("off")
        for axes, i in zip(every, order, strict=False):
            axes.imshow(_visible(images[i]), cmap="gray", interpolation="nearest")
            words = [_short(held.names[i]), f"label: {_short(label(i), 16)} {held.of_label[i]:.2f}"]
            words.append(f"says: {_short(said(i), 16)} {held.confidence[i]:.2f}")
            axes.set_title("\n".join(word.replace("$", r"\$") for word in words), fontsize=9, fontweight="normal")
        svg = inline_figure(drawn, name)
    explained = f"{caption} Each with the probability of its label and of the class that is predicted."
    return Figure(name, explained, svg, caption)


def _turned(model: InfiniteEnsembleClassifier, held: HeldOut, images: np.ndarray) -> Section:
    title = "What turning changes"
    if model.augmentation is not None:
        group = getattr(model.augmentation_, "group", None)
        name = getattr(group, "name", None) or "the group of the augmentation"
        return Section(
            title,
            [
                f"Nothing, for the elements of {name}: the model was trained on all of them, and the mean of its "
                "ensemble is equivariant at every time and for every input, exactly."
            ],
        )
    count = min(TURNED, len(images))
    chosen = np.sort(np.random.default_rng(0).permutation(len(images))[:count])
    x, labels = images[chosen], held.labels[chosen]
    square = images.shape[1] == images.shape[2]
    moves = {f"turned by {90 * k}°": np.rot90(x, k, axes=(1, 2)) for k in ((1, 2, 3) if square else (2,))}
    moves["mirrored"] = x[:, :, ::-1]
    index = {name: k for k, name in enumerate(map(str, model.classes_))}
    shares = {
        name: float(np.mean(np.array([index[str(c)] for c in model.predict(np.ascontiguousarray(copies))]) == labels))
        for name, copies in moves.items()
    }
    worst = min(shares, key=lambda name: shares[name])
    upright = float(held.hits.mean())
    text = (
        f"Of {count:,} training images {worst} it names {shares[worst]:.1%} rightly, although it has learnt each of "
        f"them upright; of new upright ones {upright:.1%}."
    )
    advice = (
        "If such copies mean the same, --group C4 (turns) or D4 (turns and reflections) trains on all of them at "
        "little cost, and the mean is then the same for all."
    )
    rows = [[name, f"{value:.1%}"] for name, value in shares.items()]
    return Section(title, [text, advice], [Table("Copies of training images.", ["copies", "named rightly"], rows)])


def _visible(image: np.ndarray) -> np.ndarray:
    low, high = float(image.min()), float(image.max())
    shades = (image - low) / (high - low if high > low else 1.0)
    return shades if image.shape[-1] == 3 else shades[..., 0]


def _short(text: str, most: int = 24) -> str:
    return text if len(text) <= most else "…" + text[1 - most :]
