/* CATIS: score, then protect, merge or evict (docs/methods.md); twin of methods/catis.py and methods/triage.py, plan_triage. */
#include "kernels.h"
#include "order.h"
#include "room.h"
#include "signals.h"

/* What is known of one image; the parts that a caller did not ask for lie in the room. */
typedef struct {
    int64_t size_a, size_b; /* the pool M is split into A and B */
    float *unit, *panels, *best, *row, *statistics;
    float *attention, *norm, *context, *score;
    int64_t *pool, *side_a, *side_b, *place, *ranked, *keys, *slot;
    int64_t *keep, *removed, *target;
} image_t;

INLINE image_t lay_out(const catis_t *in, room_t *room) {
    const int64_t patches = in->n.patches, half = patches / 2 + 1;
    image_t at = {0};
    at.unit = take_floats(room, patches * in->n.width);
    at.panels = take_floats(room, PADDED(half) * in->n.width);
    at.best = take_floats(room, patches);
    at.row = take_floats(room, 2 * PADDED(in->n.tokens));
    at.statistics = take_floats(room, 2 * in->n.channels);
    at.norm = take_floats(room, patches);
    at.context = take_floats(room, patches);
    at.score = take_floats(room, patches);
    at.pool = take_indices(room, patches);
    at.side_a = take_indices(room, half);
    at.side_b = take_indices(room, half);
    at.place = take_indices(room, half);
    at.ranked = take_indices(room, patches);
    at.keys = take_indices(room, patches);
    at.slot = take_indices(room, patches);
    return at;
}

/* The same memory with what belongs to one image. */
INLINE image_t image_of(const catis_t *in, image_t at, int64_t b) {
    const int64_t patches = in->n.patches, r = in->n.gone;
    at.attention = in->attention ? in->attention + b * patches : 0;
    at.norm = in->norm ? in->norm + b * patches : at.norm;
    at.context = in->context ? in->context + b * patches : at.context;
    at.score = in->score ? in->score + b * patches : at.score;
    at.keep = in->keep + b * in->n.kept, at.removed = in->removed + b * r, at.target = in->target + b * r;
    return at;
}

/* s_nf. */
HOT static void look_at_features(const catis_t *in, int64_t b, image_t at) {
    const float *patches = in->features + (b * in->n.tokens + in->prefix) * in->n.channels;
    if (in->uses_norm) activation(patches, in->n.patches, in->n.channels, at.statistics, at.norm);
}

/* A_cls, and keys of unit length. */
HOT static void look_at_keys(const catis_t *in, int64_t b, image_t at) {
    if (at.attention) cls_attention(in, b, at.row, at.attention);
    unit_keys(in->content_key, in->n.content_heads, in->prefix, in->n.tokens, in->n.width, b, at.unit);
}

/* The fused functional (Eq. momentum, Eq. fusion); what is not finite scores 0. */
INLINE void fuse(const catis_t *in, int64_t b, image_t *at) {
    const float *previous = in->previous ? in->previous + b * in->n.patches : at->attention;
    const float gamma = in->previous ? in->gamma : 0.0f;
    if (in->uses_norm) standardise(at->norm, in->n.patches);
    if (in->uses_cls) {
        for (int64_t t = 0; t < in->n.patches; t++)
            at->context[t] = (1.0f + gamma) * at->attention[t] - gamma * previous[t];
        standardise(at->context, in->n.patches);
    }
    for (int64_t t = 0; t < in->n.patches; t++) {
        float norm = in->uses_norm ? at->norm[t] : 0.0f, context = in->uses_cls ? at->context[t] : 0.0f;
        float score = !in->uses_cls ? norm : !in->uses_norm ? context : in->w_cls * context + (1.0f - in->w_cls) * norm;
        at->score[t] = fabsf(score) < INFINITY ? score : 0.0f;
    }
}

