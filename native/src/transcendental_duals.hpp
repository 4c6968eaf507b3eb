#pragma once
#include "vector.hpp"
#include "program.hpp"
namespace eqt::EQT_ISA {
template <class T> struct Stub {
  static constexpr int kSides = 1;
  using V = Vec<T>;
  Stub() = default; explicit Stub(int) {}
  EQT_INLINE void pair(V&, V&, const V (&)[1], const V (&)[1]) const {}
  static EQT_INLINE void sides(Doubles q, Doubles (&out)[1]) { out[0]=q; }
  static EQT_INLINE Doubles variance(const Op&, Doubles q) { return q; }
};
template <class T> using Erf = Stub<T>;
template <class T> using Gelu = Stub<T>;
template <class T> using Trigonometric = Stub<T>;
}
