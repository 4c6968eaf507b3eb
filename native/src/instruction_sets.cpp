// Which compiled variant runs here: the best of those that this processor and its operating system support.
#include <atomic>
#include <iterator>

#include "engine.hpp"
#include "joint.hpp"
#include "window_geometry.hpp"

namespace eqt {

#define EQT_DECLARE(ISA)                          \
  namespace ISA {                                 \
  const Kernels<float>& kernels_float();          \
  const Kernels<double>& kernels_double();        \
  const WindowLoops<float>& windows_float();      \
  const WindowLoops<double>& windows_double();    \
  const JointLoops& joint_loops();                \
  }
#define EQT_LOOPS(ISA) \
  ISA::kernels_float, ISA::kernels_double, ISA::windows_float, ISA::windows_double, ISA::joint_loops

namespace {
struct Variant {
  const char* name;
  bool (*supported)();
  const Kernels<float>& (*of_float)();
  const Kernels<double>& (*of_double)();
  const WindowLoops<float>& (*windows_of_float)();
  const WindowLoops<double>& (*windows_of_double)();
  const JointLoops& (*joint)();
};
}  // namespace

#if defined(__x86_64__)
EQT_DECLARE(x86_64_v2)
EQT_DECLARE(x86_64_v3)
EQT_DECLARE(x86_64_v4)
#else
EQT_DECLARE(generic)
#endif

namespace {
bool always() { return true; }
#if defined(__x86_64__)
bool avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"); }
bool avx512() {
  return avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
}
#endif
const Variant kVariants[] = {
#if defined(__x86_64__)
    {"sse2", always, EQT_LOOPS(x86_64_v2)},
    {"avx2", avx2, EQT_LOOPS(x86_64_v3)},
    {"avx512", avx512, EQT_LOOPS(x86_64_v4)},
#elif defined(__aarch64__)
    {"neon", always, EQT_LOOPS(generic)},
#else
    {"generic", always, EQT_LOOPS(generic)},
#endif
};
std::atomic<int> limit{int(std::size(kVariants)) - 1};

const Variant& variant(int number) {
  const int best = best_instruction_set();
  return kVariants[number < 0 || number > best ? best : number];
}
}  // namespace

int best_instruction_set() {
  int best = 0;
  for (int i = 0; i <= limit.load(std::memory_order_relaxed); ++i)
    if (kVariants[i].supported()) best = i;
  return best;
}

void limit_instruction_sets(int number) { limit.store(number, std::memory_order_relaxed); }

const char* instruction_set_name(int number) {
  return number >= 0 && number < int(std::size(kVariants)) ? kVariants[number].name : nullptr;
}

template <>
const Kernels<float>& kernels<float>(int number) { return variant(number).of_float(); }
template <>
const Kernels<double>& kernels<double>(int number) { return variant(number).of_double(); }
template <>
const WindowLoops<float>& window_loops<float>(int number) { return variant(number).windows_of_float(); }
template <>
const WindowLoops<double>& window_loops<double>(int number) { return variant(number).windows_of_double(); }
const JointLoops& joint_loops(int number) { return variant(number).joint(); }

}  // namespace eqt
