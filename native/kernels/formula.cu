// The formulas of programs over strided regions: what `Compute::apply` of the package `spanlift` means, on a device.
//
// One kernel for every type and formula. Elements are counted in the order of a region's bytes and may lie across its
// runs, so that a byte of an element is found from its number. Arithmetic is in double precision without fused
// multiply-add, integers saturate, floats round to nearest even. Not-a-numbers come out as not-a-numbers, of any bits.
//
// Compiled by `build` into formula.ptx. It is plain C as well: with SPANLIFT_HOST it is a program that tests compare.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#ifdef SPANLIFT_HOST
#include <stdio.h>
#include <stdlib.h>
#define DEVICE static
#define RARE static
#define HIGH(a, b) ((i64)(((__int128)(a) * (b)) >> 64))
#define UNROLL
static inline u64 bits_of(double v) { u64 b; __builtin_memcpy(&b, &v, 8); return b; }
static inline double of_bits(u64 b) { double v; __builtin_memcpy(&v, &b, 8); return v; }
static inline u32 bits_of_f(float v) { u32 b; __builtin_memcpy(&b, &v, 4); return b; }
static inline float of_bits_f(u32 b) { float v; __builtin_memcpy(&v, &b, 4); return v; }
#else
#define DEVICE static __device__ __forceinline__
#define RARE static __device__ __noinline__
#define HIGH(a, b) __mul64hi(a, b)
#define UNROLL _Pragma("unroll")
DEVICE u64 bits_of(double v) { return (u64)__double_as_longlong(v); }
DEVICE double of_bits(u64 b) { return __longlong_as_double((i64)b); }
DEVICE u32 bits_of_f(float v) { return __float_as_uint(v); }
DEVICE float of_bits_f(u32 b) { return __uint_as_float(b); }
#endif

#define MAX_RANK 8

// The bytes of a region in their order: byte p lies in run p / elem, and runs are counted with the last dimension fastest.
typedef struct {
    u64 base; // address of the first byte of the first run
    i64 elem; // bytes of a run
    i64 rank;
    i64 count[MAX_RANK];
    i64 stride[MAX_RANK];
} View;

// Every field is a word of 8 bytes.
typedef struct {
    u64 dtype; // 0 u8, 1 i8, 2 i16, 3 i32, 4 i64, 5 f16, 6 bf16, 7 f32, 8 f64, 9 complex of f32, 10 complex of f64
    u64 func;  // 0 y = mul, 1 y = mul a + add, 2 y = a b, 3 y = conj(a) b, 4 y = a + b
    u64 n;     // elements
    double mul;
    double add;
    View y, a, b;
} Formula;

typedef struct {
    i64 n; // of an integer type
    double re, im;
} Element;

// A byte of the first run, where no number is divided: all bytes of what lies in a row.
DEVICE int is_first(const View *v, u64 p, u32 n) { return p + n <= (u64)v->elem; }

RARE u8 *far_place(const View *v, u64 p) {
    u64 run = p / (u64)v->elem;
    u64 at = v->base + p % (u64)v->elem;
    for (i64 k = v->rank - 1; k >= 0; k--) {
        at += (u64)((i64)(run % (u64)v->count[k]) * v->stride[k]);
        run /= (u64)v->count[k];
    }
    return (u8 *)at;
}

DEVICE u8 *place(const View *v, u64 p) { return is_first(v, p, 1) ? (u8 *)(v->base + p) : far_place(v, p); }

DEVICE u32 size_of(u64 dtype) {
    switch (dtype) {
    case 0: case 1: return 1;
    case 2: case 5: case 6: return 2;
    case 3: case 7: return 4;
    case 4: case 8: case 9: return 8;
    default: return 16;
    }
}

// The first or the second word of element i: at most 8 bytes.
DEVICE u64 load(const View *v, u64 p, u32 n) {
    u64 word = 0;
    const u8 *at = place(v, p);
    if (is_first(v, p, n) || p % (u64)v->elem + n <= (u64)v->elem) {
        if ((u64)at % n == 0) {
            switch (n) {
            case 8: return *(const u64 *)at;
            case 4: return *(const u32 *)at;
            case 2: return *(const u16 *)at;
            }
        }
        for (u32 k = 0; k < n; k++) word |= (u64)at[k] << 8 * k;
        return word;
    }
    for (u32 k = 0; k < n; k++) word |= (u64)*place(v, p + k) << 8 * k;
    return word;
}

