// Products with windows for networks of few channels: no patches are written, and results stay in registers.
//
// Inputs are sums over windows on the outputs, so that the way back is the way forth with other weights.
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
  const int64_t most = std::clamp<int64_t>(kRegisters / std::max<int64_t>(rows, 1), 2, kMostVectors);
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

// x in the midst of its padded grid; rows outside of a grid that is no torus stay unwritten, as nothing reads them.
template <class T>
void pad(const WindowGeometry& g, const T* x, T* padded) {
  const int64_t C = g.channels, row = g.padded_row(), columns = g.padded(1);
  const int64_t begin = std::clamp<int64_t>(g.low[1], 0, columns);
  const int64_t end = std::clamp<int64_t>(g.low[1] + g.grid[1], begin, columns);
  for (int64_t h = 0; h < g.padded(0); ++h, padded += row) {
    const int64_t i = shown(g, 0, h);
    if (i < 0) continue;
    const T* from = x + i * g.grid[1] * C;
    std::copy(from + (begin - g.low[1]) * C, from + (end - g.low[1]) * C, padded + begin * C);
    const auto edge = [&](int64_t w) {
      const int64_t j = shown(g, 1, w);
      if (j < 0) std::fill(padded + w * C, padded + (w + 1) * C, T(0));
      else std::copy(from + j * C, from + (j + 1) * C, padded + w * C);
    };
    for (int64_t w = 0; w < begin; ++w) edge(w);
    for (int64_t w = end; w < columns; ++w) edge(w);
  }
}

