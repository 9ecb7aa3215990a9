/* MCTF: pairs by three criteria, matched both ways (docs/methods.md); twin of MCTF.fuse in methods/mctf.py. */
#include "sides.h"

/* Memory of one image. */
typedef struct {
    float *unit, *panels, *scores, *factor; /* scores (A, B), padded rows */
    int64_t *survivor, *slot, *back;
    sides_t sides;
} image_t;

INLINE image_t lay_out(const call_t *in, room_t *room) {
    const int64_t patches = in->n.patches, channels = in->n.channels, half = patches / 2 + 1;
    image_t at;
    at.unit = take_floats(room, patches * channels);
    at.panels = take_floats(room, PADDED(half) * channels);
    at.scores = take_floats(room, half * PADDED(half));
    at.factor = take_floats(room, patches);
    at.survivor = take_indices(room, patches);
    at.slot = take_indices(room, patches);
    at.back = take_indices(room, patches);
    at.sides = take_sides(room, patches);
    return at;
}

INLINE float power(float base, float exponent) { return powf(base < TINY ? TINY : base, exponent); }

/* Weights of the pooling, and attention^(-1/tau) * size^(-1/tau): W_info and W_size. */
INLINE void weigh(const call_t *in, const image_t *at) {
    for (int64_t t = 0; t < in->n.patches; t++) {
        const float weight = in->received[t] * (in->size ? in->size[t] : 1.0f);
        in->weight[t] = weight < TINY ? TINY : weight; /* a group that nobody attends to is averaged evenly */
        at->factor[t] = in->info ? power(in->received[t], in->info) : 1.0f;
        at->factor[t] *= in->small && in->size ? power(in->size[t], in->small) : 1.0f;
    }
}

/* (A, B) W_sim * W_info * W_size. */
INLINE void score_pairs(const call_t *in, const image_t *at) {
    const sides_t *sides = &at->sides;
    const int64_t width = in->n.channels, padded = PADDED(sides->size_b);
    const float *tokens = in->residual + in->prefix * width, *row[ROWS];
    const float half = in->similar ? 0.5f : 0.0f, rest = 1.0f - half; /* W_sim is (cosine + 1) / 2, or 1 */
    float found[ROWS][LANES], factor[LANES];
    for (int64_t t = 0; t < in->n.patches; t++) to_unit(tokens + t * width, width, at->unit + t * width);
    pack(at->unit, width, sides->side_b, sides->size_b, width, at->panels);
    for (int64_t column = 0; column < sides->size_b; column += LANES) {
        for (int64_t lane = 0; lane < LANES; lane++)
            factor[lane] = column + lane < sides->size_b ? at->factor[sides->side_b[column + lane]] : 0.0f;
        for (int64_t first = 0; first < sides->size_a; first += ROWS) {
            six_rows(at->unit, width, sides->side_a, first, sides->size_a, row);
            products(row, at->panels + column * width, width, found);
            for (int64_t i = 0; i < ROWS && first + i < sides->size_a; i++) {
                const float own = at->factor[sides->side_a[first + i]];
                float *to = at->scores + (first + i) * padded + column;
                for (int lane = 0; lane < LANES; lane++)
                    to[lane] = (found[i][lane] * half + rest) * own * factor[lane];
            }
        }
    }
}

/* Each A token's best B token; the earlier one of equals. */
INLINE void best_of_rows(const image_t *at) {
    const int64_t padded = PADDED(at->sides.size_b);
    for (int64_t a = 0; a < at->sides.size_a; a++) {
        best_t best = no_best();
        for (int64_t column = 0; column < at->sides.size_b; column += LANES)
            keep_better(&best, at->scores + a * padded + column, column, at->sides.size_b);
        highest(&best, at->sides.best + a, at->sides.place + a);
    }
}

/* Each B token's best survivor of A; the earlier one of equals. */
INLINE void best_of_columns(const image_t *at, int64_t stay) {
    const int64_t count = at->sides.size_b, padded = PADDED(count);
    for (int64_t column = 0; column < count; column += LANES) {
        best_t best = no_best();
        for (int32_t i = 0; i < (int32_t)stay; i++) {
            const float *row = at->scores + at->survivor[i] * padded + column;
            for (int lane = 0; lane < LANES; lane++) {
                const int better = row[lane] > best.score[lane];
                best.score[lane] = better ? row[lane] : best.score[lane], best.place[lane] = better ? i : best.place[lane];
            }
        }
        for (int64_t lane = 0; lane < LANES && column + lane < count; lane++)
            at->sides.best[column + lane] = best.score[lane], at->back[column + lane] = best.place[lane];
    }
}

/* A gives its r1 best edges to B, then B its r2 best to the surviving A; order is [surviving A, surviving B]. */
INLINE void match_both_ways(const call_t *in, const image_t *at) {
    const sides_t *sides = &at->sides;
    const int64_t size_b = sides->size_b, r1 = in->first, r2 = in->n.gone - r1, stay = sides->size_a - r1;
    int64_t *edges = sides->ranked, *target = in->target;
    best_of_rows(at);
    order(sides->best, sides->size_a, 1, sides->keys, edges);
    for (int64_t t = 0; t < r1; t++) in->removed[t] = sides->side_a[edges[t]], target[t] = sides->place[edges[t]];
    survivors(edges, sides->size_a, r1, in->prefix > 0, sides->keys, at->survivor); /* ToMe's order */
    for (int64_t a = 0; a < stay; a++) in->keep[a] = sides->side_a[at->survivor[a]];
    for (int64_t t = 0; t < size_b; t++) edges[t] = t;
    if (r2) {
        best_of_columns(at, stay);
        order(sides->best, size_b, 1, sides->keys, edges);
    }
    for (int64_t t = 0; t < r2; t++) {
        in->removed[r1 + t] = sides->side_b[edges[t]];
        target[r1 + t] = at->slot[edges[t]] = at->back[edges[t]];
    }
    for (int64_t t = r2, next = stay; t < size_b; t++, next++) {
        at->slot[edges[t]] = next;
        in->keep[next] = sides->side_b[edges[t]];
    }
    for (int64_t t = 0; t < r1; t++) target[t] = at->slot[target[t]]; /* follows a B token that merged in its turn */
}

HOT static int decide_image(const call_t *all, int64_t b, room_t *room) {
    image_t at = lay_out(all, room);
    if (!room->data) return 0;
    const call_t in = image_of(all, b);
    deal(0, in.n.patches, in.prefix % 2, &at.sides);
    weigh(&in, &at);
    score_pairs(&in, &at);
    match_both_ways(&in, &at);
    return 0;
}

int decide_mctf(const call_t *in, int threads) { return run_tasks(in, in->n.batch, threads, decide_image); }
