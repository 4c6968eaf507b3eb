"""`et.fit.auto` beside the majority, nearest neighbours, a forest and a support vector machine, on new images.

A cell is a set of images, a number of them and a draw; it is kept in `runs/fit_images` and not computed again. All
models learn the same images and are tested on the same new ones. Digits and clothes are turned by random quarters;
tiles of one specimen leave together, and test images are of other ones. Three sets, two draws, three minutes and 300
test images each; `--full`: all sets, also 1,000 images, five draws, five minutes and 1,000 test images.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SETS = ("digits", "mnist", "fashion_mnist", "cifar10", "histology_lc25000_colon", "histology_crc5")
SMALL = ("mnist", "histology_lc25000_colon", "histology_crc5")
UPRIGHT = ("cifar10",)
TURNED = ("digits", "mnist", "fashion_mnist")
SMALL_FORM, FULL_FORM = (3.0, 300), (5.0, 1000)  # minutes of a choice, and test images at most
PLACE = Path("runs/fit_images")


@dataclass(frozen=True)
class Images:
    """What a cell learns and is tested on; together: the specimen of each training image, where it is known."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    together: np.ndarray | None


def drawn(name: str, count: int, draw: int, tests: int) -> Images:
    """`count` training images, classes as they come, and at most so many test images."""
    import equitangents as et

    rng = np.random.default_rng(draw)
    data = et.data.digits() if name == "digits" else et.data.load(name)
    rows = rng.permutation(len(data.train_y))[:count]
    new = rng.permutation(len(data.test_y))[:tests]
    parts = [data.train_x[rows], data.test_x[new]]
    if name in TURNED:
        parts = [np.stack([np.rot90(image, int(rng.integers(4))) for image in part]) for part in parts]
    tiles = None if data.train_tile is None else data.train_tile[rows]
    return Images(parts[0], data.train_y[rows], parts[1], data.test_y[new], tiles)


def cell(name: str, count: int, draw: int, minutes: float, tests: int) -> dict[str, dict[str, Any]]:
    """Accuracy, log loss, calibration error and seconds of every model on new images."""
    import equitangents as et

    images = drawn(name, count, draw, tests)
    group = None if name in UPRIGHT else "C4"
    start = time.perf_counter()
    choice = et.fit.auto(
        images.x, images.y, augmentation=group, together=images.together, minutes=minutes, baselines=False, seed=draw
    )
    took = time.perf_counter() - start
    probabilities = choice.model.predict_proba(images.test_x)
    about = {"seconds": took, "network": choice.best.name, "left_out": choice.score.accuracy.value}
    found = {"auto": measured(probabilities, images.test_y, choice.model.classes_) | about}
    start = time.perf_counter()
    for other, probabilities in others(images, group, choice.model.classes_, draw):
        now = time.perf_counter()
        found[other] = measured(probabilities, images.test_y, choice.model.classes_) | {"seconds": now - start}
        start = now
    return found


def others(images: Images, group: str | None, classes: np.ndarray, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """The baselines that `fit` has, trained on all training images: the test images are their one fold."""
    from equitangents.actions import as_action
    from equitangents.fit.baselines import baselines
    from equitangents.fit.problem import Problem, sets_of

    x = np.concatenate([images.x, images.test_x])
    n, m = len(images.x), len(images.test_x)
    known = sets_of(np.arange(n) if images.together is None else images.together, n)
    labels = np.concatenate([np.searchsorted(classes, images.y), np.zeros(m, int)])
    sets = [*known, np.arange(n, n + m)]
    problem = Problem(labels, tuple(map(str, classes)), sets, ((len(known),),))
    action = None if group is None else as_action("augmentation", group, x.shape)
    for name, probabilities in baselines(x, problem, action, seed):
        yield name, probabilities[n:]


def measured(probabilities: np.ndarray, y: np.ndarray, classes: np.ndarray) -> dict[str, Any]:
    """Of labels that are among the classes, or wrong for any model."""
    from equitangents.fit.held_out import HeldOut

    at = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    known = classes[at] == y
    held = HeldOut(probabilities, at, probabilities.argmax(axis=1), tuple(map(str, classes)), ("",) * len(y), 1.0)
    return {
        "accuracy": float((held.hits & known).mean()),
        "log_loss": float(-np.log(np.maximum(held.of_label[known], 1e-300)).mean()),
        "calibration_error": held.calibration_error(),
    }


def kept(name: str, count: int, draw: int, minutes: float, tests: int) -> dict[str, Any]:
    """A cell from its file, or computed into it."""
    from equitangents.files import whole_file

    path = PLACE / f"{name}-{count}-{draw}-{minutes:g}-{tests}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        found = cell(name, count, draw, minutes, tests)
        with whole_file(path) as partial:
            partial.write_text(json.dumps(found, indent=1), "utf-8")
    return json.loads(path.read_text("utf-8"))


def main(full: bool = False) -> None:
    """Print a line a cell and model."""
    import equitangents as et

    print(
        f"{'images':<26}{'n':>6}{'draw':>6}  {'model':<12}{'accuracy':>10}{'log loss':>10}{'calibr.':>9}{'seconds':>9}"
    )
    for name in SETS if full else SMALL:
        if not et.data.available(name):
            print(f"{name:<26}  not there")
            continue
        for count in (100, 300, 1000) if full else (100, 300):
            for draw in range(5 if full else 2):
                for model, of in kept(name, count, draw, *(FULL_FORM if full else SMALL_FORM)).items():
                    print(
                        f"{name:<26}{count:>6}{draw:>6}  {model:<12}{of['accuracy']:>10.1%}{of['log_loss']:>10.3f}"
                        f"{of['calibration_error']:>9.3f}{of['seconds']:>9.1f}",
                        flush=True,
                    )
