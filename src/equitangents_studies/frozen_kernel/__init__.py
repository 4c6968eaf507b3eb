"""The study `frozen-kernel`: how far the tangent kernel of finite networks moves in training."""
