// Operators and solvers on a device: what steps of plans mean for the package `spanlift`, for f32, f64, c32 and c64.
//
// | entry | computes | as |
// |---|---|---|
// | spanlift_elementwise | formulas, and products with a complex factor | `Compute::apply`; `Scale` |
// | spanlift_dot | `Re sum conj(a_i) b_i` by one block, in a tree of fixed form | `Func::Dot` but for rounding |
// | spanlift_move | movements, and sums over what they repeat | `Gather::apply` |
// | spanlift_rows | rows of few entries | `Sparse::apply`, `Convolve::apply` |
//
// Arithmetic is in double precision without fused multiply-add, in the order of the reference evaluator, and each result
// is rounded once: results have the reference's bits, but for `spanlift_dot` and magnitudes of complex numbers.
//
// Elements lie whole in runs of the regions, at multiples of their size. Every function is inlined and indices into
// parameters are constants, so that nothing is copied to local memory.
//
// Compiled by `build` into operator.ptx, which the tests' interpreter runs.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define DEVICE static __device__ __forceinline__
#define MAX_RANK 6
#define THREADS 256

// The bytes of a region in their order, as in formula.cu. One with dimensions has fewer elements than 2^32.
struct View {
    u64 base; // address of the first byte of the first run
    u64 elem; // bytes of a run
    u64 rank;
    u64 count[MAX_RANK];
    u64 stride[MAX_RANK];
};

// The address of element i, of `size` bytes.
DEVICE u64 place(const View &v, u64 i, u32 size) {
    if (v.rank == 0) return v.base + i * size;
    u32 run = (u32)i / (u32)(v.elem / size);
    u64 at = v.base + (u32)i % (u32)(v.elem / size) * (u64)size;
#pragma unroll
    for (int k = MAX_RANK - 1; k >= 0; k--)
        if (k < (int)v.rank) {
            at += run % (u32)v.count[k] * v.stride[k];
            run /= (u32)v.count[k];
        }
    return at;
}

struct Value {
    double re, im;
};

// The four types: bytes of an element, and how it is loaded and stored.
struct F32 {
    static const u32 SIZE = 4, COMPLEX = 0;
    DEVICE Value load(u64 at) { return {(double)*(const float *)at, 0.0}; }
    DEVICE void store(u64 at, Value v) { *(float *)at = (float)v.re; }
};
struct F64 {
    static const u32 SIZE = 8, COMPLEX = 0;
    DEVICE Value load(u64 at) { return {*(const double *)at, 0.0}; }
    DEVICE void store(u64 at, Value v) { *(double *)at = v.re; }
};
struct C32 {
    static const u32 SIZE = 8, COMPLEX = 1;
    DEVICE Value load(u64 at) {
        float2 v = *(const float2 *)at;
        return {(double)v.x, (double)v.y};
    }
    DEVICE void store(u64 at, Value v) { *(float2 *)at = make_float2((float)v.re, (float)v.im); }
};
struct C64 {
    static const u32 SIZE = 16, COMPLEX = 1;
    DEVICE Value load(u64 at) {
        double2 v = *(const double2 *)at;
        return {v.x, v.y};
    }
    DEVICE void store(u64 at, Value v) { *(double2 *)at = make_double2(v.re, v.im); }
};

template <class T> DEVICE Value get(const View &v, u64 i) { return T::load(place(v, i, T::SIZE)); }
template <class T> DEVICE void put(const View &v, u64 i, Value x) { T::store(place(v, i, T::SIZE), x); }

// A product whose first factor is conjugated or not; of real numbers without the other two products, which are zeros.
template <class T> DEVICE Value times(Value a, Value b, bool conj) {
    if (!T::COMPLEX) return {a.re * b.re, 0.0};
    double im = conj ? -a.im : a.im;
    return {a.re * b.re - im * b.im, a.re * b.im + im * b.re};
}

// -- formulas ---------------------------------------------------------------------------------------------------------

enum Func { FILL, AFFINE, MUL, MUL_CONJ, ADD, SCALE, MULTIPLE, SUM_MULTIPLE, SHRINK, DIVIDE, SQRT, WHERE, GUARD, GUARD_STRICT };

// Every field is a word of 8 bytes.
struct Elementwise {
    u64 func;
    u64 n; // elements
    double p, q;
    View y, a, b, c;
};

DEVICE bool finite(double v) { return v - v == 0.0; }

