"""Data sets and inputs to test on: files in a folder, the digits of scikit-learn, noise and photographs, molecules."""

from equitangents_studies.data.class_folders import load_class_folders
from equitangents_studies.data.dataset import Dataset
from equitangents_studies.data.digits import digits
from equitangents_studies.data.download import DownloadError, download
from equitangents_studies.data.folder import DataNotFoundError, available, load, names
from equitangents_studies.data.image_folder import ImageFiles, ImageFolder, open_image_folder
from equitangents_studies.data.images import conform, grey, resize
from equitangents_studies.data.labelled_images import (
    ImageForm,
    LabelledImages,
    images_in,
    load_images_like,
    load_labelled_images,
)
from equitangents_studies.data.letters import letters
from equitangents_studies.data.mask_folder import MaskedImages, load_mask_folder
from equitangents_studies.data.molecules import (
    MoleculeSet,
    load_molecules,
    load_trajectory,
    load_water,
    molecules_available,
)
from equitangents_studies.data.out_of_distribution import gaussian_noise, photo_patches
from equitangents_studies.data.own import load_own

__all__ = [
    "DataNotFoundError",
    "Dataset",
    "DownloadError",
    "ImageFiles",
    "ImageFolder",
    "ImageForm",
    "LabelledImages",
    "MaskedImages",
    "MoleculeSet",
    "available",
    "conform",
    "digits",
    "download",
    "gaussian_noise",
    "grey",
    "images_in",
    "letters",
    "load",
    "load_class_folders",
    "load_images_like",
    "load_labelled_images",
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
