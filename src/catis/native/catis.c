/* CATIS: score, then protect, merge or evict (SPEC 4); twin of methods/catis.py and methods/triage.py, plan_triage. */
#include "kernels.h"
#include "order.h"
#include "room.h"
#include "signals.h"

/* What is known of one image; the parts that a caller did not ask for lie in the room. */
typedef struct {
    int64_t patches, size_a, size_b; /* the pool M is split into A and B */
    int64_t *pool, *side_a, *side_b, *place, *ranked, *keys, *slot;
    float *unit, *panels, *best, *row, *statistics;
    float *attention, *norm, *context, *score;
    int64_t *keep, *removed, *target;
} image_t;

/* s_nf. */
HOT static void look_at_features(catis_t in, shape_t shape, int64_t image, image_t at) {
    const float *patches = in.features + (image * shape.tokens + shape.prefix) * in.channels;
    if (in.uses_norm) activation(patches, at.patches, in.channels, at.statistics, at.norm);
}

/* A_cls, and keys of unit length. */
HOT static void look_at_keys(catis_t in, shape_t shape, int64_t image, image_t at) {
    const float *bias = in.bias ? in.bias + image * shape.tokens : 0;
    if (at.attention) cls_attention(in.query, in.key, bias, in.scale, shape, image, at.row, at.attention);
    shape.heads = in.content_heads;
    unit_keys(in.content_key, shape, image, at.unit);
}

/* The fused functional (Eq. momentum, Eq. fusion); what is not finite scores 0. */
INLINE void fuse(catis_t in, int64_t image, image_t *at) {
    const float *previous = in.previous ? in.previous + image * at->patches : at->attention;
    const float gamma = in.previous ? in.gamma : 0.0f;
    if (in.uses_norm) standardise(at->norm, at->patches);
    if (in.uses_cls) {
        for (int64_t t = 0; t < at->patches; t++)
            at->context[t] = (1.0f + gamma) * at->attention[t] - gamma * previous[t];
        standardise(at->context, at->patches);
    }
    for (int64_t t = 0; t < at->patches; t++) {
        float norm = in.uses_norm ? at->norm[t] : 0.0f, context = in.uses_cls ? at->context[t] : 0.0f;
        float score = !in.uses_cls ? norm : !in.uses_norm ? context : in.w_cls * context + (1.0f - in.w_cls) * norm;
        at->score[t] = fabsf(score) < INFINITY ? score : 0.0f;
    }
}

/* The pool M = {-tau <= s <= tau}, split alternately in token order, and the best partner of every A token. */
INLINE void match(catis_t in, int64_t width, image_t *at) {
    int64_t size = 0;
    for (int64_t t = 0; t < at->patches; t++)
        if (fabsf(at->score[t]) <= in.tau) at->pool[size++] = t;
    at->size_b = size / 2, at->size_a = size < 2 ? 0 : size - at->size_b; /* one alone has nobody to merge with */
    for (int64_t i = 0; i < at->size_a; i++) at->side_a[i] = at->pool[2 * i];
    for (int64_t i = 0; i < at->size_b; i++) at->side_b[i] = at->pool[2 * i + 1];
    if (!at->size_a) return;
    pack(at->unit, width, at->side_b, at->size_b, width, at->panels);
    best_columns(at->unit, width, at->side_a, at->size_a, at->panels, at->size_b, width, at->best, at->place);
}

/* Removes the lowest until r are gone. They are all in E = {s < -tau}, unless too few of E are left. */
INLINE void evict(catis_t in, int64_t gone, int64_t low, image_t *at) {
    const float below = low >= in.r - gone ? -in.tau : INFINITY;
    int64_t count = 0;
    for (int64_t t = 0; t < at->patches; t++)
        if (!at->slot[t] && at->score[t] < below) at->pool[count] = t, at->best[count++] = at->score[t];
    order(at->best, count, 0, at->keys, at->ranked);
    for (int64_t t = 0; t < count && gone < in.r; t++, gone++) {
        const int64_t lowest = at->pool[at->ranked[t]];
        at->removed[gone] = lowest, at->target[gone] = -1, at->slot[lowest] = -1;
    }
}