/* The pool M = {-tau <= s <= tau}, split alternately in token order, and the best partner of every A token. */
INLINE void match(const catis_t *in, image_t *at) {
    const int64_t width = in->n.width;
    int64_t size = 0;
    for (int64_t t = 0; t < in->n.patches; t++)
        if (fabsf(at->score[t]) <= in->tau) at->pool[size++] = t;
    at->size_b = size / 2, at->size_a = size < 2 ? 0 : size - at->size_b; /* one alone has nobody to merge with */
    for (int64_t i = 0; i < at->size_a; i++) at->side_a[i] = at->pool[2 * i];
    for (int64_t i = 0; i < at->size_b; i++) at->side_b[i] = at->pool[2 * i + 1];
    if (!at->size_a) return;
    pack(at->unit, width, at->side_b, at->size_b, width, at->panels);
    best_columns(at->unit, width, at->side_a, at->size_a, at->panels, at->size_b, width, at->best, at->place);
}

/* Removes the lowest until r are gone. They are all in E = {s < -tau}, unless too few of E are left. */
INLINE void evict(const catis_t *in, int64_t gone, int64_t low, image_t *at) {
    const float below = low >= in->n.gone - gone ? -in->tau : INFINITY;
    int64_t count = 0;
    for (int64_t t = 0; t < in->n.patches; t++)
        if (!at->slot[t] && at->score[t] < below) at->pool[count] = t, at->best[count++] = at->score[t];
    order(at->best, count, 0, at->keys, at->ranked);
    for (int64_t t = 0; t < count && gone < in->n.gone; t++, gone++) {
        const int64_t lowest = at->pool[at->ranked[t]];
        at->removed[gone] = lowest, at->target[gone] = -1, at->slot[lowest] = -1;
    }
}

/* Evict up to `evictions` of E = {s < -tau}, merge the rest of r inside M (Eq. allocation). */
INLINE void triage(const catis_t *in, image_t *at) {
    int64_t low = 0, gone = 0, kept = 0;
    for (int64_t t = 0; t < in->n.patches; t++) low += at->score[t] < -in->tau, at->slot[t] = 0;
    const int64_t wanted = in->n.gone - (low < in->evictions ? low : in->evictions);
    const int64_t merged = wanted < at->size_a ? wanted : at->size_a;
    order(at->best, at->size_a, 1, at->keys, at->ranked);
    for (; gone < merged; gone++) {
        const int64_t edge = at->ranked[gone], source = at->side_a[edge], destination = at->side_b[at->place[edge]];
        at->removed[gone] = source, at->target[gone] = destination;
        at->slot[source] = -1, at->slot[destination] = 1; /* neither may be evicted */
    }
    evict(in, gone, low, at);
    for (int64_t t = 0; t < in->n.patches; t++)
        if (at->slot[t] >= 0) at->keep[kept] = t, at->slot[t] = kept++;
    for (int64_t t = 0; t < merged; t++) at->target[t] = at->slot[at->target[t]];
}

HOT static void conclude(const catis_t *in, int64_t b, image_t at) {
    fuse(in, b, &at);
    match(in, &at);
    triage(in, &at);
}

/* Two threads share the looking at one image; more would only pass memory around. */
static void decide_alone(const catis_t *in, image_t at, int threads) {
#pragma omp parallel sections num_threads(2) if (threads > 1)
    {
#pragma omp section
        look_at_keys(in, 0, at);
#pragma omp section
        look_at_features(in, 0, at);
    }
    conclude(in, 0, at);
}

int decide_catis(const catis_t *in, int threads) {
    const int64_t workers = workers_for(in->n.batch, threads);
    room_t count = {0};
    lay_out(in, &count);
    char *block = malloc((size_t)workers * count.used);
    if (!block) return NO_MEMORY;
    if (in->n.batch == 1) {
        room_t room = room_of(block, count.used, 0);
        decide_alone(in, image_of(in, lay_out(in, &room), 0), threads);
        return free(block), 0;
    }
#pragma omp parallel for num_threads((int)workers) if (workers > 1)
    for (int64_t w = 0; w < workers; w++) {
        room_t room = room_of(block, count.used, w);
        const image_t own = lay_out(in, &room);
        for (int64_t b = w; b < in->n.batch; b += workers) {
            const image_t at = image_of(in, own, b);
            look_at_keys(in, b, at);
            look_at_features(in, b, at);
            conclude(in, b, at);
        }
    }
    free(block);
    return 0;
}
