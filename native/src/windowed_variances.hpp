// Means of variances over windows, on grids and by tables; for as many inputs as a vector of T has lanes.
#pragma once

#include "place.hpp"

namespace eqt::EQT_ISA {

template <class T>
struct WindowedVariances {
  static constexpr int L = kLanes<T>;
  static constexpr int D = kLanes<double>;

  static void table(const Op& op, const double* in, double* out, int64_t positions) {
    for (int64_t p = 0; p < positions; ++p) {
      double* to = out + p * L;
      if (op.total && p > 0) {
        std::memcpy(to, out, L * sizeof(double));
        continue;
      }
      for (int lane = 0; lane < L; lane += D) {
        Doubles sum{};
        for (int s = 0; s < op.weight_count; ++s)
          sum += op.weights[s] * load(in + int64_t(op.index[p * op.weight_count + s]) * L + lane);
        store(to + lane, sum);
      }
    }
  }

  // Mean over the window along one axis; reads outside the grid wrap, or count as zero.
  static void along(const Op& op, int axis, const double* in, double* out, const int* shape) {
    const int64_t outer = axis == 0 ? 1 : axis == 1 ? shape[0] : int64_t(shape[0]) * shape[1];
    const int64_t inner = (axis == 0 ? int64_t(shape[1]) * shape[2] : axis == 1 ? shape[2] : 1) * L;
    const int n = shape[axis], m = op.out[axis];
    const double scale = 1.0 / op.window[axis];
    for (int64_t o = 0; o < outer; ++o)
      for (int y = 0; y < m; ++y) {
        double* to = out + (o * m + y) * inner;
        for (int64_t i = 0; i < inner; i += D) store(to + i, Doubles{});
        for (int u = 0; u < op.window[axis]; ++u) {
          int x = op.stride[axis] * y - op.low[axis] + u;
          if (op.wrap) x = wrapped(x, n);
          if (x < 0 || x >= n) continue;
          const double* from = in + (o * n + x) * inner;
          for (int64_t i = 0; i < inner; i += D) store(to + i, load(to + i) + load(from + i));
        }
        for (int64_t i = 0; i < inner; i += D) store(to + i, scale * load(to + i));
      }
  }

  // The result of a box is in `a` again.
  static void box(const Op& op, double*& a, double*& b) {
    int shape[kAxes] = {op.in[0], op.in[1], op.in[2]};
    for (int axis = 0; axis < kAxes; ++axis) {
      if (op.window[axis] == 1 && op.stride[axis] == 1 && op.low[axis] == 0 && op.out[axis] == shape[axis]) continue;
      along(op, axis, a, b, shape);
      shape[axis] = op.out[axis];
      double* swap = a;
      a = b, b = swap;
    }
  }
};

}  // namespace eqt::EQT_ISA
