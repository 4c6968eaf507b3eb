"""Which inputs count as out of distribution for which data, and why they were chosen: the words of the pages."""

from __future__ import annotations

from collections.abc import Mapping

_WHY = {
    "mnist": "handwritten digits: the same size, range of grey values and dark border as the training images, with "
    "other shapes",
    "fashion_mnist": "pictures of clothes: filled shapes with texture, in the same size, range of grey values and dark "
    "border",
    "digits": "small handwritten digits",
    "cifar10": "photographs of animals and vehicles: they fill the image, borders included, with backgrounds and "
    "textures",
    "photographs": "patches of two photographs at random places and scales: textures and edges, mostly without an "
    "object",
    "noise": "independent normal values for each pixel: no structure at all, the farthest from any image",
    "histology_lc25000_colon": "colon tissue of another laboratory: the nearest, the same kind of image in another "
    "stain",
    "histology_crc5": "colorectal tissue tiles",
    "nct_crc_he": "colorectal tissue tiles",
}
_RULE = (
    "None of them has a right class, so only agreement over orientations is measured on them. Each image, foreign or "
    "not, is brought to the size and the number of channels of the training images, and shifted and scaled to mean 0 "
    "and standard deviation 1."
)


def why_foreign(titles: Mapping[str, str]) -> list[str]:
    """A paragraph from the titles of all sets of inputs, "test" first: what is foreign to the data, and why.

    Example:
        >>> why_foreign({"test": "digits", "noise": "noise"})[0][:56]
        'Inputs out of distribution for digits, our choice: noise'
    """
    foreign = {name: title for name, title in titles.items() if name != "test"}
    listed = "; ".join(title + (f" ({_WHY[name]})" if name in _WHY else "") for name, title in foreign.items())
    return [f"Inputs out of distribution for {titles['test']}, our choice: {listed}. {_RULE}"] if foreign else []
