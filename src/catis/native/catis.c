/* CATIS: score, then protect, merge or evict (SPEC 4); twin of methods/catis.py and methods/triage.py, plan_triage. */
#include "kernels.h"
#include "order.h"
#include "room.h"
#include "signals.h"

typedef struct {
    int64_t *keep, *removed, *target;
    float *attention, *norm, *context, *score;
} found_t; /* of one image; attention is NULL where nobody needs it */

/* The fused functional (Eq. momentum, Eq. fusion); what is not finite scores 0. */
INLINE void score_image(catis_t in, shape_t shape, int64_t image, float *room, found_t out) {
    const int64_t patches = shape.tokens - shape.prefix;
    if (out.attention)
        cls_attention(in.query, in.key, in.bias ? in.bias + image * shape.tokens : 0, in.scale, shape, image, room, out.attention);
    if (in.uses_norm) {
        activation(in.features + (image * shape.tokens + shape.prefix) * in.channels, patches, in.channels, room, out.norm);
        standardise(out.norm, patches);
    }
    if (in.uses_cls) {
        const float *previous = in.previous ? in.previous + image * patches : out.attention;
        const float gamma = in.previous ? in.gamma : 0.0f;
        for (int64_t t = 0; t < patches; t++) out.context[t] = (1.0f + gamma) * out.attention[t] - gamma * previous[t];
        standardise(out.context, patches);
    }
    for (int64_t t = 0; t < patches; t++) {
        float norm = in.uses_norm ? out.norm[t] : 0.0f, context = in.uses_cls ? out.context[t] : 0.0f;
        float score = !in.uses_cls ? norm : !in.uses_norm ? context : in.w_cls * context + (1.0f - in.w_cls) * norm;
        out.score[t] = fabsf(score) < INFINITY ? score : 0.0f;
    }
}

/* Best edges inside the pool M, split alternately in token order. Returns how many edges there are, best first. */
INLINE int64_t pool_edges(catis_t in, shape_t shape, int64_t image, const int64_t *pool, int64_t size, float *room,
                          int64_t *index, int64_t *source, int64_t *destination) {
    const int64_t size_b = size / 2, size_a = size - size_b, patches = shape.tokens - shape.prefix, width = shape.width;
    float *unit = room, *panels = unit + patches * width, *best = panels + PADDED(size_b) * width;
    int64_t *place = index, *keys = place + size_a, *ranked = keys + size_a, *side_a = ranked + size_a, *side_b = side_a + size_a;
    if (size < 2) return 0;
    shape.heads = in.content_heads;
    unit_keys(in.content_key, shape, image, unit);
    for (int64_t i = 0; i < size; i++) *(i % 2 ? side_b + i / 2 : side_a + i / 2) = pool[i];
    pack(unit, width, side_b, size_b, width, panels);
    best_columns(unit, width, side_a, size_a, panels, size_b, width, 0, best, place);
    order(best, size_a, 1, keys, ranked);
    for (int64_t t = 0; t < size_a; t++) source[t] = side_a[ranked[t]], destination[t] = side_b[place[ranked[t]]];
    return size_a;
}

/* Evict up to `evictions` of E = {s < -tau}, merge the rest of r inside M = {-tau <= s <= tau} (Eq. allocation). */
INLINE void triage(catis_t in, shape_t shape, int64_t image, float *room, int64_t *index, found_t out) {
    const int64_t patches = shape.tokens - shape.prefix, r = in.r;
    int64_t *pool = index, *source = pool + patches, *destination = source + patches, *slot = destination + patches;
    int64_t size = 0, low = 0, gone = 0, kept = 0;
    for (int64_t t = 0; t < patches; t++) {
        if (fabsf(out.score[t]) <= in.tau) pool[size++] = t;
        low += out.score[t] < -in.tau;
        slot[t] = 0;
    }
    const int64_t wanted = r - (low < in.evictions ? low : in.evictions);
    const int64_t edges = pool_edges(in, shape, image, pool, size, room, slot + patches, source, destination);
    const int64_t merged = wanted < edges ? wanted : edges;
    for (; gone < merged; gone++) {
        out.removed[gone] = source[gone];
        slot[source[gone]] = -1, slot[destination[gone]] = 1; /* neither may be evicted */
    }
    int64_t *keys = slot + patches, *ranked = keys + patches;
    if (gone < r) order(out.score, patches, 0, keys, ranked);
    for (int64_t t = 0; t < patches && gone < r; t++) /* what the pool cannot supply is evicted, lowest first */
        if (!slot[ranked[t]]) out.removed[gone] = ranked[t], out.target[gone++] = -1, slot[ranked[t]] = -1;
    for (int64_t t = 0; t < patches; t++)
        if (slot[t] >= 0) out.keep[kept] = t, slot[t] = kept++;
    for (int64_t t = 0; t < merged; t++) out.target[t] = slot[destination[t]];
}

HOT static void plan_image(catis_t in, shape_t shape, int64_t image, float *room, int64_t *index, found_t out) {
    score_image(in, shape, image, room, out);
    triage(in, shape, image, room, index, out);
}

int decide_catis(catis_t in, shape_t shape, decided_t out, signals_t signals, int threads) {
    const int64_t patches = shape.tokens - shape.prefix, r = in.r;
    const int64_t matching = (2 * patches + LANES) * (shape.width + 1);
    const room_t room = new_room(shape.batch, matching + 3 * in.channels + 4 * shape.tokens + LANES, 10 * patches);
    if (!room.data) return 1;
#pragma omp parallel for num_threads(threads) if (threads > 1 && shape.batch > 1)
    for (int64_t b = 0; b < shape.batch; b++) {
        float *own = floats_of(room, b);
        const found_t found = {out.keep + b * (patches - r), out.removed + b * r, out.target + b * r,
                               signals.attention ? signals.attention + b * patches : 0,
                               signals.norm ? signals.norm + b * patches : own,
                               signals.context ? signals.context + b * patches : own + patches,
                               signals.score ? signals.score + b * patches : own + 2 * patches};
        plan_image(in, shape, b, own + PADDED(3 * patches), indices_of(room, b), found);
    }
    free(room.data);
    return 0;
}
