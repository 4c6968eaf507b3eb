"""`et.fit.auto` beside the majority, nearest neighbours, a forest, a support vector machine and a small network.

A cell is a set of images, a number of them and a draw; each of its models is a line of `fit_images.jsonl`, and is not
computed again. All models learn the same images and are tested on the same new ones. Where up is nothing, images are
turned by random quarters; tiles of one specimen leave together, and test images are of other ones. Three sets, two
draws, three minutes and 300 test images each; `--full`: all sets, also 1,000 images, five draws of 1,000 test images,
five minutes; `--draws N` of them. The last table has the accuracy beside that of the best other, by paired differences
of new images.
"""

import base64
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SETS = (
    "digits",
    "mnist",
    "fashion_mnist",
    "cifar10",
    "histology_lc25000_colon",
    "histology_crc5",
    "textures",
    "photographs",
)
SMALL = ("mnist", "histology_lc25000_colon", "histology_crc5")
UPRIGHT = ("cifar10",)
TURNED = ("digits", "mnist", "fashion_mnist", "textures", "photographs")
PICTURES = {
    "textures": ("brick", "grass", "gravel"),
    "photographs": ("astronaut", "chelsea", "coffee", "hubble_deep_field", "immunohistochemistry", "retina", "rocket"),
}
"""Of scikit-image: which picture is a tile of 16×16 pixels from?"""
_TILE, _BLOCK = 16, 64
SMALL_FORM, FULL_FORM = (3.0, 300), (5.0, 1000)  # minutes of a choice, and test images of a draw
KEPT = Path(__file__).with_name("fit_images.jsonl")


