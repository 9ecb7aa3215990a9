/* ToMe and ToFu: the r best edges from even to odd tokens (BASELINES 1.1); twin of methods/tome.py, plan_bipartite. */
#include "kernels.h"
#include "keys.h"
#include "order.h"
#include "room.h"

typedef struct {
    shape_t shape;
    int64_t patches, first, size_a, size_b, r; /* A are the patches first, first + 2, ...; B the others */
} tome_t;

typedef struct {
    float *unit, *panels, *best;
    int64_t *place, *keys, *ranked;
} image_t;

INLINE image_t image_of(tome_t in, room_t room, int64_t w) {
    float *unit = floats_of(room, w), *panels = unit + in.patches * in.shape.width;
    int64_t *place = indices_of(room, w);
    return (image_t){unit, panels, panels + PADDED(in.size_b) * in.shape.width, place, place + in.size_a,
                     place + 2 * in.size_a};
}

/* Best partner of every A token. */
INLINE void match(heads_t key, tome_t in, int64_t b, image_t at) {
    const int64_t width = in.shape.width;
    unit_keys(key, in.shape, b, at.unit);
    pack(at.unit + (1 - in.first) * width, 2 * width, 0, in.size_b, width, at.panels);
    best_columns(at.unit + in.first * width, 2 * width, 0, in.size_a, at.panels, in.size_b, width, at.best, at.place);
}

/* The r best edges; output order is [surviving A, B]. */
INLINE void choose(tome_t in, image_t at, int64_t *keep, int64_t *removed, int64_t *target, float *score) {
    order(at.best, in.size_a, 1, at.keys, at.ranked);
    for (int64_t t = 0; t < in.r; t++) {
        removed[t] = 2 * at.ranked[t] + in.first;
        target[t] = at.place[at.ranked[t]] + in.size_a - in.r;
    }
    /* surviving A in token order; with no prefix by similarity, as the authors do */
    survivors(at.ranked, in.size_a, in.r, in.shape.prefix > 0, at.keys, keep);
    for (int64_t stay = in.size_a - in.r; stay > 0; stay--, keep++) *keep = 2 * *keep + in.first;
    for (int64_t b = 0; b < in.size_b; b++) *keep++ = 2 * b + 1 - in.first;
    for (int64_t t = 0; score && t < in.patches; t++) score[t] = t % 2 == in.first ? at.best[t / 2] : NAN;
}

HOT static void decide_image(heads_t key, tome_t in, image_t at, int64_t b, decided_t out, float *score) {
    match(key, in, b, at);
    choose(in, at, out.keep + b * (in.patches - in.r), out.removed + b * in.r, out.target + b * in.r,
           score ? score + b * in.patches : 0);
}

int decide_tome(heads_t key, shape_t shape, int64_t r, decided_t out, float *score, int threads) {
    const int64_t patches = shape.tokens - shape.prefix, first = shape.prefix % 2, size_b = (patches + first) / 2;
    const tome_t in = {shape, patches, first, patches - size_b, size_b, r};
    if (2 * r > patches) return TOO_MANY;
    const int64_t workers = workers_for(shape.batch, threads);
    const room_t room = new_room(workers, (2 * patches + LANES) * (shape.width + 1), 3 * patches);
    if (!room.data) return NO_MEMORY;
#pragma omp parallel for num_threads((int)workers) if (workers > 1)
    for (int64_t w = 0; w < workers; w++)
        for (int64_t b = w; b < shape.batch; b += workers) decide_image(key, in, image_of(in, room, w), b, out, score);
    free(room.data);
    return 0;
}
