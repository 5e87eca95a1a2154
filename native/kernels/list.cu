// Copies a list of pieces within a device: what one call of the driver each would do, for pieces that are shorter than the call.
//
// A warp has a piece at a time, so that short ones take no more than a warp and none waits for another; long ones stand in the
// list in parts (`cuda::Table`), which balances them. Bytes move in units of 16 where both ends lie alike within 16 bytes, else
// of 8, 4, 2 or 1; what is before the first whole unit and behind the last goes byte by byte. Nothing beside a piece is touched.
// The list lies in page-locked memory, and is read once: an entry is a sector of 32 bytes.
//
// Compiled by `build` into list.ptx. It is plain C as well: with SPANLIFT_HOST it is a program that tests compare.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef SPANLIFT_HOST
#include <stdio.h>
#include <stdlib.h>
#define DEVICE static
#define ONCE
#else
#define DEVICE static __device__ __forceinline__
#define ONCE _Pragma("unroll 1")
#endif

// Threads of a warp.
#define LANES 32

typedef struct __attribute__((aligned(16))) {
    u64 low, high;
} u128;

// An entry of the list.
typedef struct __attribute__((aligned(32))) {
    u64 to, from; // addresses; none of the list's destinations meets another one, or a source
    u64 n;        // bytes, fewer than 2^32
    u64 unused;
} Piece;

// This lane's units of a row: every `LANES`th, four of them under way at a time.
#define ROW(T)                                                                        \
    {                                                                                 \
        T *y = (T *)to;                                                               \
        const T *x = (const T *)from;                                                 \
        u32 rows = n / sizeof(T), i = lane;                                           \
        ONCE for (; i + 3 * LANES < rows; i += 4 * LANES) {                           \
            T a = x[i], b = x[i + LANES], c = x[i + 2 * LANES], d = x[i + 3 * LANES]; \
            y[i] = a, y[i + LANES] = b, y[i + 2 * LANES] = c, y[i + 3 * LANES] = d;   \
        }                                                                             \
        ONCE for (; i < rows; i += LANES) y[i] = x[i];                                \
    }

// One lane's part of a piece.
DEVICE void copied(u64 to, u64 from, u32 n, u32 lane) {
    u32 apart = (u32)(to ^ from) & 15;
    u32 unit = apart == 0 ? 16 : apart & (0 - apart); // the largest power of two by which both ends lie alike
    u32 head = (0 - (u32)to) & (unit - 1);
    if (n < head) head = n;
    if (lane < head) ((u8 *)to)[lane] = ((const u8 *)from)[lane];
    to += head, from += head, n -= head;
    if (unit == 16) ROW(u128)
    else if (unit == 8) ROW(u64)
    else if (unit == 4) ROW(u32)
    else if (unit == 2) ROW(u16)
    else ROW(u8)
    u32 tail = n & (unit - 1);
    to += n - tail, from += n - tail;
    if (lane < tail) ((u8 *)to)[lane] = ((const u8 *)from)[lane];
}

#ifdef SPANLIFT_HOST
// Reads lists: the number of pieces, of bytes of a block, and where it is to begin within 16 bytes, the pieces, whose addresses are relative
// to the block, and the block; writes each block as its list leaves it.
int main(void) {
    u64 head[3];
    while (fread(head, sizeof head, 1, stdin) == 1) {
        Piece p;
        u64 n = head[0], size = head[1], at = head[2] % 16;
        u64 *list = malloc(n * sizeof p + 1);
        u8 *room = aligned_alloc(16, (size + 47) / 16 * 16), *block = room + at;
        if (!list || !room || fread(list, sizeof p, n, stdin) != n || fread(block, 1, size, stdin) != size) return 1;
        for (u64 k = 0; k < n; k++)
            for (u32 lane = 0; lane < LANES; lane++)
                copied(list[4 * k] + (u64)block, list[4 * k + 1] + (u64)block, (u32)list[4 * k + 2], lane);
        fwrite(block, 1, size, stdout);
        free(list);
        free(room);
    }
    return 0;
}
#else
// Blocks are of whole warps, at most 256 threads; of those several share a multiprocessor, so that enough loads are under way.
extern "C" __global__ void __launch_bounds__(256, 6) spanlift_list(const Piece *list, u64 n) {
    u32 lane = threadIdx.x % LANES;
    u64 warps = (u64)gridDim.x * (blockDim.x / LANES);
    for (u64 k = (u64)blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES; k < n; k += warps)
        copied(list[k].to, list[k].from, (u32)list[k].n, lane);
}
#endif
