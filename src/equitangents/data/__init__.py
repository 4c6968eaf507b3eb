"""Data sets and inputs to test on: files in a folder, the digits of scikit-learn, noise and photographs, molecules."""

from equitangents.data.class_folders import load_class_folders
from equitangents.data.dataset import Dataset
from equitangents.data.digits import digits
from equitangents.data.download import DownloadError, download
from equitangents.data.folder import DataNotFoundError, available, load, names
from equitangents.data.image_folder import ImageFiles, ImageFolder, open_image_folder
from equitangents.data.images import conform, grey, resize
from equitangents.data.letters import letters
from equitangents.data.mask_folder import MaskedImages, load_mask_folder
from equitangents.data.molecules import (
    MoleculeSet,
    load_molecules,
    load_trajectory,
    load_water,
    molecules_available,
)
from equitangents.data.out_of_distribution import gaussian_noise, photo_patches
from equitangents.data.own import load_own

__all__ = [
    "DataNotFoundError",
    "Dataset",
    "DownloadError",
    "ImageFiles",
    "ImageFolder",
    "MaskedImages",
    "MoleculeSet",
    "available",
    "conform",
    "digits",
    "download",
    "gaussian_noise",
    "grey",
    "letters",
    "load",
    "load_class_folders",
    "load_mask_folder",
    "load_molecules",
    "load_own",
    "load_trajectory",
    "load_water",
    "molecules_available",
    "names",
    "open_image_folder",
    "photo_patches",
    "resize",
]
