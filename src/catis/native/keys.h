/* Keys of unit length, and who is most similar to whom: tokens are rows, compared six by sixteen at a time. */
#ifndef CATIS_KEYS_H
#define CATIS_KEYS_H

#include "kernels.h"
#include "lanes.h"

#define ROWS 6

/* A vector times 1 / its length, from `from` to `to`; a zero vector stays zero, similar to nothing. */
INLINE void to_unit(const float *from, int64_t width, float *to) {
    const float length = sqrtf(dot(from, from, width)), inverse = 1.0f / (length < TINY ? TINY : length);
    for (int64_t k = 0; k < width; k++) to[k] = from[k] * inverse;
}

/* (N_p, d) keys of one image, summed over heads, at unit length. */
INLINE void unit_keys(const call_t *in, float *unit) {
    const heads_t key = in->content_key;
    const int64_t width = in->n.width;
    for (int64_t token = in->prefix; token < in->n.tokens; token++, unit += width) {
        const float *from = key.data + token * key.token;
        memcpy(unit, from, width * sizeof *unit);
        for (int64_t head = 1; head < in->n.content_heads; head++)
            for (int64_t k = 0; k < width; k++) unit[k] += from[head * key.head + k];
        to_unit(unit, width, unit);
    }
}

/* Rows `index` (all when NULL) as panels of sixteen columns, [panel][k][lane]: what `products` reads in order. */
INLINE void pack(const float *rows, int64_t stride, const int64_t *index, int64_t count, int64_t width, float *panels) {
    for (int64_t column = 0; column < PADDED(count); column++) {
        float *to = panels + column / LANES * LANES * width + column % LANES;
        const float *from = column < count ? rows + (index ? index[column] : column) * stride : 0;
        for (int64_t k = 0; k < width; k++) to[k * LANES] = from ? from[k] : 0.0f;
    }
}

/* Six rows times one panel. */
INLINE void products(const float *const row[ROWS], const float *panel, int64_t width, float found[ROWS][LANES]) {
    float a[LANES] = {0}, b[LANES] = {0}, c[LANES] = {0}, d[LANES] = {0}, e[LANES] = {0}, f[LANES] = {0};
    for (int64_t k = 0; k < width; k++, panel += LANES) {
        const float u = row[0][k], v = row[1][k], w = row[2][k], x = row[3][k], y = row[4][k], z = row[5][k];
INDEPENDENT
        for (int lane = 0; lane < LANES; lane++) {
            a[lane] += panel[lane] * u, b[lane] += panel[lane] * v, c[lane] += panel[lane] * w;
            d[lane] += panel[lane] * x, e[lane] += panel[lane] * y, f[lane] += panel[lane] * z;
        }
    }
    memcpy(found[0], a, sizeof a), memcpy(found[1], b, sizeof a), memcpy(found[2], c, sizeof a);
    memcpy(found[3], d, sizeof a), memcpy(found[4], e, sizeof a), memcpy(found[5], f, sizeof a);
}

/* Six consecutive rows from `first`; beyond the end the last one again, whose results nobody reads. */
INLINE void six_rows(const float *rows, int64_t stride, const int64_t *index, int64_t first, int64_t count,
                     const float *row[ROWS]) {
    for (int64_t i = 0; i < ROWS; i++) {
        int64_t at = first + i < count ? first + i : count - 1;
        row[i] = rows + (index ? index[at] : at) * stride;
    }
}

/* Best column so far of each lane, for one row. */
typedef struct {
    float score[LANES];
    int32_t place[LANES];
} best_t;

INLINE best_t no_best(void) {
    best_t best = {{0}, {0}};
    for (int lane = 0; lane < LANES; lane++) best.score[lane] = -INFINITY;
    return best;
}

INLINE void keep_better(best_t *best, const float *found, int64_t column, int64_t columns) {
    for (int32_t lane = 0; lane < LANES; lane++) {
        int better = found[lane] > best->score[lane] && column + lane < columns;
        best->score[lane] = better ? found[lane] : best->score[lane];
        best->place[lane] = better ? (int32_t)column + lane : best->place[lane];
    }
}

/* Highest of the lanes, the earlier column of equals. */
INLINE void highest(const best_t *best, float *score, int64_t *place) {
    float top = best->score[0];
    for (int lane = 1; lane < LANES; lane++) top = best->score[lane] > top ? best->score[lane] : top;
    int32_t at = INT32_MAX;
    for (int lane = 0; lane < LANES; lane++) {
        int32_t here = best->score[lane] == top ? best->place[lane] : INT32_MAX;
        at = here < at ? here : at;
    }
    *score = top, *place = at;
}

/* Each row's best column: its similarity and its number. */
INLINE void best_columns(const float *rows, int64_t stride, const int64_t *index, int64_t count, const float *panels,
                         int64_t columns, int64_t width, float *score, int64_t *place) {
    for (int64_t first = 0; first < count; first += ROWS) {
        const float *row[ROWS];
        best_t best[ROWS];
        float found[ROWS][LANES];
        six_rows(rows, stride, index, first, count, row);
        for (int i = 0; i < ROWS; i++) best[i] = no_best();
        for (int64_t column = 0; column < columns; column += LANES) {
            products(row, panels + column * width, width, found);
            for (int i = 0; i < ROWS; i++) keep_better(best + i, found[i], column, columns);
        }
        for (int64_t i = 0; i < ROWS && first + i < count; i++) highest(best + i, score + first + i, place + first + i);
    }
}

#endif