@dataclass(frozen=True)
class Images:
    """What a cell learns and is tested on; together: the specimen of each training image, where it is known."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    together: np.ndarray | None

    @property
    def sets(self) -> list[np.ndarray]:
        """Of training images that leave together."""
        from equitangents.fit.assessing import sets_of

        return sets_of(np.arange(len(self.x)) if self.together is None else self.together, len(self.x))


def drawn(name: str, count: int, draw: int, tests: int) -> Images:
    """`count` training images, classes as they come, and at most so many test images."""
    import equitangents as et

    rng = np.random.default_rng(draw)
    if name in PICTURES:
        return of_pictures(name, count, tests, rng)
    data = et.data.digits() if name == "digits" else et.data.load(name)
    rows = rng.permutation(len(data.train_y))[:count]
    new = rng.permutation(len(data.test_y))[:tests]
    parts = [data.train_x[rows], data.test_x[new]]
    if name in TURNED:
        parts = [np.stack([np.rot90(image, int(rng.integers(4))) for image in part]) for part in parts]
    tiles = None if data.train_tile is None else data.train_tile[rows]
    return Images(parts[0], data.train_y[rows], parts[1], data.test_y[new], tiles)


def of_pictures(name: str, count: int, tests: int, rng: np.random.Generator) -> Images:
    """Tiles of pictures, turned; blocks of 4×4 tiles alternate between training and test and leave together."""
    from skimage import data as pictures

    x, y, blocks, is_test = [], [], [], []
    for label, each in enumerate(PICTURES[name]):
        picture = np.asarray(getattr(pictures, each)(), np.float32) / 255
        picture = picture[:1024, :1024, None] if picture.ndim == 2 else picture[:1024, :1024]
        for i in range(0, picture.shape[0] - _TILE + 1, _TILE):
            for j in range(0, picture.shape[1] - _TILE + 1, _TILE):
                x.append(np.rot90(picture[i : i + _TILE, j : j + _TILE], int(rng.integers(4))))
                y.append(label)
                blocks.append((label, i // _BLOCK, j // _BLOCK))
                is_test.append((i // _BLOCK + j // _BLOCK) % 2 == 1)
    numbers = np.unique(blocks, axis=0, return_inverse=True)[1].ravel()
    weights = 1 / np.bincount(y)[y]  # classes as large as one another
    train, test = (
        rng.choice(rows, min(most, len(rows)), replace=False, p=weights[rows] / weights[rows].sum())
        for rows, most in ((np.flatnonzero(~np.array(is_test)), count), (np.flatnonzero(is_test), tests))
    )
    images, labels = np.stack(x), np.array(y)
    return Images(images[train], labels[train], images[test], labels[test], numbers[train])


Found = dict[str, dict[str, Any]]  # by model: accuracy, log loss, calibration error, seconds


def auto(images: Images, group: str | None, seed: int, minutes: float) -> Found:
    """By `et.fit.auto`, with the name of what it chose and its left-out accuracy."""
    import equitangents as et

    start = time.perf_counter()
    choice = et.fit.auto(
        images.x, images.y, augmentation=group, together=images.together, minutes=minutes, baselines=False, seed=seed
    )
    took = time.perf_counter() - start
    probabilities = choice.model.predict_proba(images.test_x)
    about = {"seconds": took, "network": choice.best.name, "left_out": choice.score.accuracy.value}
    return {"auto": measured(probabilities, images.test_y, choice.model.classes_) | about}


def simple(images: Images, group: str | None, seed: int, minutes: float) -> Found:
    """By the baselines of `fit`, trained on all training images, the test images being their one fold."""
    from equitangents.actions import as_action
    from equitangents.fit.assessing import Folds
    from equitangents.fit.baselines import fit_baselines

    x = np.concatenate([images.x, images.test_x])
    n, m = len(images.x), len(images.test_x)
    classes, numbers = np.unique(images.y, return_inverse=True)
    sets = [*images.sets, np.arange(n, n + m)]
    problem = Folds(np.append(numbers, np.zeros(m, int)), tuple(map(str, classes)), sets, ((len(images.sets),),))
    action = None if group is None else as_action("augmentation", group, x.shape)
    found, start = {}, time.perf_counter()
    for name, probabilities in fit_baselines(x, problem, action, seed):
        seconds = time.perf_counter() - start
        found[name] = measured(probabilities[n:], images.test_y, classes) | {"seconds": seconds}
        start = time.perf_counter()
    return found


def network(images: Images, group: str | None, seed: int, minutes: float) -> Found:
    """By a small network in PyTorch, tuned by folds of the training images."""
    from benchmarks.small_cnn import probabilities as of_network
    from equitangents.fit.assessing import folds_of

    classes, numbers = np.unique(images.y, return_inverse=True)
    inner = folds_of(numbers, images.sets, len(classes), seed, 3)
    folds = [np.concatenate([images.sets[i] for i in fold]) for fold in inner]
    start, turned = time.perf_counter(), group is not None
    probabilities = of_network(images.x, numbers, folds, images.test_x, len(classes), turned=turned, seed=seed)
    seconds = time.perf_counter() - start
    return {"network": measured(probabilities, images.test_y, classes) | {"seconds": seconds}}


MODELS = (auto, simple, network)


def measured(probabilities: np.ndarray, y: np.ndarray, classes: np.ndarray) -> dict[str, Any]:
    """Of labels that are among the classes, or wrong for any model."""
    from equitangents.fit.result import HeldOut

    at = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    known = classes[at] == y
    held = HeldOut(probabilities, at, tuple(map(str, classes)))
    return {
        "accuracy": float((held.hits & known).mean()),
        "log_loss": float(-np.log(np.maximum(held.of_label[known], 1e-300)).mean()),
        "calibration_error": held.calibration_error(),
        "hits": base64.b64encode(np.packbits(held.hits & known).tobytes()).decode("ascii"),
        "tests": len(y),
    }


def kept(name: str, count: int, draw: int, minutes: float, tests: int) -> Found:
    """A cell from `KEPT`, or computed and added to it, one kind of models after another."""
    cell = {"images": name, "count": count, "draw": draw, "minutes": minutes, "most": tests}
    lines = KEPT.read_text("utf-8").splitlines() if KEPT.exists() else []
    found: Found = {each["model"]: each for each in map(json.loads, lines) if cell.items() <= each.items()}
    for models in MODELS:
        if not any(each["kind"] == models.__name__ for each in found.values()):
            images = drawn(name, count, draw, tests)
            new = models(images, None if name in UPRIGHT else "C4", draw, minutes)
            found |= {model: cell | {"kind": models.__name__, "model": model} | each for model, each in new.items()}
            with KEPT.open("a", encoding="utf-8") as out:
                out.writelines(json.dumps(found[model]) + "\n" for model in new)
    return found


@dataclass(frozen=True)
class Compared:
    """Our accuracy beside the best other's, in the mean over draws: the difference is of the same new images."""

    ours: float
    best: str
    theirs: float
    difference: float
    error: float  # standard error of the difference, over new images
    calibration: float
    their_calibration: float
    seconds: float  # of a choice, at most

    @classmethod
    def of(cls, draws: Sequence[dict[str, Any]]) -> "Compared":
        """Of the cells of one set and number of images."""

        def mean(model: str, what: str) -> float:
            return float(np.mean([draw[model][what] for draw in draws]))

        best = max((model for model in draws[0] if model != "auto"), key=lambda model: mean(model, "accuracy"))
        of_images = [hits(draw["auto"]) - hits(draw[best]) for draw in draws]
        error = math.sqrt(sum(each.var(ddof=1) / len(each) for each in of_images)) / len(draws)
        ours, theirs = mean("auto", "accuracy"), mean(best, "accuracy")
        calibrations = mean("auto", "calibration_error"), mean(best, "calibration_error")
        return cls(ours, best, theirs, ours - theirs, error, *calibrations, max(d["auto"]["seconds"] for d in draws))

    @property
    def verdict(self) -> str:
        """Beyond two standard errors or not."""
        return "ahead" if self.difference > 2 * self.error else "behind" if self.difference < -2 * self.error else "-"


