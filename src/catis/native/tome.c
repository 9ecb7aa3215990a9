/* ToMe and ToFu: the r best edges from even to odd tokens (docs/methods.md); twin of methods/tome.py, plan_bipartite. */
#include "kernels.h"
#include "keys.h"
#include "order.h"
#include "room.h"

typedef struct {
    int64_t first, size_a, size_b; /* A are the patches first, first + 2, ...; B the others */
    float *unit, *panels, *best;
    int64_t *place, *keys, *ranked;
} image_t;

INLINE image_t lay_out(const tome_t *in, room_t *room) {
    const int64_t patches = in->n.patches, width = in->n.width;
    image_t at = {.first = in->prefix % 2};
    at.size_b = (patches + at.first) / 2, at.size_a = patches - at.size_b;
    at.unit = take_floats(room, patches * width);
    at.panels = take_floats(room, PADDED(at.size_b) * width);
    at.best = take_floats(room, at.size_a);
    at.place = take_indices(room, at.size_a);
    at.keys = take_indices(room, at.size_a);
    at.ranked = take_indices(room, at.size_a);
    return at;
}

/* Best partner of every A token. */
INLINE void match(const tome_t *in, int64_t b, image_t at) {
    const int64_t width = in->n.width;
    unit_keys(in->key, in->n.heads, in->prefix, in->n.tokens, width, b, at.unit);
    pack(at.unit + (1 - at.first) * width, 2 * width, 0, at.size_b, width, at.panels);
    best_columns(at.unit + at.first * width, 2 * width, 0, at.size_a, at.panels, at.size_b, width, at.best, at.place);
}

/* The r best edges; output order is [surviving A, B]. */
INLINE void choose(const tome_t *in, int64_t b, image_t at) {
    const int64_t r = in->n.gone, stay = at.size_a - r;
    int64_t *keep = in->keep + b * in->n.kept, *removed = in->removed + b * r, *target = in->target + b * r;
    float *score = in->score ? in->score + b * in->n.patches : 0;
    order(at.best, at.size_a, 1, at.keys, at.ranked);
    for (int64_t t = 0; t < r; t++) {
        removed[t] = 2 * at.ranked[t] + at.first;
        target[t] = at.place[at.ranked[t]] + stay;
    }
    /* surviving A in token order; with no prefix by similarity, as the authors do */
    survivors(at.ranked, at.size_a, r, in->prefix > 0, at.keys, keep);
    for (int64_t t = 0; t < stay; t++, keep++) *keep = 2 * *keep + at.first;
    for (int64_t t = 0; t < at.size_b; t++) *keep++ = 2 * t + 1 - at.first;
    for (int64_t t = 0; score && t < in->n.patches; t++) score[t] = t % 2 == at.first ? at.best[t / 2] : NAN;
}

HOT static void decide_image(const tome_t *in, int64_t b, image_t at) {
    match(in, b, at);
    choose(in, b, at);
}

int decide_tome(const tome_t *in, int threads) {
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
