// Where the pairs of one fibre lie at one level: the first positions carried, and their partners.
#pragma once

#include "program.hpp"
#include "vector.hpp"

namespace eqt::EQT_ISA {

// x modulo n, for x not far outside [0, n): windows read so often that a division would show.
EQT_INLINE int wrapped(int x, int n) {
  while (x < 0) x += n;
  while (x >= n) x -= n;
  return x;
}

struct Place {
  bool torus;                    // every position has a partner; else only those of [low, high) have
  int low[kAxes], high[kAxes];   // first positions carried
  int from[kAxes], to[kAxes];    // the same with the margin that the next window reads: the field's extent in memory
  int offset[kAxes];
  const int32_t* partner;        // along a row: the second position for each first one

  int64_t row(int z, int y) const {  // in cells, of position `from[2]`
    return (int64_t(z - from[0]) * (to[1] - from[1]) + (y - from[1])) * (to[2] - from[2]);
  }
};

}  // namespace eqt::EQT_ISA
