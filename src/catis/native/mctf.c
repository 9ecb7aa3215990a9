/* MCTF: pairs by three criteria, matched both ways (docs/methods.md); twin of MCTF.fuse in methods/mctf.py. */
#include "kernels.h"
#include "keys.h"
#include "order.h"
#include "room.h"

typedef struct {
    int64_t first, size_a, size_b;
    float *unit, *panels, *scores, *factor, *best; /* scores (A, B), padded rows */
    int64_t *place, *keys, *ranked, *slot, *back;
} image_t;

INLINE image_t lay_out(const mctf_t *in, room_t *room) {
    const int64_t patches = in->n.patches, channels = in->n.channels;
    image_t at = {.first = in->prefix % 2};
    at.size_b = (patches + at.first) / 2, at.size_a = patches - at.size_b;
    at.unit = take_floats(room, patches * channels);
    at.panels = take_floats(room, PADDED(at.size_b) * channels);
    at.scores = take_floats(room, at.size_a * PADDED(at.size_b));
    at.factor = take_floats(room, patches);
    at.best = take_floats(room, patches);
    at.place = take_indices(room, patches);
    at.keys = take_indices(room, patches);
    at.ranked = take_indices(room, patches);
    at.slot = take_indices(room, patches);
    at.back = take_indices(room, patches);
    return at;
}

/* Weights of the pooling, and attention^(-1/tau) * size^(-1/tau): W_info and W_size. */
INLINE void weigh(const mctf_t *in, int64_t image, image_t at) {
    const int64_t patches = in->n.patches;
    const float *received = in->received + image * patches, *size = in->size ? in->size + image * patches : 0;
    float *weight = in->weight + image * patches;
    for (int64_t t = 0; t < in->n.patches; t++) {
        weight[t] = received[t] * (size ? size[t] : 1.0f);
        weight[t] = weight[t] < TINY ? TINY : weight[t]; /* a group that nobody attends to is averaged evenly */
        at.factor[t] = in->info ? powf(received[t] < TINY ? TINY : received[t], in->info) : 1.0f;
        at.factor[t] *= in->small && size ? powf(size[t] < TINY ? TINY : size[t], in->small) : 1.0f;
    }
}

/* (A, B) W_sim * W_info * W_size. */
INLINE void score_pairs(const mctf_t *in, int64_t image, image_t at) {
    const int64_t width = in->n.channels, padded = PADDED(at.size_b);
    const float *residual = in->residual + (image * in->n.tokens + in->prefix) * width, *row[ROWS];
    const float half = in->similar ? 0.5f : 0.0f, rest = 1.0f - half; /* W_sim is (cosine + 1) / 2, or 1 */
    float found[ROWS][LANES], factor[LANES];
    for (int64_t t = 0; t < in->n.patches; t++) {
        const float length = sqrtf(dot(residual + t * width, residual + t * width, width));
        const float inverse = 1.0f / (length < TINY ? TINY : length);
        for (int64_t c = 0; c < width; c++) at.unit[t * width + c] = residual[t * width + c] * inverse;
    }
    pack(at.unit + (1 - at.first) * width, 2 * width, 0, at.size_b, width, at.panels);
    for (int64_t column = 0; column < at.size_b; column += LANES) {
        for (int64_t lane = 0; lane < LANES; lane++)
            factor[lane] = column + lane < at.size_b ? at.factor[2 * (column + lane) + 1 - at.first] : 0.0f;
        for (int64_t first = 0; first < at.size_a; first += ROWS) {
            six_rows(at.unit + at.first * width, 2 * width, 0, first, at.size_a, row);
            products(row, at.panels + column * width, width, found);
            for (int64_t i = 0; i < ROWS && first + i < at.size_a; i++) {
                const float own = at.factor[2 * (first + i) + at.first];
                float *to = at.scores + (first + i) * padded + column;
                for (int lane = 0; lane < LANES; lane++)
                    to[lane] = (found[i][lane] * half + rest) * own * factor[lane];
            }
        }
    }
}

