"""Features in irreps of SO(2), O(2), SO(3) and O(3) on points, whose kernels are matrices."""
