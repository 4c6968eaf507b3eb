// Ctrl-C while a custom call runs. Python's handler of the signal only takes note until the interpreter has its turn
// again, and it has none while it waits for XLA; so for the time of a call the signal is noted here too, and passed on.
#pragma once

#include "flag.hpp"

namespace eqt {

class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  static const Flag* flag();  // set once the signal came during any call that still runs
};

}  // namespace eqt