// The transpose of padding a torus.
template <class T>
void fold(const WindowGeometry& g, const T* padded, T* x) {
  const int64_t C = g.channels;
  std::fill(x, x + g.input_size(), T(0));
  for (int64_t h = 0; h < g.padded(0); ++h)
    for (int64_t w = 0; w < g.padded(1); ++w, padded += C) {
      T* to = x + (shown(g, 0, h) * g.grid[1] + shown(g, 1, w)) * C;
      for (int64_t c = 0; c < C; ++c) to[c] += padded[c];
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

// y, whose rows and positions are `row` and `position` apart, of one padded image; weights are filled up.
template <class T>
void windows_of(const WindowGeometry& g, const T* padded, const T* weights, T* y, int64_t row, int64_t position) {
  const int64_t taps = g.row_taps(), whole = whole_vectors<T>(g.outputs);
  ProductSteps s{g.stride[1] * g.channels, 1, g.padded_row(), whole, taps * whole, taps, g.window[0]};
  for (int64_t h = 0; h < g.out[0]; ++h, y += row) {
    const Inside rows(h * g.stride[0] - g.low[0], 1, g.window[0], g.grid[0], g.wrap);
    s.outer = rows.to - rows.from;
    const T* a = padded + (h * g.stride[0] + rows.from) * g.padded_row();
    multiply<T>(g.out[1], g.outputs, a, weights + rows.from * s.bo, y, position, s, false);
  }
}

// Inputs whose places have the same remainder by the stride, and the windows on the outputs that they are sums over:
// x(r + stride·j) = Σ_t y(j − low + t) w(u)ᵀ, u = first + stride·(window − 1 − t).
struct Reached {
  WindowGeometry geometry;
  int64_t first[2];

  Reached(const WindowGeometry& g, const int64_t (&remainder)[2]) : geometry(g) {
    geometry.channels = g.outputs;
    geometry.outputs = g.channels;
    geometry.wrap = false;
    for (int i = 0; i < 2; ++i) {
      const int64_t stride = g.stride[i], low = g.wrap ? 0 : g.low[i], size = g.wrap ? g.padded(i) : g.grid[i];
      first[i] = (remainder[i] + low) % stride;
      geometry.grid[i] = g.out[i];
      geometry.out[i] = (size - remainder[i] + stride - 1) / stride;
      geometry.window[i] = std::max<int64_t>((g.window[i] - first[i] + stride - 1) / stride, 0);
      geometry.stride[i] = 1;
      geometry.low[i] = geometry.window[i] - 1 - (remainder[i] + low) / stride;
      geometry.high[i] = geometry.out[i] + geometry.window[i] - 1 - geometry.grid[i] - geometry.low[i];
    }
  }
};

// Calls call(reached, row and column of its first input, where its weights begin) for all remainders.
template <class T, class Call>
void for_reached(const WindowGeometry& g, Call call) {
  int64_t weights = 0;
  for (int64_t i = 0; i < g.stride[0]; ++i)
    for (int64_t j = 0; j < g.stride[1]; ++j) {
      const Reached r(g, {i, j});
      call(r, i, j, weights);
      weights += r.geometry.window[0] * r.geometry.row_taps() * whole_vectors<T>(g.channels);
    }
}

// Numbers before the next array, which begins where a line of the cache may.
template <class T>
int64_t whole_lines(int64_t n) {
  constexpr int64_t kLine = 64 / sizeof(T);
  return (n + kLine - 1) / kLine * kLine;
}

// Of the padded outputs that inputs are sums over.
template <class T>
int64_t most_padded(const WindowGeometry& g) {
  int64_t most = 0;
  for_reached<T>(g, [&](const Reached& r, auto...) { most = std::max(most, r.geometry.padded_size()); });
  return most;
}

template <class T>
int64_t window_workspace(const WindowGeometry& g) {
  const int64_t padded = std::max(g.padded_size(), most_padded<T>(g));
  const int64_t forth = g.window[0] * g.row_taps() * whole_vectors<T>(g.outputs);
  const int64_t back = g.window[0] * g.window[1] * g.outputs * whole_vectors<T>(g.channels);
  const int64_t images = g.out[0] * g.out[1] * whole_vectors<T>(g.outputs);
  return whole_lines<T>(padded) + std::max({forth, whole_lines<T>(back) + g.padded_size(), images});
}

template <class T>
void window_outputs(const WindowGeometry& g, const T* x, const T* w, T* y, T* workspace) {
  T *padded = workspace, *weights = workspace + whole_lines<T>(g.padded_size());
  fill_up(w, g.window[0] * g.row_taps(), g.outputs, weights);
  for (int64_t n = 0; n < g.samples; ++n, x += g.input_size(), y += g.output_size()) {
    pad(g, x, padded);
    windows_of(g, padded, weights, y, g.out[1] * g.outputs, g.outputs);
  }
}

template <class T>
void window_to_inputs(const WindowGeometry& g, const T* y, const T* w, T* x, T* workspace) {
  const int64_t C = g.channels, O = g.outputs, whole = whole_vectors<T>(C);
  T *padded = workspace, *weights = workspace + whole_lines<T>(most_padded<T>(g));
  T* torus = weights + whole_lines<T>(g.window[0] * g.window[1] * O * whole);
  for_reached<T>(g, [&](const Reached& r, int64_t, int64_t, int64_t at) {
    T* to = weights + at;
    const int64_t* window = r.geometry.window;
    for (int64_t s = 0; s < window[0]; ++s)
      for (int64_t t = 0; t < window[1]; ++t) {
        const int64_t u = r.first[0] + g.stride[0] * (window[0] - 1 - s);
        const int64_t v = r.first[1] + g.stride[1] * (window[1] - 1 - t);
        const T* from = w + (u * g.window[1] + v) * C * O;
        for (int64_t o = 0; o < O; ++o, to += whole) {
          for (int64_t c = 0; c < C; ++c) to[c] = from[c * O + o];
          std::fill(to + C, to + whole, T(0));
        }
      }
  });
  const int64_t columns = g.wrap ? g.padded(1) : g.grid[1];
  for (int64_t n = 0; n < g.samples; ++n, x += g.input_size(), y += g.output_size()) {
    T* to = g.wrap ? torus : x;
    for_reached<T>(g, [&](const Reached& r, int64_t i, int64_t j, int64_t at) {
      pad(r.geometry, y, padded);
      T* first = to + (i * columns + j) * C;
      windows_of(r.geometry, padded, weights + at, first, g.stride[0] * columns * C, g.stride[1] * C);
    });
    if (g.wrap) fold(g, torus, x);
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
