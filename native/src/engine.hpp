// The kernels of many inputs: panels of inputs that are prepared once, tiles over pairs shared out among threads.
#pragma once

#include "plan.hpp"
#include "tile.hpp"

namespace eqt {

enum class Outcome : int { done, cancelled };

template <class T>
struct Problem {
  const T* x1;
  int64_t n1;
  const T* x2;  // null: x1 with itself, at half the cost
  int64_t n2;
  T *nngp, *ntk;  // (n1, n2)
  int threads;
  const Flag* cancel;  // computation stops soon after this becomes nonzero; may be null
  bool listed;                     // only of every first input with the second one of its number: nngp and ntk are (n1,)
  int instructions;                // -1: the best that this machine has; else a number as in `instruction_set_name`
  // The field over P positions that is wanted in place of one number a pair: nngp and ntk are (n1, P, n2, P) of all pairs
  // of positions, (n1, n2, P) of the same position, (n1, n2, listed) of some, with targets (offsets, P); where `listed`
  // inputs are asked for they have one axis of inputs less, the first.
  FieldKind field = FieldKind::none;
  int64_t field_numbers = 0;  // of a pair of inputs
  const int32_t* targets = nullptr;
  Flag* odd = nullptr;  // becomes 1 where a number of the result is not finite
  int64_t* bytes = nullptr;  // in place of a run, what it would hold beyond inputs and results, at most, is written there
};

template <class T>
Outcome compute(const Plan& plan, const Problem<T>& problem);

// The loops compiled for instruction set `number`; -1, or one that this machine lacks: the best it has.
template <class T>
const Kernels<T>& kernels(int number);

int best_instruction_set();
void limit_instruction_sets(int number);  // better ones than this, which the machine has, are left alone
const char* instruction_set_name(int number);  // null past the last

}  // namespace eqt
