// Numbers from the arrays that describe a plan.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "program.hpp"

namespace eqt {

// Takes numbers from an array one after another.
class Reader {
 public:
  Reader(const int32_t* at, int64_t size) : at_(at), end_(at + size) {}
  int32_t next() {
    if (at_ == end_) throw std::invalid_argument("the plan's description is too short");
    return *at_++;
  }
  template <int N>
  void next(int (&out)[N]) {
    for (int& value : out) value = next();
  }

 private:
  const int32_t *at_, *end_;
};

template <class T>
const T* within(const T* array, int64_t size, int64_t at, int64_t count) {
  if (at < 0 || count < 0 || at + count > size) throw std::invalid_argument("a table of the plan lies outside the tables");
  return array + at;
}

// The four numbers of an operation, by its kind.
inline void take_numbers(Op& op, const double* numbers) {
  switch (op.kind) {
    case OpKind::affine:
      op.weight = numbers[0], op.bias = numbers[1];
      op.rate = numbers[2], op.constant = numbers[3];
      break;
    case OpKind::dual:
      op.parameters[0] = numbers[0], op.parameters[1] = numbers[1];
      op.offset = numbers[2], op.unit_bias = numbers[3];
      break;
    case OpKind::join: op.kept_share = numbers[0], op.added_share = numbers[1], op.unit_bias = numbers[2]; break;
    default: break;
  }
}

}  // namespace eqt