DEVICE double magnitude(Value v) {
    double a = fabs(v.re), b = fabs(v.im), large = a > b ? a : b, small = a > b ? b : a;
    if (small == 0.0 || !finite(large)) return large;
    double ratio = small / large;
    return large * __dsqrt_rn(1.0 + ratio * ratio);
}

DEVICE double guarded(double a, double b, bool strict) {
    if (a <= 0.0) return a;
    if (!finite(a) || !finite(b)) return -1.7976931348623157e308;
    if (b < 0.0) return b;
    return strict && b == 0.0 ? -2.2250738585072014e-308 : a;
}

// What is read: `a` of a multiple is one double for all elements, and stands in `a.re`.
template <class T> DEVICE Value computed(const Elementwise &w, Value a, Value b, Value c) {
    double p = w.p, q = w.q;
    switch (w.func) {
    case FILL: return {p, q};
    case AFFINE: return {p * a.re + q, p * a.im};
    case MUL: return times<T>(a, b, false);
    case MUL_CONJ: return times<T>(a, b, true);
    case ADD: return {a.re + b.re, a.im + b.im};
    case SCALE:
        if (!T::COMPLEX || q == 0.0) return {a.re * p, a.im * p};
        return times<T>({p, q}, a, false);
    case MULTIPLE: case SUM_MULTIPLE: {
        double by = finite(a.re) ? p * a.re : 0.0;
        if (by == 0.0) return c;
        return {by * b.re + c.re, by * b.im + c.im};
    }
    case SHRINK: {
        double size = T::COMPLEX ? magnitude(a) : fabs(a.re), rest = size > p ? 1.0 - p / size : 0.0;
        return {a.re * rest, a.im * rest};
    }
    case DIVIDE: return {a.re <= 0.0 || b.re <= 0.0 ? 0.0 : a.re / b.re, 0.0};
    case SQRT: return {a.re < 0.0 ? 0.0 : __dsqrt_rn(a.re), 0.0};
    case WHERE: return {b.re > p ? a.re : 0.0, 0.0};
    default: return {guarded(a.re, b.re, w.func == GUARD_STRICT), 0.0};
    }
}

DEVICE bool reads_b(u64 func) { return func != FILL && func != AFFINE && func != SCALE && func != SHRINK && func != SQRT; }

template <class T> DEVICE void elementwise(const Elementwise &w) {
    u64 step = (u64)gridDim.x * blockDim.x;
    bool is_multiple = w.func == MULTIPLE || w.func == SUM_MULTIPLE;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < w.n; i += step) {
        Value a = {0.0, 0.0}, b = a, c = a;
        if (is_multiple) a = F64::load(w.a.base);
        else if (w.func != FILL) a = get<T>(w.a, i);
        if (reads_b(w.func)) b = get<T>(w.b, i);
        if (w.func == SUM_MULTIPLE) c = get<T>(w.c, i);
        put<T>(w.y, i, computed<T>(w, a, b, c));
    }
}

// One block of THREADS threads: each sums every THREADS-th product, then halves are added to halves.
template <class T> DEVICE void dot(const Elementwise &w) {
    __shared__ double sums[THREADS];
    double sum = 0.0;
#pragma unroll 1
    for (u64 i = threadIdx.x; i < w.n; i += THREADS) {
        Value a = get<T>(w.a, i), b = get<T>(w.b, i);
        sum += T::COMPLEX ? a.re * b.re + a.im * b.im : a.re * b.re;
    }
    sums[threadIdx.x] = sum;
#pragma unroll 1
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) F64::store(w.y.base, {sums[0], 0.0});
}

// -- movements --------------------------------------------------------------------------------------------------------

// `len` indices from `at` on: places `from`, `from + step` and so on of the other side.
struct Piece {
    i64 at, len, from, step;
};

// One dimension: its size, how far its indices are apart, and its pieces, rising and apart.
struct Axis {
    u64 size, unit;
    u64 first, n_pieces; // among the pieces of all dimensions
};

struct Move {
    u64 adds;  // 0: y_i = x[f(i)] or 0.  1: y[f(i)] = sum over the repeated dimensions of x_i
    u64 n;     // elements of the dimensions below; like all elements of either side fewer than 2^32
    u64 rank;
    u64 axes;  // address
    u64 n_repeats;
    u64 repeats; // dimensions that are repeated; they follow the others, without pieces
    u64 pieces;  // address
    View y, x;
};

