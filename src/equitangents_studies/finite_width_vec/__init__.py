"""The study `finite-width-vec`: VEC of finite width between its smaller symmetry and that of its infinite limit."""
