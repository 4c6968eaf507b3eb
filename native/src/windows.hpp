// Products with windows for networks of few channels: no patches are written, and results stay in registers.
//
// A row of a window is contiguous in a padded image, so that all three products are sums over rows of one small matrix
// product, of M rows by V vectors: a[m·am + k·ak] times B[k, :], with an outer sum over rows of the window or the image.
#pragma once

#include <algorithm>

#include "vector.hpp"
#include "window_geometry.hpp"

namespace eqt::EQT_ISA {

struct ProductSteps {
  int64_t am, ak, ao;  // from one a to the next: by row of the result, by term, by term of the outer sum
  int64_t bk, bo;      // the same of B
  int64_t terms, outer;
};

constexpr int kRegisters = EQT_BYTES == 64 ? 16 : 12;  // that hold results
constexpr int kGrouped = 12;  // rows by vectors of a block of columns: sums that overlap are added block by block
constexpr int kMostVectors = 6;
constexpr int kRowsAPointer = 4;  // whose places fit into an instruction, so that no registers are filled with them

// c (M rows, `row` apart) = the product, or += where it `adds`; the last vector of a row holds `tail` numbers.
template <class T, int M, int V>
EQT_INLINE void product(const T* a, const T* b, T* c, int64_t row, int tail, const ProductSteps& s, bool adds) {
  constexpr int L = kLanes<T>, P = (M + kRowsAPointer - 1) / kRowsAPointer;
  Vec<T> sums[M][V] = {};
  for (int64_t o = 0; o < s.outer; ++o) {
    const T *ap[P], *bp = b + o * s.bo;
    for (int p = 0; p < P; ++p) {
      ap[p] = a + o * s.ao + p * kRowsAPointer * s.am;
      asm("" : "+r"(ap[p]));  // or the compiler would make one pointer and M distances of them
    }
    for (int64_t k = 0; k < s.terms; ++k, bp += s.bk) {
      Vec<T> right[V];
#pragma GCC unroll 6
      for (int v = 0; v < V; ++v) std::memcpy(&right[v], bp + v * L, sizeof right[v]);
#pragma GCC unroll 16
      for (int m = 0; m < M; ++m) {
        const Vec<T> left = splat<T>(ap[m / kRowsAPointer][m % kRowsAPointer * s.am]);
#pragma GCC unroll 6
        for (int v = 0; v < V; ++v) sums[m][v] += left * right[v];
      }
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) ap[p] += s.ak;
    }
  }
  for (int m = 0; m < M; ++m)
    for (int v = 0; v < V; ++v) {
      T* to = c + m * row + v * L;
      const int count = v + 1 < V ? L : tail;
      if (count == L) {
        Vec<T> sum = sums[m][v];
        if (adds) {
          Vec<T> before;
          std::memcpy(&before, to, sizeof before);
          sum += before;
        }
        std::memcpy(to, &sum, sizeof sum);
      } else {
        T values[L];
        std::memcpy(values, &sums[m][v], sizeof values);
        for (int l = 0; l < count; ++l) to[l] = adds ? to[l] + values[l] : values[l];
      }
    }
}

template <class T, int V, int M = kRegisters / V>
EQT_INLINE void product_of(int rows, const T* a, const T* b, T* c, int64_t row, int tail, const ProductSteps& s,
                           bool adds) {
  if constexpr (M > 1) {
    if (rows < M) return product_of<T, V, M - 1>(rows, a, b, c, row, tail, s, adds);
  }
  product<T, M, V>(a, b, c, row, tail, s, adds);
}

// `rows` rows in blocks as even as can be: short ones would wait for their own sums.
template <class T, int V>
void rows_of(int64_t rows, const T* a, const T* b, T* c, int64_t row, int tail, const ProductSteps& s, bool adds) {
  constexpr int64_t M = kRegisters / V;
  int64_t blocks = (rows + M - 1) / M;
  for (int64_t at = 0; blocks > 0; --blocks) {
    const int64_t count = (rows - at + blocks - 1) / blocks;
    product_of<T, V>(int(count), a + at * s.am, b, c + at * row, row, tail, s, adds);
    at += count;
  }
}

// Vectors of a row that are computed at once, of `width` numbers: as few blocks as fit, and as even.
template <class T>
int64_t vectors_at_once(int64_t width, int64_t rows) {
  const int64_t vectors = (width + kLanes<T> - 1) / kLanes<T>;
  // Few rows leave registers free for more vectors.
  const int64_t most = std::clamp<int64_t>(kGrouped / std::max<int64_t>(rows, 1), 2, kMostVectors);
  const int64_t blocks = (vectors + most - 1) / most;
  return (vectors + blocks - 1) / blocks;
}

