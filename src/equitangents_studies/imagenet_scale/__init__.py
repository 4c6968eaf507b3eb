"""The study `imagenet-scale`: learning curves of ResNets and an MLP-Mixer on an image folder, upright and rotated."""
