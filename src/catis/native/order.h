/* Sorting a few hundred scores: a token's place is how many come before it. No branches, and ties go by index. */
#ifndef CATIS_ORDER_H
#define CATIS_ORDER_H

#include "lanes.h"

/* A float as an integer of the same order; NaN is below everything, -0 and 0 are the same. */
INLINE int64_t rank_key(float value) {
    int32_t bits;
    value += 0.0f;
    if (value != value) return INT32_MIN;
    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? (int64_t)INT32_MIN - bits : bits;
}

/* Indices of `values` in descending (or ascending) order; `keys` has room for `count`. */
INLINE void order(const float *values, int64_t count, int descending, int64_t *keys, int64_t *indices) {
    for (int64_t i = 0; i < count; i++) {
        int64_t key = rank_key(values[i]);
        keys[i] = (descending ? -key : key) * ((int64_t)1 << 31) + i; /* all different */
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t place = 0, key = keys[i];
        for (int64_t j = 0; j < count; j++) place += keys[j] < key;
        indices[place] = i;
    }
}

/* Who is left when the first r of a side's ranking are gone: in token order, or as ranked. `gone` has room for all. */
INLINE void survivors(const int64_t *ranked, int64_t count, int64_t r, int in_token_order, int64_t *gone, int64_t *left) {
    if (!in_token_order) {
        memcpy(left, ranked + r, (count - r) * sizeof *left);
        return;
    }
    memset(gone, 0, count * sizeof *gone);
    for (int64_t t = 0; t < r; t++) gone[ranked[t]] = 1;
    for (int64_t i = 0; i < count; i++)
        if (!gone[i]) *left++ = i;
}

#endif
