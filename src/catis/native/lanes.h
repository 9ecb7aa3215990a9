/* Sixteen floats at a time, as plain loops of sixteen that compilers turn into vector instructions. */
#ifndef CATIS_LANES_H
#define CATIS_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define TINY 1.17549435e-38f /* smallest normal float: what stands in for zero under a division */
#if defined(_MSC_VER)
#define INLINE static __forceinline
#else
#define INLINE static inline __attribute__((always_inline))
#endif
#define PADDED(n) (((n) + LANES - 1) / LANES * LANES)

/* One build runs everywhere and uses what the processor has: the loader picks a clone of each HOT function. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && !defined(CATIS_NO_CLONES)
#define HOT __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HOT
#endif

/* The next loop's rounds do not depend on each other. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

INLINE float sum_of(float part[LANES]) {
    for (int half = LANES / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++) part[lane] += part[lane + half];
    return part[0];
}

INLINE float dot(const float *a, const float *b, int64_t count) {
    float part[LANES] = {0};
    int64_t at = 0;
    for (; at + LANES <= count; at += LANES)
        for (int lane = 0; lane < LANES; lane++) part[lane] += a[at + lane] * b[at + lane];
    for (; at < count; at++) part[0] += a[at] * b[at];
    return sum_of(part);
}

/* e^x to about 1e-7, NaN for NaN: x = n ln 2 + rest, a polynomial for the rest, n into the exponent. */
INLINE float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    float shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the sum is rounded to an integer */
    float n = shifted - 12582912.0f, rest = x - n * 0.693359375f + n * 2.12194440e-4f, scale;
    float p = 1.9875691500e-4f;
    p = p * rest + 1.3981999507e-3f;
    p = p * rest + 8.3334519073e-3f;
    p = p * rest + 4.1665795894e-2f;
    p = p * rest + 1.6666665459e-1f;
    p = p * rest + 5.0000001201e-1f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4B400000u + 127u) << 23;
    memcpy(&scale, &bits, sizeof scale);
    return (p * rest * rest + rest + 1.0f) * scale;
}

#endif
