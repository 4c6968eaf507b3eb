"""The study of rotated images on colorectal tissue, which has no preferred orientation.

Foreign inputs: another laboratory's colon tissue (LC25000), photographs of things (CIFAR-10) and noise; our choice.
"""

from __future__ import annotations

from equitangents_studies.framework.catalogue import EMERGENT_EQUIVARIANCE
from equitangents_studies.framework.study import Study, presets
from equitangents_studies.rotated_images.study import RotatedSettings, check_settings, claims, measure, present

__all__ = ["PRESETS", "STUDY", "present"]

PRESETS = presets(  # readout=pool: of all positions narrow networks hardly learn tissue
    RotatedSettings(),
    quick="data=histology_crc5 foreign=histology_lc25000_colon,cifar10,noise pixels=16 train_images=300 "
    "test_images=200 foreign_images=200 members=20 channels=16,16 readout=pool epochs=10 "
    "recorded_epochs=0,1,2,4,7,10 infinite_train=300",
    desk="pixels=32 train_images=1500 test_images=500 foreign_images=400 members=30 channels=24,24,24 epochs=15 "
    "recorded_epochs=0,1,2,4,7,10,15 infinite_train=1000 readout=flatten",
    desk_pooled="train_images=1200 test_images=500 foreign_images=300 members=40 channels=24,24 narrow=6,6 epochs=40 "
    "recorded_epochs=0,1,2,5,10,20,30,40 infinite_train=1200",
    paper="data=nct_crc_he train_images=none test_images=none foreign_images=400 members=100 channels=64,64,64 "
    "batch=128 epochs=20 recorded_epochs=0,1,2,3,5,7,10,15,20 infinite_train=2000 pixels=none",
)
STUDY = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
