// How fast the arithmetic of a convolutional ReLU network's kernels can run on one core, with nothing around it: a field
// that stays in the first-level cache, windows of 3 by 3 on a torus, constant variances, no tables, no inputs.
// EQT_BYTES is the width of the vectors, that of the instruction set it is compiled for (rooflines.py).
// Prints element-layers per second of processor time, carrying the covariance and carrying the distance.
#include <cmath>
#include <cstdio>
#include <ctime>

namespace {

constexpr int kSide = 8, kLanes = EQT_BYTES / 4, kLayers = 3;
using Vector = float __attribute__((vector_size(4 * kLanes)));

struct Cell {
  Vector k, theta;
};

Cell field[kSide][kSide], other[kSide][kSide];

inline Vector root(Vector x) {
  for (int l = 0; l < kLanes; ++l) x[l] = std::sqrt(x[l]);
  return x;
}

// Horner's rule at the degrees that single precision needs; the coefficients do not matter to the time.
template <int Degree>
inline Vector polynomial(Vector x, float c) {
  Vector sum = c - Vector{};
  for (int i = 0; i < Degree; ++i) sum = sum * x + (c + 0.01f * i);
  return sum;
}

inline void dual_of_covariance(Vector& k, Vector& theta) {
  const float r = 1.1f, inverse = 1 / r, pi = 3.14159265f;
  Vector c = k * inverse;
  c = c < 1.0f ? c : 1.0f - Vector{};
  c = c > -1.0f ? c : -1.0f - Vector{};
  const Vector size = c < 0 ? -c : c;
  const Vector near = root(1.0f - size) * polynomial<7>(size, 0.1f);
  const Vector angle = c < 0 ? pi - near : near;
  const Vector sine = root(1.0f - c * c);
  k = (0.5f / pi) * r * (sine + (pi - angle) * c);
  theta *= 0.5f - (0.5f / pi) * angle;
}

inline void dual_of_distance(Vector& d, Vector& theta) {
  const float r = 1.1f, quarter = 0.25f / r, gap = 0.01f, pi = 3.14159265f;
  const Vector s = (d - gap) * quarter;
  const Vector rest = 1.0f - s;
  const auto far = s > 0.5f;
  Vector m = far ? rest : s;
  m = m > 0 ? m : Vector{};
  const Vector t = root(m);
  const Vector slope = t * polynomial<7>(m, 0.1f), lens = m * t * polynomial<6>(m, 0.1f);
  d = 0.5f * d + (r / pi) * (far ? lens - pi * (1.0f - 2.0f * m) : lens);
  theta *= far ? slope : 0.5f - slope;
}

template <bool Distance>
void layer(const Cell (&in)[kSide][kSide], Cell (&out)[kSide][kSide]) {
  const float w = 2.0f / 9, b = 0.01f, q = 0.55f;
  for (int y = 0; y < kSide; ++y) {
    const Cell *above = in[(y + kSide - 1) % kSide], *here = in[y], *below = in[(y + 1) % kSide];
    Cell sums[kSide + 2];
    for (int x = 0; x < kSide; ++x) {
      sums[x + 1].k = above[x].k + here[x].k + below[x].k;
      sums[x + 1].theta = above[x].theta + here[x].theta + below[x].theta;
    }
    sums[0] = sums[kSide];
    sums[kSide + 1] = sums[1];
    for (int x = 0; x < kSide; ++x) {
      Vector k = w * (sums[x].k + sums[x + 1].k + sums[x + 2].k);
      Vector theta = w * (sums[x].theta + sums[x + 1].theta + sums[x + 2].theta);
      if (Distance) {
        theta += q - 0.5f * k;
        dual_of_distance(k, theta);
      } else {
        k += b;
        theta += k;
        dual_of_covariance(k, theta);
      }
      out[y][x] = {k, theta};
    }
  }
}

template <bool Distance>
double rate() {
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    for (auto& row : field)
      for (auto& cell : row) cell.k = cell.theta = 0.5f - Vector{};
    const int passes = 4000;
    const std::clock_t start = std::clock();
    for (int i = 0; i < passes; ++i)
      for (int l = 0; l < kLayers; ++l) l % 2 ? layer<Distance>(other, field) : layer<Distance>(field, other);
    const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
    const double found = double(passes) * kLayers * kSide * kSide * kLanes / seconds;
    best = found > best ? found : best;
  }
  return best;
}

}  // namespace

int main() {
  std::printf("%.4g %.4g\n", rate<false>(), rate<true>());
  volatile float keep = field[0][0].k[0];
  (void)keep;
}
