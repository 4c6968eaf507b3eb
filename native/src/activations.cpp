// Activation kernels, on rows of cells and of each input alone: all that is compiled for each of them.
#include "pointwise.hpp"
#include "prepared_sides.hpp"
#include "rescaled.hpp"
#include "smooth.hpp"
#include "tabulated.hpp"

namespace eqt::EQT_ISA {
namespace {

// φ + c of fields in units u: with μ = E[φ]/u and γ = c/u D gains (γ - γ')(2(μ - μ') + γ - γ'). The sides are those of `convert`,
// for functions that leave fields in another unit than u, μ and γ.
template <class T>
void raise_row(T* cells, int64_t n, const Sides<T>& sides) {
  for (int64_t k = 0; k < n; ++k, cells += 2 * kLanes<T>) {
    Vec<T> x[kRaisedSides], y[kRaisedSides];
    sides.get(k, x, y);
    Vec<T> d = load(cells), theta = load(cells + kLanes<T>);
    convert<T>(d, theta, x, y);
    const Vec<T> gap = x[3] - y[3];
    store(cells, maximum(d + gap * (T(2) * (x[2] - y[2]) + gap), Vec<T>{}));
    store(cells + kLanes<T>, theta);
  }
}

// Calls f with the dual activation that `op` names.
template <class T, class F>
EQT_INLINE void with_dual(const Op& op, F&& f) {
  // Those that know fields as they are alone, in units or not.
  const auto either = [&](auto dual) {
    if (op.changes) f(Rescaled<T, decltype(dual)>{op, dual});
    else f(dual);
  };
  switch (op.dual) {
    case DualKind::piecewise_linear: return f(PiecewiseLinear<T>(op));
    case DualKind::erf: return either(Erf<T>());
    case DualKind::gelu: return either(Gelu<T>());
    case DualKind::bent_gelu: return either(BentGelu<T>());
    case DualKind::sine:
    case DualKind::cosine:
    case DualKind::wave: return either(Trigonometric<T>(Trigonometric<T>::sign_of(op)));
    case DualKind::normalised_exponential: return f(NormalisedExponential<T>(op));
    case DualKind::radial_basis: return either(RadialBasis<T>(op));
    case DualKind::exponential: return f(Exponential<T>(op));
    case DualKind::gaussian: return either(Gaussian<T>(op));
    case DualKind::gabor: return either(Gabor<T>());
    case DualKind::normalised: return f(Normalised<T>(op));
    case DualKind::standardised: return f(Standardised<T>());
    case DualKind::step: return f(Step<T>(op));
    case DualKind::rectified_monomial: return f(RectifiedMonomial<T>(op));
    case DualKind::polynomial: return f(PolynomialDual<T, kShort>(op));
    case DualKind::long_polynomial: return f(PolynomialDual<T, kLong>(op));
    case DualKind::tabulated_odd: return f(Tabulated<T, kHalfOrders, 0>(op));
    case DualKind::tabulated_even: return f(Tabulated<T, 1, kHalfOrders>(op));
    case DualKind::tabulated: return f(Tabulated<T, kHalfOrders, kHalfOrders>(op));
  }
}

constexpr int kFewSides = 14;  // so many stay in registers

template <class T, class D, class S>
void each_pair(const D& dual, T* cells, int64_t n, const S& sides) {
  Vec<T> x[D::kSides], y[D::kSides];
  if constexpr (S::kFixed) sides.get(0, x, y);
  for (int64_t k = 0; k < n; ++k, cells += 2 * kLanes<T>) {
    if constexpr (!S::kFixed) sides.get(k, x, y);
    Vec<T> d = load(cells), theta = load(cells + kLanes<T>);
    dual.pair(d, theta, x, y);
    store(cells, d);
    store(cells + kLanes<T>, theta);
  }
}

template <class T>
void dual_cells(const Op& op, T* cells, int64_t n, const Sides<T>& sides) {
  with_dual<T>(op, [&](const auto& dual) {
    using Dual = std::decay_t<decltype(dual)>;
    if constexpr (Dual::kSides > kFewSides) {
      const int32_t here = 0;
      Sides<T> of = sides;
      if (!sides.partner) of.partner = &here;
      const int64_t at_once = sides.partner ? n : 1;
      with_known(of, [&](const auto& known) EQT_INLINE_LAMBDA {
        for (int64_t k = 0; k < n; k += at_once) each_pair(dual, cells + k * 2 * kLanes<T>, at_once, known);
      });
    } else {
      if constexpr (std::is_same_v<Dual, PiecewiseLinear<T>>)
        if (sides.partner) return with_known(sides, [&](const auto& known) EQT_INLINE_LAMBDA { each_pair(dual, cells, n, known); });
      if constexpr (std::is_same_v<Dual, Erf<T>>)
        if (!sides.partner && !sides.first_step) return each_pair(dual, cells, n, FixedSides<T>{sides});  // of rotations
      each_pair(dual, cells, n, sides);
    }
  });
  if (!op.changes || op.offset == 0) return;
  Sides<T> rest = sides;
  const int64_t skipped = op.sides - kRaisedSides;
  rest.first += skipped * (sides.own ? kLanes<T> : 1), rest.second += skipped * kLanes<T>;
  raise_row(cells, n, rest);
}

// The sides of a dual activation that knows units, and of one of which all fields have the same.
template <class Dual, int K>
EQT_INLINE auto sides_between(const Dual& dual, Doubles q, const Units& units, Doubles (&out)[K]) -> decltype(dual.sides(q, units, out)) {
  return dual.sides(q, units, out);
}
template <class Dual, int K>
EQT_INLINE auto sides_between(const Dual& dual, Doubles q, const Units&, Doubles (&out)[K]) -> decltype(dual.sides(q, out)) {
  return dual.sides(q, out);
}

}  // namespace

void dual_row(const Op& op, float* cells, int64_t n, const Sides<float>& sides) { dual_cells(op, cells, n, sides); }
void dual_row(const Op& op, double* cells, int64_t n, const Sides<double>& sides) { dual_cells(op, cells, n, sides); }

void moments(const Op& op, const Doubles* q, int64_t count, Doubles* variances, Doubles* means) {
  with_dual<double>(op, [&](const auto& dual) {
    using Dual = std::decay_t<decltype(dual)>;
    const double constant = op.offset;
    for (int64_t i = 0; i < count; ++i) {
      const Doubles before = q[i], first = means || constant != 0 ? Dual::mean(op, before) : Doubles{};
      Doubles variance = Dual::variance(op, before);
      if (constant != 0) variance += constant * (2 * first + constant);
      variances[i] = variance;
      if (means) means[i] = first + constant;
    }
  });
}

void all_sides(const Op& op, const double* q, int64_t count, int64_t step, const Units& units, bool narrow, Doubles* out) {
  with_dual<double>(op, [&](const auto& dual) {
    using Dual = std::decay_t<decltype(dual)>;
    // Homogeneous functions leave fields in the unit before, and steps as they are.
    const bool homogeneous = op.dual == DualKind::piecewise_linear || op.dual == DualKind::normalised_exponential;
    const Doubles left = homogeneous ? units.before : op.dual == DualKind::step ? 1 - Doubles{} : units.after;
    for (int64_t p = 0; p < count; ++p, q += step, out += op.sides) {
      const Doubles before = load(q), all = units.before * units.before * before;
      Doubles own[Dual::kSides];
      sides_between(dual, before, units, own);
      // In float, the product of two such sides might overflow.
      if constexpr (std::is_base_of_v<OfAngle, Dual>)
        if (narrow) own[1] = before > 1e-36 ? own[1] : Doubles{};
      for (int i = 0; i < Dual::kSides; ++i) out[i] = own[i];
      if (op.sides == Dual::kSides) continue;
      const Doubles more[kRaisedSides] = {left / units.after, Dual::variance(op, all) / (left * units.after),
                                          Dual::mean(op, all) / units.after, op.offset / units.after};
      for (int i = 0; i < kRaisedSides; ++i) out[Dual::kSides + i] = more[i];
    }
  });
}

}  // namespace eqt::EQT_ISA