DEVICE void store(const View *v, u64 p, u32 n, u64 word) {
    u8 *at = place(v, p);
    if (is_first(v, p, n) || p % (u64)v->elem + n <= (u64)v->elem) {
        if ((u64)at % n == 0) {
            switch (n) {
            case 8: *(u64 *)at = word; return;
            case 4: *(u32 *)at = (u32)word; return;
            case 2: *(u16 *)at = (u16)word; return;
            }
        }
        for (u32 k = 0; k < n; k++) at[k] = (u8)(word >> 8 * k);
        return;
    }
    for (u32 k = 0; k < n; k++) *place(v, p + k) = (u8)(word >> 8 * k);
}

// Bits of not-a-number are kept as far as they fit, as processors do.
DEVICE double widen(u32 b) {
    if ((b & 0x7fffffffu) > 0x7f800000u)
        return of_bits((u64)(b >> 31) << 63 | 0x7ff8000000000000ull | (u64)(b & 0x7fffffu) << 29);
    return (double)of_bits_f(b);
}

DEVICE u32 narrow(double v) {
    u64 b = bits_of(v);
    if ((b & 0x7fffffffffffffffull) > 0x7ff0000000000000ull)
        return (u32)(b >> 63) << 31 | 0x7fc00000u | (u32)(b >> 29 & 0x3fffffu);
    return bits_of_f((float)v);
}

DEVICE double power_of_two(int e) { return of_bits((u64)(e + 1023) << 52); }

// A float of 16 bits with `exponent` bits of exponent and `mantissa` of mantissa.
RARE double small_decode(u32 b, int exponent, int mantissa) {
    int bias = (1 << (exponent - 1)) - 1, e_max = (1 << exponent) - 1;
    int e = (int)(b >> mantissa) & e_max, m = (int)b & ((1 << mantissa) - 1);
    double fraction = (double)m / (double)(1 << mantissa);
    u64 sign = (u64)(b >> 15 & 1) << 63;
    double v;
    if (e == e_max) v = of_bits(m ? 0x7ff8000000000000ull : 0x7ff0000000000000ull);
    else if (e == 0) v = fraction * power_of_two(1 - bias);
    else v = (1.0 + fraction) * power_of_two(e - bias);
    return of_bits(bits_of(v) | sign);
}

RARE u32 small_encode(double v, int exponent, int mantissa) {
    int bias = (1 << (exponent - 1)) - 1;
    u64 b = bits_of(v);
    u32 sign = (u32)(b >> 63) << 15, infinity = ((1u << exponent) - 1) << mantissa;
    if ((b & 0x7fffffffffffffffull) > 0x7ff0000000000000ull) return sign | infinity | 1u << (mantissa - 1);
    int e = (int)(b >> 52 & 0x7ff) - 1023;
    if (e > bias) return sign | infinity;
    u64 significand = (b & ((1ull << 52) - 1)) | 1ull << 52;
    int least = 1 - bias; // below, the last place stays where it is there
    int shift = 52 - mantissa + (least > e ? least - e : 0);
    if (shift > 60) return sign;
    u64 kept = significand >> shift, rest = significand & ((1ull << shift) - 1), half = 1ull << (shift - 1);
    u64 up = rest > half || (rest == half && (kept & 1));
    u64 word = ((u64)((e > least ? e : least) + bias - 1) << mantissa) + kept + up;
    return sign | (u32)(word < infinity ? word : infinity);
}

DEVICE i64 saturated(double v) {
    if (v != v) return 0;
    if (v >= 9223372036854775808.0) return 0x7fffffffffffffffll;
    if (v < -9223372036854775808.0) return -0x7fffffffffffffffll - 1;
    return (i64)v;
}

DEVICE i64 clamped(i64 n, i64 lo, i64 hi) { return n < lo ? lo : n > hi ? hi : n; }

DEVICE i64 sum(i64 a, i64 b) {
    i64 s = (i64)((u64)a + (u64)b);
    if (((a ^ s) & (b ^ s)) < 0) return a < 0 ? -0x7fffffffffffffffll - 1 : 0x7fffffffffffffffll;
    return s;
}