/* Evict up to `evictions` of E = {s < -tau}, merge the rest of r inside M (Eq. allocation). */
INLINE void triage(catis_t in, image_t *at) {
    int64_t low = 0, gone = 0, kept = 0;
    for (int64_t t = 0; t < at->patches; t++) low += at->score[t] < -in.tau, at->slot[t] = 0;
    const int64_t wanted = in.r - (low < in.evictions ? low : in.evictions);
    const int64_t merged = wanted < at->size_a ? wanted : at->size_a;
    order(at->best, at->size_a, 1, at->keys, at->ranked);
    for (; gone < merged; gone++) {
        const int64_t edge = at->ranked[gone], source = at->side_a[edge], destination = at->side_b[at->place[edge]];
        at->removed[gone] = source, at->target[gone] = destination;
        at->slot[source] = -1, at->slot[destination] = 1; /* neither may be evicted */
    }
    evict(in, gone, low, at);
    for (int64_t t = 0; t < at->patches; t++)
        if (at->slot[t] >= 0) at->keep[kept] = t, at->slot[t] = kept++;
    for (int64_t t = 0; t < merged; t++) at->target[t] = at->slot[at->target[t]];
}

INLINE image_t image_of(catis_t in, shape_t shape, decided_t out, signals_t signals, room_t room, int64_t w,
                        int64_t b) {
    const int64_t patches = shape.tokens - shape.prefix, half = PADDED(patches / 2 + 1);
    image_t at = {.patches = patches};
    float *own = floats_of(room, w);
    at.pool = indices_of(room, w), at.side_a = at.pool + patches, at.side_b = at.side_a + half;
    at.place = at.side_b + half, at.ranked = at.place + half, at.keys = at.ranked + patches, at.slot = at.keys + patches;
    at.unit = own, at.panels = at.unit + patches * shape.width, at.best = at.panels + half * shape.width;
    at.row = at.best + patches, at.statistics = at.row + 2 * PADDED(shape.tokens), own = at.statistics + 2 * in.channels;
    at.attention = signals.attention ? signals.attention + b * patches : 0;
    at.norm = signals.norm ? signals.norm + b * patches : own;
    at.context = signals.context ? signals.context + b * patches : own + patches;
    at.score = signals.score ? signals.score + b * patches : own + 2 * patches;
    at.keep = out.keep + b * (patches - in.r), at.removed = out.removed + b * in.r, at.target = out.target + b * in.r;
    return at;
}

HOT static void conclude(catis_t in, shape_t shape, int64_t image, image_t at) {
    fuse(in, image, &at);
    match(in, shape.width, &at);
    triage(in, &at);
}

/* Two threads share the looking at one image; more would only pass memory around. */
static void decide_alone(catis_t in, shape_t shape, image_t at, int threads) {
#pragma omp parallel sections num_threads(2) if (threads > 1)
    {
#pragma omp section
        look_at_keys(in, shape, 0, at);
#pragma omp section
        look_at_features(in, shape, 0, at);
    }
    conclude(in, shape, 0, at);
}

int decide_catis(catis_t in, shape_t shape, decided_t out, signals_t signals, int threads) {
    const int64_t patches = shape.tokens - shape.prefix, half = PADDED(patches / 2 + 1);
    const int64_t floats = (patches + half) * shape.width + patches + 2 * PADDED(shape.tokens) + 2 * in.channels + 3 * patches;
    if (2 * in.r > patches) return TOO_MANY;
    const int64_t workers = workers_for(shape.batch, threads);
    const room_t room = new_room(workers, floats, 4 * patches + 3 * half);
    if (!room.data) return NO_MEMORY;
    if (shape.batch == 1) {
        decide_alone(in, shape, image_of(in, shape, out, signals, room, 0, 0), threads);
        return free(room.data), 0;
    }
#pragma omp parallel for num_threads((int)workers) if (workers > 1)
    for (int64_t w = 0; w < workers; w++)
        for (int64_t b = w; b < shape.batch; b += workers) {
            const image_t at = image_of(in, shape, out, signals, room, w, b);
            look_at_keys(in, shape, b, at);
            look_at_features(in, shape, b, at);
            conclude(in, shape, b, at);
        }
    free(room.data);
    return 0;
}
