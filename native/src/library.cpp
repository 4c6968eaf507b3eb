// The C symbols that Python calls through ctypes.
#include <cstdio>
#include <exception>
#include <new>

#include "engine.hpp"
#include "joint.hpp"

#define EQT_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// What `work` returns, or -1 with a message where it fails.
template <class F>
int reported(char* message, int message_size, F&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    std::snprintf(message, message_size, "out of memory");
  } catch (const std::exception& error) {
    std::snprintf(message, message_size, "%s", error.what());
  } catch (...) {
    std::snprintf(message, message_size, "an unknown exception");
  }
  return -1;
}

template <class T>
int run(const eqt::Description& description, const eqt::Problem<T>& problem, char* message, int message_size) {
  return reported(message, message_size, [&] {
    const eqt::OwnedPlan plan(description);
    return int(eqt::compute(plan.plan(), problem));
  });
}

}  // namespace

// 0: done, 1: cancelled, -1: failed, with a message.
EQT_EXPORT int eqt_joint(const eqt::Description* d, const eqt::JointProblem* p, char* message, int size) {
  return reported(message, size, [&] { return int(eqt::compute_joint(eqt::OwnedJointPlan(*d).plan(), *p)); });
}
EQT_EXPORT int eqt_kernel_float(const eqt::Description* d, const eqt::Problem<float>* p, char* message, int size) {
  return run(*d, *p, message, size);
}
EQT_EXPORT int eqt_kernel_double(const eqt::Description* d, const eqt::Problem<double>* p, char* message, int size) {
  return run(*d, *p, message, size);
}
EQT_EXPORT void eqt_limit_instruction_sets(int number) { eqt::limit_instruction_sets(number); }
EQT_EXPORT int eqt_best_instruction_set() { return eqt::best_instruction_set(); }
EQT_EXPORT const char* eqt_instruction_set_name(int number) { return eqt::instruction_set_name(number); }