DEVICE i64 product(i64 a, i64 b) {
    i64 low = (i64)((u64)a * (u64)b), high = HIGH(a, b);
    if (high == low >> 63) return low;
    return (a < 0) != (b < 0) ? -0x7fffffffffffffffll - 1 : 0x7fffffffffffffffll;
}

DEVICE Element decode(u64 dtype, u64 w0, u64 w1) {
    Element e = {0, 0.0, 0.0};
    switch (dtype) {
    case 0: e.n = (u8)w0; break;
    case 1: e.n = (signed char)w0; break;
    case 2: e.n = (short)w0; break;
    case 3: e.n = (int)w0; break;
    case 4: e.n = (i64)w0; break;
    case 5: e.re = small_decode((u32)w0, 5, 10); break;
    case 6: e.re = small_decode((u32)w0, 8, 7); break;
    case 7: e.re = widen((u32)w0); break;
    case 8: e.re = of_bits(w0); break;
    case 9: e.re = widen((u32)w0); e.im = widen((u32)(w0 >> 32)); break;
    default: e.re = of_bits(w0); e.im = of_bits(w1); break;
    }
    if (dtype <= 4) e.re = (double)e.n;
    return e;
}

DEVICE u64 encode_int(u64 dtype, i64 n) {
    switch (dtype) {
    case 0: return (u64)clamped(n, 0, 255);
    case 1: return (u64)clamped(n, -128, 127);
    case 2: return (u64)clamped(n, -32768, 32767);
    case 3: return (u64)clamped(n, -2147483647 - 1, 2147483647);
    default: return (u64)n;
    }
}

DEVICE u64 encode(u64 dtype, Element e) {
    switch (dtype) {
    case 5: return small_encode(e.re, 5, 10);
    case 6: return small_encode(e.re, 8, 7);
    case 7: return narrow(e.re);
    case 9: return (u64)narrow(e.re) | (u64)narrow(e.im) << 32;
    default: return bits_of(e.re);
    }
}

DEVICE Element apply(u64 func, double mul, double add, u64 dtype, Element a, Element b) {
    Element y = {0, 0.0, 0.0};
    int is_complex = dtype >= 9;
    switch (func) {
    case 0: y.re = mul; break;
    case 1: y.re = mul * a.re + add; if (is_complex) y.im = mul * a.im; break;
    case 4: y.re = a.re + b.re; y.im = a.im + b.im; break;
    default:
        if (!is_complex) y.re = a.re * b.re;
        else {
            double im = func == 3 ? -a.im : a.im;
            y.re = a.re * b.re - im * b.im;
            y.im = a.re * b.im + im * b.re;
        }
    }
    if (dtype <= 4) y.n = func <= 1 ? saturated(y.re) : func == 4 ? sum(a.n, b.n) : product(a.n, b.n);
    return y;
}

DEVICE void element(const Formula *f, u64 i) {
    u32 size = size_of(f->dtype), n = size < 8 ? size : 8;
    u64 p = i * size, a[2] = {0, 0}, b[2] = {0, 0};
    if (f->func != 0)
        for (u32 k = 0; k * 8 < size; k++) a[k] = load(&f->a, p + k * 8, n);
    if (f->func >= 2)
        for (u32 k = 0; k * 8 < size; k++) b[k] = load(&f->b, p + k * 8, n);
    Element left = decode(f->dtype, a[0], a[1]), right = decode(f->dtype, b[0], b[1]);
    Element y = apply(f->func, f->mul, f->add, f->dtype, left, right);
    store(&f->y, p, n, f->dtype <= 4 ? encode_int(f->dtype, y.n) : encode(f->dtype, y));
    if (size == 16) store(&f->y, p + 8, 8, bits_of(y.im));
}

// Whether all elements of a view lie one behind the other, each at a multiple of its parts.
DEVICE int is_row(const View *v, u64 n, u32 size) {
    return n * size <= (u64)v->elem && v->base % (size < 8 ? size : 8) == 0;
}

// What rows need of a formula, in registers: out of the formula itself it would be read anew behind every store.
typedef struct {
    u64 func;
    double mul, add;
    u64 y, a, b;
} Rows;

