/* CATIS: score, then protect, merge or evict (docs/methods.md); twin of methods/catis.py and methods/triage.py, plan_triage. */
#include "sides.h"
#include "signals.h"

/* Memory of one image. */
typedef struct {
    float *unit, *panels, *row, *statistics, *norm, *context, *score, *value;
    int64_t *list, *slot;
    sides_t pool; /* M, in two sides */
} image_t;

INLINE image_t lay_out(const call_t *in, room_t *room) {
    const int64_t patches = in->n.patches;
    image_t at;
    at.unit = take_floats(room, patches * in->n.width);
    at.panels = take_floats(room, PADDED(patches) * in->n.width);
    at.row = take_floats(room, 2 * PADDED(in->n.tokens));
    at.statistics = take_floats(room, 2 * in->n.channels);
    at.norm = take_floats(room, patches);
    at.context = take_floats(room, patches);
    at.score = take_floats(room, patches);
    at.value = take_floats(room, patches);
    at.list = take_indices(room, patches);
    at.slot = take_indices(room, patches);
    at.pool = take_sides(room, patches);
    if (in->norm) at.norm = in->norm; /* a caller who wants to see it */
    if (in->context) at.context = in->context;
    if (in->score) at.score = in->score;
    return at;
}

/* s_nf. */
HOT static void look_at_features(const call_t *in, const image_t *at) {
    const float *patches = in->features + in->prefix * in->n.channels;
    if (in->uses_norm) activation(patches, in->n.patches, in->n.channels, at->statistics, at->norm);
}

/* A_cls, and keys of unit length. */
HOT static void look_at_keys(const call_t *in, const image_t *at) {
    if (in->attention) cls_attention(in, at->row, in->attention);
    unit_keys(in, at->unit);
}

/* The fused functional (Eq. momentum, Eq. fusion); what is not finite scores 0. */
INLINE void fuse(const call_t *in, const image_t *at) {
    const float *previous = in->previous ? in->previous : in->attention;
    const float gamma = in->previous ? in->gamma : 0.0f;
    if (in->uses_norm) standardise(at->norm, in->n.patches);
    if (in->uses_cls) {
        for (int64_t t = 0; t < in->n.patches; t++)
            at->context[t] = (1.0f + gamma) * in->attention[t] - gamma * previous[t];
        standardise(at->context, in->n.patches);
    }
    for (int64_t t = 0; t < in->n.patches; t++) {
        float norm = in->uses_norm ? at->norm[t] : 0.0f, context = in->uses_cls ? at->context[t] : 0.0f;
        float score = !in->uses_cls ? norm : !in->uses_norm ? context : in->w_cls * context + (1.0f - in->w_cls) * norm;
        at->score[t] = fabsf(score) < INFINITY ? score : 0.0f;
    }
}

/* The pool M = {-tau <= s <= tau}, dealt in token order, and the best partner of every A token. */
INLINE void match_pool(const call_t *in, image_t *at) {
    int64_t size = 0;
    for (int64_t t = 0; t < in->n.patches; t++)
        if (fabsf(at->score[t]) <= in->tau) at->list[size++] = t;
    deal(at->list, size < 2 ? 0 : size, 0, &at->pool); /* one alone has nobody to merge with */
    match(at->unit, in->n.width, at->panels, &at->pool);
}

/* Removes the lowest until r are gone. They are all in E = {s < -tau}, unless too few of E are left. */
INLINE void evict(const call_t *in, int64_t gone, int64_t low, image_t *at) {
    const float below = low >= in->n.gone - gone ? -in->tau : INFINITY;
    int64_t count = 0;
    for (int64_t t = 0; t < in->n.patches; t++)
        if (!at->slot[t] && at->score[t] < below) at->list[count] = t, at->value[count++] = at->score[t];
    order(at->value, count, 0, at->pool.keys, at->pool.ranked);
    for (int64_t t = 0; t < count && gone < in->n.gone; t++, gone++) {
        const int64_t lowest = at->list[at->pool.ranked[t]];
        in->removed[gone] = lowest, in->target[gone] = -1, at->slot[lowest] = -1;
    }
}

/* Evict up to `evictions` of E = {s < -tau}, merge the rest of r inside M (Eq. allocation). */
INLINE void triage(const call_t *in, image_t *at) {
    const sides_t *pool = &at->pool;
    int64_t low = 0, gone = 0, kept = 0;
    for (int64_t t = 0; t < in->n.patches; t++) low += at->score[t] < -in->tau, at->slot[t] = 0;
    const int64_t wanted = in->n.gone - (low < in->evictions ? low : in->evictions);
    const int64_t merged = wanted < pool->size_a ? wanted : pool->size_a;
    for (; gone < merged; gone++) {
        const int64_t edge = pool->ranked[gone], destination = pool->side_b[pool->place[edge]];
        in->removed[gone] = pool->side_a[edge], in->target[gone] = destination;
        at->slot[pool->side_a[edge]] = -1, at->slot[destination] = 1; /* neither may be evicted */
    }
    evict(in, gone, low, at);
    for (int64_t t = 0; t < in->n.patches; t++)
        if (at->slot[t] >= 0) in->keep[kept] = t, at->slot[t] = kept++;
    for (int64_t t = 0; t < merged; t++) in->target[t] = at->slot[in->target[t]];
}

HOT static void conclude(const call_t *in, image_t *at) {
    fuse(in, at);
    match_pool(in, at);
    triage(in, at);
}

static int decide_image(const call_t *all, int64_t b, room_t *room) {
    const call_t in = image_of(all, b);
    image_t at = lay_out(&in, room);
    if (!room->data) return 0;
    look_at_keys(&in, &at);
    look_at_features(&in, &at);
    conclude(&in, &at);
    return 0;
}

/* Two threads share the looking at one image; more would only pass memory around. */
static int decide_alone(const call_t *in, int64_t b, room_t *room) {
    image_t at = lay_out(in, room);
    if (!room->data) return (void)b, 0;
#pragma omp parallel sections num_threads(2)
    {
#pragma omp section
        look_at_keys(in, &at);
#pragma omp section
        look_at_features(in, &at);
    }
    conclude(in, &at);
    return 0;
}

int decide_catis(const call_t *in, int threads) {
    return run_tasks(in, in->n.batch, threads, in->n.batch == 1 && threads > 1 ? decide_alone : decide_image);
}
