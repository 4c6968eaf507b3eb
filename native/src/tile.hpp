// What the dispatcher hands to the code of one instruction set, for one type of numbers: plain pointers only.
#pragma once

#include <atomic>
#include <cstdint>

#include "program.hpp"

namespace eqt {

// A number that one thread, or a signal's handler, writes while others read it. Nothing else is passed along with it.
using Flag = std::atomic<int32_t>;

// Python gives the address of an int32, and signals may come while it is written.
static_assert(sizeof(Flag) == sizeof(int32_t) && alignof(Flag) == alignof(int32_t) && Flag::is_always_lock_free);

// Always inlined: code of one instruction set must not be shared with that of another.
inline __attribute__((always_inline)) bool is_set(const Flag* flag) { return flag && flag->load(std::memory_order_relaxed); }
inline __attribute__((always_inline)) void set(Flag* flag) {
  if (flag) flag->store(1, std::memory_order_relaxed);
}

// Inputs and what is known of each alone, in the layouts that tiles read.
template <class T>
struct Group {
  const T* const* inputs;  // `lanes` of them, (positions, channels) each
  int count;               // how many are real; the others are zeros
  T* rows;                 // sides, (lanes, side_size), for first inputs
  T* lanes;                // sides, (side_size, lanes), for second inputs
  T* signals;              // the inputs, (positions · channels, lanes)
  double* variance_sum;    // Σ_p q(p)/2 after the field
  double* variance;        // q of the vector after the readout
  double* mean;            // E of the vector after the readout, where a residual sum needs it
  double* units;           // what the inputs, and biases at the place that is prepared, were divided by; null: by nothing
  const T* fixed = nullptr;  // null, or sides of the same inputs, in the layout of `lanes`, whose units are taken
};

// Where a kernel field is written: number (r, p, l, p') of a tile's first input, first position, second input and second
// position at r · first + p · position + l · second + p'; the same position at r · first + l · second + p; listed pairs
// at r · first + l · second + targets[offset, p], unless that is negative.
struct FieldOutput {
  FieldKind kind;
  bool as_float;  // what k and theta point to; else double
  void *k, *theta;
  int64_t first, position, second;
  int lanes;  // how many of them hold second inputs
  const int32_t* targets;
  void* scratch;
  int gathered;           // offsets that differ along the last axis, at most
  Flag* odd;  // becomes 1 where a number is not finite
};

template <class T>
struct Tile {
  int rows;
  const T* inputs[kTileRows];  // first inputs
  const T* sides[kTileRows];
  const double *variance_sums, *variances;  // of the first inputs (lists of pairs: by lanes)
  const T *signals1, *sides1;               // lists of pairs, else null: by lanes, the first input of each second one
  const T *signals2, *sides2;               // second inputs, by lanes
  const double *variance_sums2, *variances2;
  double *units, *units2;  // of the results: of the first inputs (lists of pairs: by lanes), and of the second ones
  double *k, *theta;  // (rows, lanes)
  void* workspace;
  const Flag* cancel;
  const T* products;        // of plain vectors: of the tile's pairs, (rows, lanes)
  const FieldOutput* field;

  bool listed() const { return signals1 != nullptr; }
  const T* first(int r) const { return listed() ? signals1 : inputs[r]; }
  const T* first_sides(int r) const { return listed() ? sides1 : sides[r]; }
};

template <class T>
struct Kernels {
  int lanes, abreast;  // of a vector; how many vectors of second inputs `products` takes
  int64_t (*workspace_bytes)(const Plan&);
  double (*to_unit)(const Plan&, const T* input, T* to);  // writes an input divided by its unit, which it returns
  void (*prepare_field)(const Plan&, const Group<T>&, void* workspace);
  void (*prepare_vector)(const Plan&, const Group<T>&);
  void (*products)(const Plan&, const T* first, int64_t at, int rows, const T* second, int groups, T* out, const Flag* cancel);
  // In place of both halves of a program whose plan is `dense`, into rows of the results; false: a pair is near or nearly
  // opposite, and rows that were written are to be written again. `finite` becomes false where a number is not.
  bool (*dense)(const Plan&, const Tile<T>&, T* k, T* theta, int64_t stride, bool* finite);
  bool (*put_float)(const double* values, int rows, int lanes, float* out, int64_t stride);  // false: not all are finite
  bool (*put_double)(const double* values, int rows, int lanes, double* out, int64_t stride);
  void (*mirror)(const T* from, int rows, int lanes, T* to, int64_t stride);  // with rows and columns exchanged
  // The two halves of a program on a tile.
  void (*readout)(const Plan&, const Tile<T>&);  // K (D if `single` and a dual follows) and Θ after the readout
  void (*vector)(const Plan&, const Tile<T>&);   // in place: K and Θ after the operations on vectors, of the inputs as they are
  void (*fields)(const Plan&, const Tile<T>&);   // in place of both: K and Θ of pairs of positions
};

}  // namespace eqt
