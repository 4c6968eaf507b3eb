// A plan as the engine sees it: what to do with the fields of one pair offset, at which positions, with which tables.
// Grids have three axes, the leading ones of length 1 where the network has fewer.
#pragma once

#include <cstdint>

#include "codes.hpp"

namespace eqt {

struct Op {
  OpKind kind;
  // box
  int in[kAxes], out[kAxes], window[kAxes], stride[kAxes], low[kAxes];
  bool wrap;
  // table: out(p) = Σ_s weights[s] in(index[p * weight_count + s]); polynomials: weights[j] is the coefficient of x^j
  const int32_t* index;
  const double* weights;
  int weight_count;
  bool total;  // table: every position's window is all positions, alike
  // affine: W_var and b_var; if `rated` Θ grows by rate · W²K + constant
  double weight, bias, rate, constant;
  bool rated;
  // join: weights of what was kept and of what it is added to, where channels lie side by side and no means are multiplied
  double kept_share, added_share;
  bool concatenates;
  bool moves;                    // back: the positions are others than those before
  double parameters[2], offset;  // dual: codes.py names the parameters of each; the last is added to φ
  DualKind dual;
  bool changes;         // dual, join: fields have another unit u behind it, u² = their mean variance + unit_bias
  double unit_bias;
  int64_t unit_at;      // affine: where one over the inputs' unit is; dual, join: that of the new unit
  int slot;  // fork: where the field is kept while a branch runs; back: where it is taken from; join: what is added
  // Values that depend on one input only ("sides"), `sides` of them at each position of the level before the operation
  // (after it, for affine): where they begin, in numbers per input.
  int sides;
  int64_t side_at;
};

// Numbers a position that a nonlinearity needs of each input alone.
constexpr int sides_of_dual(const Op& op) {
  return dual_sides(op.dual) + (op.changes ? converted_sides(op.dual) + (op.offset != 0 ? kRaisedSides : 0) : 0);
}

// Functions known by a table, and how many columns it has: see tabulated.hpp.
constexpr bool is_tabulated(DualKind kind) {
  return kind == DualKind::tabulated || kind == DualKind::tabulated_odd || kind == DualKind::tabulated_even;
}
constexpr int columns_of_table(DualKind kind) { return dual_sides(kind) - 3; }

struct Level {
  bool grid;  // else positions that a group moves: those of a torus, or in one row
  int shape[kAxes], step[kAxes];
  bool wrap;
  const int32_t* partners;  // groups: the second position by pair offset and first position
  int64_t positions;
};

// Rotations over which a readout averages, for signals of harmonic coefficients (B², C); see rotations.hpp.
struct Rotations {
  int bandlimit;
  int count;              // rings of Euler angles, or single rotations
  int azimuths;           // of a ring, along either angle: an odd number; 0: single rotations
  const double* waves;    // (azimuths/2 + 1, 2B - 1)
  const double* mixing;   // pairs of factors for each ring; single rotations: their Wigner matrices of degrees l >= 1
  const double* weights;  // of the nodes of a ring
};

// Entries of all matrices (2l + 1, 2l + 1) with 1 <= l < end.
constexpr int64_t entries_of_degrees(int64_t end) { return end * (2 * end - 1) * (2 * end + 1) / 3 - 1; }

struct Plan;

// The pairs of blocks with one offset in a coarse stage, as far as there are any: in rows, first blocks in [low, high).
struct Slab {
  int64_t begin;  // in cells
  int low[kAxes], high[kAxes];
};

// What a residual branch around the pool keeps of each pair of positions, at a level of the earlier stage.
struct Carry {
  int slot, level;
  int64_t begin;  // among all fields over pairs
};

// Where a stage begins that follows a pool: D and Θ of an earlier stage, averaged over a window of first positions and
// one of second positions. The fine pair offsets are run one after another and added into the slabs of the coarse ones, each of
// which is run as soon as its slab is complete.
struct Pooled {
  const Plan* fine;  // the earlier stage
  bool grid;         // windows on a grid, as in `Op`; else blocks of positions, coarse offsets by difference of their numbers
  int in[kAxes], out[kAxes], window[kAxes], stride[kAxes], low[kAxes];
  bool wrap, inside;      // whether windows go around the torus; whether all of them lie on the grid
  bool narrow;            // few terms are added: sums are held in the numbers of the computation, else in double
  const int32_t* blocks;  // by fine position: the block that it belongs to, or -1
  double scale;           // one over the number of pairs of positions in a pair of windows
  const Slab* slabs;
  int slab_count, slab_at, number;  // of this pool: among the slabs and among the pools of all stages
  const int32_t* last_of_slab;      // the last fine pair offset that is added to it
  const int32_t* slab_of_offset;      // of the coarse stage
  const int32_t* slab_of_difference;  // by differences of blocks, from 1 - n to n - 1 along each axis; -1: not needed
  int64_t begin, cells;               // of this field among all fields over pairs
  int carried;
  Carry carry[kDepth];
  int64_t side_at;  // of each block: kPooledSides numbers
  const Plan* own;  // the same stage with the zero offset alone
};

// Of each block of one input, kPooledSides numbers: half its mean squared distance to itself, in two parts; the root of its
// variance; the part of its window that lies on the grid; and the mean of the variances there.
struct Plan {
  int channels;
  int64_t positions_in, positions_out;
  int field_count, vector_count;
  const Op* field;
  const Op* vector;
  const Level* levels;  // field_count + 1
  int offset_count;
  const int32_t* offsets;  // grids: three offsets each; groups: one element each
  const int32_t* labels;  // of the last level's positions
  double block_weight;
  const Pooled* pooled;        // null: the field begins with the signals
  const Rotations* rotations;  // null, or what takes the place of pair offsets; the field then has one position
  bool in_double;     // whatever the type of the inputs
  bool single;        // the readout needs the zero offset alone
  bool one_block;     // every position has the same label
  bool all_kept;      // no label is -1
  bool vector_dual;   // a nonlinearity or residual sum follows the readout, so distances are needed there
  bool distance_only; // no operation on fields: the readout is a distance of plain vectors
  bool dense;         // only that, then dense layers with one piecewise linear nonlinearity, and perhaps a last one without
  int64_t side_last, side_vector;  // where the halved variance after the field begins, and the sides of `vector`
  int64_t side_size;               // numbers per input in all
  bool units;                      // every input is divided by its unit t, t² = its mean square + unit_bias, and its biases too
  bool changes_units;              // at nonlinearities that are not homogeneous: a function grows faster than its input
  double unit_bias;
  int64_t side_unit;               // where 1/t is
  bool means;                      // a residual sum needs E[f]
  int slots;                       // fields kept at a time
  int64_t cells;                   // the largest field with the margins its windows read
  int widest, rows;                // its longest row, and the most rows that one window reads
  int most_ops;                    // of a stage
  int64_t columns;                 // of all grids of a stage
  int64_t pair_cells;              // of all fields over pairs of positions
  int pools, slabs;                // between all stages
};

}  // namespace eqt
