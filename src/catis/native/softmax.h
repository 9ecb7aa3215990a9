/* Rows of attention: softmax of logits, added up over rows. */
#ifndef CATIS_SOFTMAX_H
#define CATIS_SOFTMAX_H

#include "lanes.h"

/* One row of softmax of (padded) logits, added to `received`. */
INLINE void add_softmax(float *restrict row, int64_t tokens, float *restrict received) {
    const int64_t padded = PADDED(tokens);
    float top[LANES], total[LANES] = {0};
    for (int64_t t = tokens; t < padded; t++) row[t] = -INFINITY;
    memcpy(top, row, sizeof top);
    for (int64_t t = LANES; t < padded; t += LANES)
        for (int lane = 0; lane < LANES; lane++) top[lane] = row[t + lane] > top[lane] ? row[t + lane] : top[lane];
    for (int half = LANES / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++) top[lane] = top[lane + half] > top[lane] ? top[lane + half] : top[lane];
    const float highest = top[0];
    for (int64_t t = 0; t < padded; t++) row[t] = exponential(row[t] - highest);
    for (int64_t t = 0; t < padded; t += LANES)
        for (int lane = 0; lane < LANES; lane++) total[lane] += row[t + lane];
    const float share = 1.0f / sum_of(total);
    for (int64_t t = 0; t < padded; t++) received[t] += row[t] * share;
}

#endif
