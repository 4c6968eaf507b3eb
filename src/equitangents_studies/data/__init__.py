"""Data sets and inputs to test on: files in a folder, the digits of scikit-learn, noise and photographs, molecules."""

from equitangents_studies.data.class_folders import open_image_folder
from equitangents_studies.data.dataset import Dataset, digits, gaussian_noise, photo_patches
from equitangents_studies.data.folder import DataNotFoundError, available, download, load, load_own, names
from equitangents_studies.data.images import conform, resize
from equitangents_studies.data.labelled_images import load_images_like, load_labelled_images
from equitangents_studies.data.molecules import MoleculeSet, load_molecules, load_trajectory, load_water

__all__ = [
    "DataNotFoundError",
    "Dataset",
    "MoleculeSet",
    "available",
    "conform",
    "digits",
    "download",
    "gaussian_noise",
    "load",
    "load_images_like",
    "load_labelled_images",
    "load_molecules",
    "load_own",
    "load_trajectory",
    "load_water",
    "names",
    "open_image_folder",
    "photo_patches",
    "resize",
]
