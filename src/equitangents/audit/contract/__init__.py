"""What equivariance means for a model: the group and its action on every input and output."""