// The place that an index of a dimension comes from, or -1: of pieces that begin at or before it, the last one decides.
DEVICE i64 source(const Piece *pieces, u64 n, i64 index) {
    u64 lo = 0, hi = n;
#pragma unroll 1
    while (lo < hi) {
        u64 mid = (lo + hi) / 2;
        if (pieces[mid].at <= index) lo = mid + 1;
        else hi = mid;
    }
    if (lo == 0) return -1;
    i64 into = index - pieces[lo - 1].at;
    return into < pieces[lo - 1].len ? pieces[lo - 1].from + into * pieces[lo - 1].step : -1;
}

template <class T> DEVICE Value repeated(const Move &w, u64 first) {
    const Axis *axes = (const Axis *)w.axes + w.rank;
    Value sum = {0.0, 0.0};
#pragma unroll 1
    for (u32 r = 0; r < (u32)w.n_repeats; r++) {
        u32 rest = r;
        u64 at = first;
#pragma unroll 1
        for (int k = (int)w.repeats - 1; k >= 0; k--) {
            at += rest % (u32)axes[k].size * axes[k].unit;
            rest /= (u32)axes[k].size;
        }
        Value x = get<T>(w.x, at);
        sum.re += x.re, sum.im += x.im;
    }
    return sum;
}

template <class T> DEVICE void move(const Move &w) {
    const Axis *axes = (const Axis *)w.axes;
    const Piece *pieces = (const Piece *)w.pieces;
    u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < w.n; i += step) {
        u32 rest = (u32)i;
        u64 here = 0;
        i64 there = 0;
        bool is_there = true;
#pragma unroll 1
        for (int k = (int)w.rank - 1; k >= 0 && is_there; k--) {
            u32 index = rest % (u32)axes[k].size;
            rest /= (u32)axes[k].size;
            here += index * axes[k].unit;
            i64 from = source(pieces + axes[k].first, axes[k].n_pieces, index);
            is_there = from >= 0;
            there += from;
        }
        if (w.adds) {
            if (is_there) put<T>(w.y, (u64)there, repeated<T>(w, here));
        } else {
            Value x = {0.0, 0.0};
            if (is_there) x = get<T>(w.x, (u64)there);
            put<T>(w.y, i, x);
        }
    }
}

// -- rows -------------------------------------------------------------------------------------------------------------

enum Weighted { ONES, REAL, LISTED };

struct Rows {
    u64 n;        // rows, one for each element that is written
    u64 ends;     // address of where each row ends, u64
    u64 columns;  // address of the place that each entry reads, u32
    u64 weighted; // ONES: every entry is 1.  REAL: a double each.  LISTED: a place among the weights each, u32
    u64 weights;  // address of these
    u64 conj;     // 1: listed weights are conjugated.  2: what is read is, and the result again
    View y, x, w;
};

template <class T> DEVICE void rows(const Rows &w) {
    const u64 *ends = (const u64 *)w.ends;
    const u32 *columns = (const u32 *)w.columns;
    u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < w.n; i += step) {
        Value sum = {0.0, 0.0};
        u64 end = ends[i];
#pragma unroll 1
        for (u64 e = i == 0 ? 0 : ends[i - 1]; e < end; e++) {
            Value x = get<T>(w.x, columns[e]);
            if (w.conj & 2) x.im = -x.im;
            if (w.weighted == REAL) {
                double by = ((const double *)w.weights)[e];
                x = {x.re * by, x.im * by};
            } else if (w.weighted == LISTED) {
                x = times<T>(get<T>(w.w, ((const u32 *)w.weights)[e]), x, w.conj & 1);
            }
            sum.re += x.re, sum.im += x.im;
        }
        if (w.conj & 2) sum.im = -sum.im;
        put<T>(w.y, i, sum);
    }
}

#define ENTRIES(type, T)                                                                                             \
    extern "C" __global__ void spanlift_elementwise_##type(const Elementwise w) { elementwise<T>(w); }               \
    extern "C" __global__ void spanlift_dot_##type(const Elementwise w) { dot<T>(w); }                               \
    extern "C" __global__ void spanlift_move_##type(const Move w) { move<T>(w); }                                    \
    extern "C" __global__ void spanlift_rows_##type(const Rows w) { rows<T>(w); }

ENTRIES(f32, F32)
ENTRIES(f64, F64)
ENTRIES(c32, C32)
ENTRIES(c64, C64)
