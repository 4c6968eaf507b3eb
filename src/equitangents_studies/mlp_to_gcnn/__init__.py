"""The study `mlp-to-gcnn`: augmented MLPs and group-convolutional networks."""