def hits(model: dict[str, Any]) -> np.ndarray:
    """1.0 for each new image that was named rightly, else 0.0."""
    bits = np.frombuffer(base64.b64decode(model["hits"]), np.uint8)
    return np.unpackbits(bits, count=model["tests"]).astype(float)


def main(full: bool = False, draws: int | None = None) -> None:
    """Print a line a cell and model, then one a set and number of images."""
    import equitangents as et

    print(
        f"{'images':<26}{'n':>6}{'draw':>6}  {'model':<12}{'accuracy':>10}{'log loss':>10}{'calibr.':>9}{'seconds':>9}"
    )
    together = []
    for count in (100, 300, 1000) if full else (100, 300):
        for name in SETS if full else SMALL:
            if not (name == "digits" or name in PICTURES or et.data.available(name)):
                print(f"{name:<26}  not there")
                continue
            found = []
            for draw in range(draws or (5 if full else 2)):
                found.append(kept(name, count, draw, *(FULL_FORM if full else SMALL_FORM)))
                for model, of in found[-1].items():
                    print(
                        f"{name:<26}{count:>6}{draw:>6}  {model:<12}{of['accuracy']:>10.1%}{of['log_loss']:>10.3f}"
                        f"{of['calibration_error']:>9.3f}{of['seconds']:>9.1f}",
                        flush=True,
                    )
            together.append((name, count, Compared.of(found)))
    print(
        f"\n{'images':<26}{'n':>6}{'auto':>8}  {'best other':<12}{'':>8}{'difference':>18}{'calibration':>16}{'s':>6}"
    )
    for name, count, row in together:
        print(
            f"{name:<26}{count:>6}{row.ours:>8.1%}  {row.best:<12}{row.theirs:>8.1%}{row.difference:>+9.1%} ± "
            f"{row.error:.1%} {row.verdict:<7}{row.calibration:>7.3f}{row.their_calibration:>7.3f}{row.seconds:>6.0f}"
        )
