// All loops over numbers, compiled once for each instruction set.
#include "vector_stage.hpp"
#include "field.hpp"
#include "prepare.hpp"
#include "readout.hpp"
#include "windows.hpp"

namespace eqt::EQT_ISA {

template <class T>
int64_t workspace_bytes(const Plan& plan) {
  const int64_t tile = Workspace<T>::bytes(plan), prepare = prepare_bytes<T>(plan);
  return tile > prepare ? tile : prepare;
}

template <class T>
constexpr Kernels<T> kKernels{kLanes<T>, kAbreast, workspace_bytes<T>, to_unit<T>, prepare_field<T>, prepare_vector<T>, products<T>, dense<T>, put<T, float>, put<T, double>, mirror<T>,
                              readout<T>, vector_stage<T>, fields<T>};

const Kernels<float>& kernels_float() { return kKernels<float>; }
const Kernels<double>& kernels_double() { return kKernels<double>; }
const WindowLoops<float>& windows_float() { return kWindowLoops<float>; }
const WindowLoops<double>& windows_double() { return kWindowLoops<double>; }

}  // namespace eqt::EQT_ISA
