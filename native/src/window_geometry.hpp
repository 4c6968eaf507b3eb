// Windows that slide over a grid of two dimensions, and what the loops over them are told; plain numbers only.
#pragma once

#include <cstdint>

namespace eqt {

// Output (h, w) reads rows h·stride[0] − low[0] + u, u < window[0], and columns likewise, of a grid that is a torus
// (`wrap`) or zero outside.
struct WindowGeometry {
  int64_t samples, channels, outputs;  // of one member
  int64_t grid[2], out[2], window[2], stride[2], low[2], high[2];
  bool wrap;

  int64_t padded(int axis) const { return grid[axis] + low[axis] + high[axis]; }
  int64_t padded_row() const { return padded(1) * channels; }
  int64_t padded_size() const { return padded(0) * padded_row(); }
  int64_t row_taps() const { return window[1] * channels; }  // numbers of one row of a window, side by side
  int64_t input_size() const { return grid[0] * grid[1] * channels; }
  int64_t output_size() const { return out[0] * out[1] * outputs; }
  int64_t weight_size() const { return window[0] * row_taps() * outputs; }
};

// For one member: x (samples, *grid, channels), w (window[0], window[1]·channels, outputs), y (samples, *out, outputs).
template <class T>
struct WindowLoops {
  int64_t (*workspace)(const WindowGeometry&);  // numbers that each of the others needs to work in
  void (*outputs)(const WindowGeometry&, const T* x, const T* w, T* y, T* workspace);    // y = Σ_u x(p + u) w(u)
  void (*to_inputs)(const WindowGeometry&, const T* y, const T* w, T* x, T* workspace);  // its transpose in x
  void (*to_weights)(const WindowGeometry&, const T* x, const T* y, T* w, T* workspace);  // its transpose in w
};

template <class T>
const WindowLoops<T>& window_loops(int instructions);

}  // namespace eqt