/* The highest of a padded row, and its place: the earlier one of equals. */
INLINE void best_of_row(const float *row, int64_t count, float *score, int64_t *place) {
    best_t best;
    for (int lane = 0; lane < LANES; lane++) best.score[lane] = -INFINITY, best.place[lane] = 0;
    for (int64_t column = 0; column < count; column += LANES) keep_better(&best, row + column, column, count);
    highest(&best, score, place);
}

/* For up to sixteen columns, the highest of the rows `index`, and which of them it is: the earlier one of equals. */
INLINE void best_rows(const float *scores, int64_t stride, const int64_t *index, int64_t count, int64_t columns,
                      float *score, int64_t *place) {
    float best[LANES];
    int32_t where[LANES] = {0};
    for (int lane = 0; lane < LANES; lane++) best[lane] = -INFINITY;
    for (int32_t i = 0; i < (int32_t)count; i++) {
        const float *row = scores + index[i] * stride;
        for (int lane = 0; lane < LANES; lane++) {
            const int better = row[lane] > best[lane];
            best[lane] = better ? row[lane] : best[lane], where[lane] = better ? i : where[lane];
        }
    }
    for (int64_t lane = 0; lane < LANES && lane < columns; lane++) score[lane] = best[lane], place[lane] = where[lane];
}

/* A gives its r1 best edges to B, then B its r2 best to the surviving A; order is [surviving A, surviving B]. */
INLINE void match_both_ways(const mctf_t *in, int64_t b, image_t at) {
    const int64_t padded = PADDED(at.size_b), r = in->n.gone, r1 = in->first, r2 = r - r1, stay = at.size_a - r1;
    int64_t *keep = in->keep + b * in->n.kept, *removed = in->removed + b * r, *target = in->target + b * r;
    int64_t *survivor = at.keys;
    for (int64_t a = 0; a < at.size_a; a++) best_of_row(at.scores + a * padded, at.size_b, at.best + a, at.place + a);
    order(at.best, at.size_a, 1, at.keys, at.ranked);
    for (int64_t t = 0; t < r1; t++) removed[t] = at.ranked[t], target[t] = at.place[at.ranked[t]];
    survivors(at.ranked, at.size_a, r1, in->prefix > 0, at.slot, survivor); /* ToMe's order */
    for (int64_t a = 0; a < stay; a++) keep[a] = 2 * survivor[a] + at.first;
    for (int64_t column = 0; r2 && column < at.size_b; column += LANES)
        best_rows(at.scores + column, padded, survivor, stay, at.size_b - column, at.best + column, at.back + column);
    for (int64_t t = 0; t < at.size_b; t++) at.ranked[t] = t;
    if (r2) order(at.best, at.size_b, 1, at.keys, at.ranked);
    for (int64_t t = 0; t < r2; t++) {
        const int64_t source = at.ranked[t];
        removed[r1 + t] = 2 * source + 1 - at.first, target[r1 + t] = at.slot[source] = at.back[source];
    }
    for (int64_t t = r2; t < at.size_b; t++) {
        at.slot[at.ranked[t]] = stay + t - r2;
        keep[stay + t - r2] = 2 * at.ranked[t] + 1 - at.first;
    }
    for (int64_t t = 0; t < r1; t++) removed[t] = 2 * removed[t] + at.first, target[t] = at.slot[target[t]];
}

HOT static void decide_image(const mctf_t *in, int64_t b, image_t at) {
    weigh(in, b, at);
    score_pairs(in, b, at);
    match_both_ways(in, b, at);
}

int decide_mctf(const mctf_t *in, int threads) {
    const int64_t workers = workers_for(in->n.batch, threads);
    room_t count = {0};
    lay_out(in, &count);
    char *block = malloc((size_t)workers * count.used);
    if (!block) return NO_MEMORY;
#pragma omp parallel for num_threads((int)workers) if (workers > 1)
    for (int64_t w = 0; w < workers; w++) {
        room_t room = room_of(block, count.used, w);
        const image_t at = lay_out(in, &room);
        for (int64_t b = w; b < in->n.batch; b += workers) decide_image(in, b, at);
    }
    free(block);
    return 0;
}