// c (rows, width) = the product, or += where it `adds`, where B's rows are filled up to whole vectors.
template <class T>
void multiply(int64_t rows, int64_t width, const T* a, const T* b, T* c, int64_t row, const ProductSteps& s, bool adds) {
  constexpr int L = kLanes<T>;
  const int64_t at_once = vectors_at_once<T>(width, rows) * L;
  for (int64_t at = 0; at < width; at += at_once) {
    const int64_t here = std::min(at_once, width - at), vectors = (here + L - 1) / L;
    const int tail = int(here - (vectors - 1) * L);
    const auto run = [&](auto count) {
      constexpr int V = decltype(count)::value;
      rows_of<T, V>(rows, a, b + at, c + at, row, tail, s, adds);
    };
    switch (vectors) {
      case 1: run(std::integral_constant<int, 1>{}); break;
      case 2: run(std::integral_constant<int, 2>{}); break;
      case 3: run(std::integral_constant<int, 3>{}); break;
      case 4: run(std::integral_constant<int, 4>{}); break;
      case 5: run(std::integral_constant<int, 5>{}); break;
      default: run(std::integral_constant<int, 6>{}); break;
    }
  }
}

template <class T>
int64_t whole_vectors(int64_t n) {
  return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

// The row of the grid, or column, that place p of the padded one shows; -1: none, a zero.
inline int64_t shown(const WindowGeometry& g, int axis, int64_t p) {
  const int64_t n = g.grid[axis], i = p - g.low[axis];
  if (i >= 0 && i < n) return i;
  return g.wrap ? ((i % n) + n) % n : -1;
}

// The first and last + 1 of `count` steps of `stride` from `first` that end up inside `size`, or all on a torus.
struct Inside {
  int64_t from, to;
  Inside(int64_t first, int64_t stride, int64_t count, int64_t size, bool wrap)
      : from(wrap ? 0 : std::clamp<int64_t>((stride - 1 - first) / stride, 0, count)),
        to(wrap ? count : std::clamp<int64_t>((size - first + stride - 1) / stride, from, count)) {}
};

// Rows outside of a grid that is no torus stay unwritten: no product reads them.
template <class T>
void pad(const WindowGeometry& g, const T* x, T* padded) {
  const int64_t C = g.channels, row = g.padded_row();
  for (int64_t h = 0; h < g.padded(0); ++h, padded += row) {
    const int64_t i = shown(g, 0, h);
    if (i < 0) continue;
    const T* from = x + i * g.grid[1] * C;
    std::copy(from, from + g.grid[1] * C, padded + g.low[1] * C);
    const auto edge = [&](int64_t w) {
      const int64_t j = shown(g, 1, w);
      if (j < 0) std::fill(padded + w * C, padded + (w + 1) * C, T(0));
      else std::copy(from + j * C, from + (j + 1) * C, padded + w * C);
    };
    for (int64_t w = 0; w < g.low[1]; ++w) edge(w);
    for (int64_t w = g.low[1] + g.grid[1]; w < g.padded(1); ++w) edge(w);
  }
}

// The transpose of `pad`.
template <class T>
void unpad(const WindowGeometry& g, const T* padded, T* x) {
  const int64_t C = g.channels, row = g.padded_row();
  std::fill(x, x + g.input_size(), T(0));
  for (int64_t h = 0; h < g.padded(0); ++h, padded += row) {
    const int64_t i = shown(g, 0, h);
    if (i < 0) continue;
    T* to = x + i * g.grid[1] * C;
    for (int64_t k = 0; k < g.grid[1] * C; ++k) to[k] += padded[g.low[1] * C + k];
    const auto edge = [&](int64_t w) {
      const int64_t j = shown(g, 1, w);
      if (j < 0) return;
      for (int64_t c = 0; c < C; ++c) to[j * C + c] += padded[w * C + c];
    };
    for (int64_t w = 0; w < g.low[1]; ++w) edge(w);
    for (int64_t w = g.low[1] + g.grid[1]; w < g.padded(1); ++w) edge(w);
  }
}

// Rows of `width` numbers, filled up to whole vectors.
template <class T>
void fill_up(const T* from, int64_t rows, int64_t width, T* to) {
  const int64_t whole = whole_vectors<T>(width);
  for (int64_t r = 0; r < rows; ++r, from += width, to += whole) {
    std::copy(from, from + width, to);
    std::fill(to + width, to + whole, T(0));
  }
}

// Numbers before the next array, which begins where a line of the cache may.
template <class T>
int64_t whole_lines(int64_t n) {
  constexpr int64_t kLine = 64 / sizeof(T);
  return (n + kLine - 1) / kLine * kLine;
}

template <class T>
int64_t window_workspace(const WindowGeometry& g) {
  const int64_t forth = g.window[0] * g.row_taps() * whole_vectors<T>(g.outputs);
  const int64_t back = g.window[0] * g.outputs * whole_vectors<T>(g.row_taps());
  const int64_t images = g.out[0] * g.out[1] * whole_vectors<T>(g.outputs);
  return whole_lines<T>(g.padded_size()) + std::max({forth, back, images});
}

template <class T>
void window_outputs(const WindowGeometry& g, const T* x, const T* w, T* y, T* workspace) {
  T *padded = workspace, *weights = workspace + whole_lines<T>(g.padded_size());
  const int64_t whole = whole_vectors<T>(g.outputs), taps = g.row_taps();
  fill_up(w, g.window[0] * taps, g.outputs, weights);
  ProductSteps s{g.stride[1] * g.channels, 1, g.padded_row(), whole, taps * whole, taps, g.window[0]};
  for (int64_t n = 0; n < g.samples; ++n, x += g.input_size()) {
    pad(g, x, padded);
    for (int64_t h = 0; h < g.out[0]; ++h, y += g.out[1] * g.outputs) {
      const Inside rows(h * g.stride[0] - g.low[0], 1, g.window[0], g.grid[0], g.wrap);
      s.outer = rows.to - rows.from;
      const T* a = padded + (h * g.stride[0] + rows.from) * g.padded_row();
      multiply<T>(g.out[1], g.outputs, a, weights + rows.from * s.bo, y, g.outputs, s, false);
    }
  }
}

template <class T>
void window_to_inputs(const WindowGeometry& g, const T* y, const T* w, T* x, T* workspace) {
  T *padded = workspace, *weights = workspace + whole_lines<T>(g.padded_size());
  const int64_t taps = g.row_taps(), whole = whole_vectors<T>(taps);
  std::fill(weights, weights + g.window[0] * g.outputs * whole, T(0));
  for (int64_t u = 0; u < g.window[0]; ++u)
    for (int64_t k = 0; k < taps; ++k)
      for (int64_t c = 0; c < g.outputs; ++c) weights[(u * g.outputs + c) * whole + k] = w[(u * taps + k) * g.outputs + c];
  const ProductSteps s{g.outputs, 1, 0, whole, 0, g.outputs, 1};
  for (int64_t n = 0; n < g.samples; ++n, x += g.input_size()) {
    std::fill(padded, padded + g.padded_size(), T(0));
    for (int64_t h = 0; h < g.out[0]; ++h, y += g.out[1] * g.outputs) {
      const Inside rows(h * g.stride[0] - g.low[0], 1, g.window[0], g.grid[0], g.wrap);
      for (int64_t u = rows.from; u < rows.to; ++u)
        multiply<T>(g.out[1], taps, y, weights + u * g.outputs * whole, padded + (h * g.stride[0] + u) * g.padded_row(),
                    g.stride[1] * g.channels, s, true);
    }
    unpad(g, padded, x);
  }
}

template <class T>
void window_to_weights(const WindowGeometry& g, const T* x, const T* y, T* w, T* workspace) {
  T *padded = workspace, *filled = workspace + whole_lines<T>(g.padded_size());
  const int64_t whole = whole_vectors<T>(g.outputs), taps = g.row_taps();
  std::fill(w, w + g.weight_size(), T(0));
  ProductSteps s{1, g.stride[1] * g.channels, g.stride[0] * g.padded_row(), whole, g.out[1] * whole, g.out[1], g.out[0]};
  for (int64_t n = 0; n < g.samples; ++n, x += g.input_size(), y += g.output_size()) {
    pad(g, x, padded);
    const T* b = y;
    if (whole != g.outputs) {
      fill_up(y, g.out[0] * g.out[1], g.outputs, filled);
      b = filled;
    }
    for (int64_t u = 0; u < g.window[0]; ++u) {
      const Inside rows(u - g.low[0], g.stride[0], g.out[0], g.grid[0], g.wrap);
      s.outer = rows.to - rows.from;
      const T* a = padded + u * g.padded_row() + rows.from * s.ao;
      multiply<T>(taps, g.outputs, a, b + rows.from * s.bo, w + u * taps * g.outputs, g.outputs, s, true);
    }
  }
}

template <class T>
constexpr WindowLoops<T> kWindowLoops{window_workspace<T>, window_outputs<T>, window_to_inputs<T>, window_to_weights<T>};

}  // namespace eqt::EQT_ISA
