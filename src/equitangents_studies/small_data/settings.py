"""What the study of small training sets may be told, and its presets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from equitangents_studies import data
from equitangents_studies.common.image_ensembles import Chosen
from equitangents_studies.common.images import Images, load_images
from equitangents_studies.framework.study import at_least, check

_WANTED = "cifar10"
_FALLBACK = "digits"


@dataclass(frozen=True)
class Settings:
    """From a pool of `pool` training images, `draws` training sets of every size in `sizes`, classes in proportion;
    all are tested on the same `test_images`.

    `data` is a data set, or "auto": CIFAR-10 where the data folder has it, otherwise digits. Images are averaged down
    to at most `pixels`. GAP, VEC and FCN have `hidden_layers`. The trained CNN has `width` channels and takes `steps`
    steps of `batch` images by Adam; of `rates` it has the one that classifies best images of the pool that the first
    `tuned` draws leave. The random forest has `trees`. `checked` images compare averaged kernels with training on both
    copies. Sizes of images, networks and pools are our choice.
    """

    data: str = "auto"
    pixels: int = 12
    pool: int = 240
    test_images: int = 300
    sizes: tuple[int, ...] = (10, 20, 40, 80, 160)
    draws: int = 20
    hidden_layers: int = 4
    width: int = 32
    steps: int = 200
    batch: int = 32
    rates: tuple[float, ...] = (0.003, 0.01, 0.03)
    tuned: int = 2
    trees: int = 100
    checked: int = 6
    seed: int = 0

    def passes(self, size: int) -> int:
        """How often the CNN sees each of `size` training images: the whole passes that have `steps` steps or more."""
        return -(-self.steps // -(-size // self.batch))


_ALL_SIZES = (10, 20, 40, 80, 160, 320, 640, 1280)
PRESETS = {
    "quick": Settings(),
    "desk": Settings(pool=1600, test_images=800, sizes=_ALL_SIZES, width=64, steps=500, tuned=4, checked=12),
    "paper": Settings(
        data="cifar10",
        pixels=32,
        pool=12800,
        test_images=10000,
        sizes=_ALL_SIZES,
        hidden_layers=8,
        width=128,
        steps=5000,
        tuned=20,
        trees=500,
        checked=16,
    ),
}


def source(settings: Settings, data_dir: Path | None) -> str:
    """The data set that is used."""
    if settings.data != "auto":
        return settings.data
    return _WANTED if data.available(_WANTED, data_dir) else _FALLBACK


def load(settings: Settings, data_dir: Path | None) -> Images:
    """The pool as training images, and the test images."""
    name = source(settings, data_dir)
    pixels = settings.pixels
    if name == _FALLBACK:
        pixels = min(pixels, data.digits().shape[0])
    chosen = Chosen(name, (), settings.pool, settings.test_images, 0, pixels, settings.seed)
    return load_images(chosen, data_dir)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Training sets that the pool can give, with images left to choose the learning rate on."""
    s = settings
    at_least(s, draws=2, hidden_layers=1, width=1, steps=1, batch=1, trees=1, checked=2, pixels=4, tuned=1)
    check(s.tuned <= s.draws, "tuned", s.tuned, f"at most draws, {s.draws}")
    check(len(s.rates) >= 1 and min(s.rates) > 0, "rates", s.rates, "a list of positive numbers")
    check(len(s.sizes) >= 1 and list(s.sizes) == sorted(set(s.sizes)), "sizes", s.sizes, "increasing")
    images = load(s, data_dir)
    check(s.sizes[0] >= images.classes, "sizes", s.sizes, f"at least the number of classes, {images.classes}, each")
    pool, side = len(images.train_x), images.train_x.shape[1]
    check(pool > s.sizes[-1] + 1, "pool", pool, f"larger than the largest size, {s.sizes[-1]}, by 2 at least")
    check(side % 4 == 0, "pixels", side, "a multiple of 4, for two pools of 2×2")