// As many elements of a type as a thread has under way at once: with fewer the device's memory waits for threads.
#define MANY(dtype) (size_of(dtype) == 16 ? 2 : 4)

// Elements i, i + step, ... of rows, of a type that is known when this is compiled: nothing but their own arithmetic is left
// of them. All are loaded before the first is computed.
DEVICE void in_rows(Rows r, u64 dtype, u64 i, u64 step, u32 many) {
    u32 size = size_of(dtype), parts = size == 16 ? 2 : 1;
    u64 a[4][2] = {{0}}, b[4][2] = {{0}};
    UNROLL for (u32 k = 0; k < many; k++) {
        UNROLL for (u32 p = 0; p < parts; p++) {
            u64 at = (i + k * step) * parts + p;
            if (r.func != 0) a[k][p] = size == 4 ? ((const u32 *)r.a)[at] : ((const u64 *)r.a)[at];
            if (r.func >= 2) b[k][p] = size == 4 ? ((const u32 *)r.b)[at] : ((const u64 *)r.b)[at];
        }
    }
    UNROLL for (u32 k = 0; k < many; k++) {
        Element left = decode(dtype, a[k][0], a[k][1]), right = decode(dtype, b[k][0], b[k][1]);
        Element y = apply(r.func, r.mul, r.add, dtype, left, right);
        u64 at = (i + k * step) * parts, word = dtype <= 4 ? encode_int(dtype, y.n) : encode(dtype, y);
        if (size == 4) ((u32 *)r.y)[at] = (u32)word;
        else ((u64 *)r.y)[at] = word;
        if (size == 16) ((u64 *)r.y)[at + 1] = bits_of(y.im);
    }
}

// Every `step`th element from the `first` on.
DEVICE void elements(const Formula *f, u64 first, u64 step) {
    u32 size = size_of(f->dtype);
    int rows = is_row(&f->y, f->n, size) && (f->func < 1 || is_row(&f->a, f->n, size)) &&
               (f->func < 2 || is_row(&f->b, f->n, size));
    Rows r = {f->func, f->mul, f->add, f->y.base, f->a.base, f->b.base};
    u64 i = first, n = f->n;
#define LOOPS(dtype, r)                                                                                                  \
    for (; i + (MANY(dtype) - 1) * step < n; i += MANY(dtype) * step) in_rows(r, dtype, i, step, MANY(dtype));            \
    for (; i < n; i += step) in_rows(r, dtype, i, step, 1);                                                               \
    return
    // The one formula of one operand by itself: nothing of a second one is left in its loops.
    Rows affine = r;
    affine.func = 1;
#define ROWS(dtype)                                                                                                      \
    case dtype:                                                                                                          \
        if (r.func == 1) { LOOPS(dtype, affine); }                                                                        \
        LOOPS(dtype, r)
    switch (rows ? f->dtype : 0) {
        ROWS(3);
        ROWS(4);
        ROWS(7);
        ROWS(8);
        ROWS(9);
        ROWS(10);
    }
    for (; i < n; i += step) element(f, i);
}

#ifdef SPANLIFT_HOST
// Reads formulas, each followed by the number of bytes of a block and the block, to which their addresses are relative;
// writes each block after its formula.
int main(void) {
    Formula f;
    u64 n;
    while (fread(&f, sizeof f, 1, stdin) == 1 && fread(&n, sizeof n, 1, stdin) == 1) {
        u8 *block = malloc(n + 16);
        if (!block || fread(block, 1, n, stdin) != n) return 1;
        f.y.base += (u64)block, f.a.base += (u64)block, f.b.base += (u64)block;
        elements(&f, 0, 1);
        fwrite(block, 1, n, stdout);
        free(block);
    }
    return 0;
}
#else
// Blocks are of 256 threads, as who launches it has them; four of them share a multiprocessor, so that each has registers for
// its loads.
// The parameter is read where it lies: taking its address would copy it into each thread's memory otherwise.
extern "C" __global__ void __launch_bounds__(256, 4) spanlift_formula(const __grid_constant__ Formula f) {
    elements(&f, (u64)blockIdx.x * blockDim.x + threadIdx.x, (u64)gridDim.x * blockDim.x);
}
#endif
