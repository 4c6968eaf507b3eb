"""The study `augmented-cnn-to-gcnn`: augmented CNNs and group-convolutional networks."""
