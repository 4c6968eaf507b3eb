#pragma once

#include "tile.hpp"

namespace eqt {

// The loops compiled for instruction set `number`; -1, or one that this machine lacks: the best it has.
template <class T>
const Kernels<T>& kernels(int number);

}  // namespace eqt
