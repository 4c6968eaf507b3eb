// Products with windows on random geometries, at every instruction set of this processor, against literal sums: built
// with sanitizers and linked with the objects of the engine. Prints how many geometries it tried; 1 where one differs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "window_geometry.hpp"

extern "C" int eqt_best_instruction_set();

namespace {

using eqt::WindowGeometry;

class Random {
 public:
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(source_); }
  template <class T>
  std::vector<T> numbers(int64_t count) {
    std::vector<T> found(static_cast<size_t>(count));
    for (T& v : found) v = between(0, 7) ? static_cast<T>(normal_(source_)) : T(0);
    return found;
  }

 private:
  std::mt19937 source_{1};
  std::normal_distribution<double> normal_;
};

WindowGeometry geometry(Random& random) {
  WindowGeometry g{};
  g.samples = random.between(1, 3);
  // Numbers of channels that fill vectors of any instruction set have loops of their own.
  g.channels = random.between(0, 1) ? int64_t(2) << random.between(0, 4) : random.between(1, 40);
  g.outputs = random.between(1, 40);
  g.wrap = random.between(0, 1) != 0;
  for (int axis = 0; axis < 2; ++axis) {
    g.window[axis] = random.between(1, 5);
    g.stride[axis] = random.between(0, 2) ? 1 : random.between(1, 3);
    g.low[axis] = random.between(0, g.window[axis] - 1);
    g.high[axis] = random.between(0, g.window[axis] - 1);
    g.grid[axis] = std::max(random.between(1, 34), g.window[axis] - g.low[axis] - g.high[axis]);
    g.out[axis] = (g.padded(axis) - g.window[axis]) / g.stride[axis] + 1;
  }
  return g;
}

// Calls `visit` with the places in x, w and y of every product of the sum.
template <class Visit>
void products(const WindowGeometry& g, Visit visit) {
  const auto place = [&](int axis, int64_t p, int64_t u) {
    const int64_t n = g.grid[axis], i = p * g.stride[axis] - g.low[axis] + u;
    return i >= 0 && i < n ? i : g.wrap ? ((i % n) + n) % n : -1;
  };
  for (int64_t n = 0; n < g.samples; ++n)
    for (int64_t h = 0; h < g.out[0]; ++h)
      for (int64_t v = 0; v < g.out[1]; ++v)
        for (int64_t u = 0; u < g.window[0]; ++u)
          for (int64_t k = 0; k < g.window[1]; ++k) {
            const int64_t i = place(0, h, u), j = place(1, v, k);
            if (i < 0 || j < 0) continue;
            for (int64_t c = 0; c < g.channels; ++c)
              for (int64_t o = 0; o < g.outputs; ++o)
                visit(static_cast<size_t>(((n * g.grid[0] + i) * g.grid[1] + j) * g.channels + c),
                      static_cast<size_t>(((u * g.window[1] + k) * g.channels + c) * g.outputs + o),
                      static_cast<size_t>(((n * g.out[0] + h) * g.out[1] + v) * g.outputs + o));
          }
}

// A sum with the sizes of its terms, by which its rounding errors are judged.
struct Sums {
  explicit Sums(int64_t count) : of(static_cast<size_t>(count)), sizes(of) {}
  void add(size_t at, double term) { of[at] += term, sizes[at] += std::abs(term); }
  std::vector<double> of, sizes;
};

template <class T>
bool agree(const char* what, const WindowGeometry& g, const std::vector<T>& found, const Sums& exact) {
  const double unit = sizeof(T) == 4 ? 1e-6 : 2e-15;
  for (size_t i = 0; i < found.size(); ++i)
    if (!(std::abs(found[i] - exact.of[i]) <= unit * exact.sizes[i])) {
      std::printf("%s: %g in place of %g at %zu\n  samples %ld channels %ld outputs %ld wrap %d\n", what, double(found[i]),
                  exact.of[i], i, long(g.samples), long(g.channels), long(g.outputs), g.wrap);
      for (int a = 0; a < 2; ++a)
        std::printf("  grid %ld window %ld stride %ld padding %ld %ld\n", long(g.grid[a]), long(g.window[a]),
                    long(g.stride[a]), long(g.low[a]), long(g.high[a]));
      return false;
    }
  return true;
}

template <class T>
bool right(const WindowGeometry& g, Random& random) {
  const std::vector<T> x = random.numbers<T>(g.samples * g.input_size()), w = random.numbers<T>(g.weight_size()),
                       y = random.numbers<T>(g.samples * g.output_size());
  Sums outputs(static_cast<int64_t>(y.size())), inputs(static_cast<int64_t>(x.size())), weights(static_cast<int64_t>(w.size()));
  products(g, [&](size_t i, size_t k, size_t o) {
    outputs.add(o, double(x[i]) * double(w[k]));
    inputs.add(i, double(y[o]) * double(w[k]));
    weights.add(k, double(x[i]) * double(y[o]));
  });
  for (int set = 0; set <= eqt_best_instruction_set(); ++set) {
    const eqt::WindowLoops<T>& loops = eqt::window_loops<T>(set);
    void* memory = nullptr;  // no byte more than asked for, or writing behind it would not be seen
    if (posix_memalign(&memory, 64, static_cast<size_t>(loops.workspace(g)) * sizeof(T)) != 0) return false;
    const std::unique_ptr<void, decltype(&std::free)> kept(memory, &std::free);
    T* const workspace = static_cast<T*>(memory);
    std::vector<T> to_y(y.size(), T(NAN)), to_x(x.size(), T(NAN)), to_w(w.size(), T(NAN));
    loops.outputs(g, x.data(), w.data(), to_y.data(), workspace);
    loops.to_inputs(g, y.data(), w.data(), to_x.data(), workspace);
    loops.to_weights(g, x.data(), y.data(), to_w.data(), workspace);
    if (!agree("outputs", g, to_y, outputs) || !agree("inputs", g, to_x, inputs) || !agree("weights", g, to_w, weights))
      return false;
  }
  return true;
}

}  // namespace

int main() {
  Random random;
  constexpr int kCases = 150;
  for (int k = 0; k < kCases; ++k) {
    const WindowGeometry g = geometry(random);
    if (!right<float>(g, random) || !right<double>(g, random)) return 1;
  }
  std::printf("%d\n", kCases);
}
