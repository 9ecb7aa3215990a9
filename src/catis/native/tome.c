/* ToMe and ToFu: the r best edges from even to odd tokens (BASELINES 1.1); twin of methods/tome.py, plan_bipartite. */
#include "kernels.h"
#include "keys.h"
#include "order.h"
#include "room.h"

HOT static void plan_image(heads_t key, shape_t shape, int64_t image, int64_t r, float *room, int64_t *index,
                           int64_t *keep, int64_t *removed, int64_t *target, float *score) {
    const int64_t patches = shape.tokens - shape.prefix, width = shape.width;
    const int64_t first = shape.prefix % 2, size_b = (patches + first) / 2, size_a = patches - size_b;
    float *unit = room, *panels = unit + patches * width, *best = panels + PADDED(size_b) * width;
    int64_t *place = index, *keys = place + size_a, *ranked = keys + size_a;

    unit_keys(key, shape, image, unit);
    pack(unit + (1 - first) * width, 2 * width, 0, size_b, width, panels);
    best_columns(unit + first * width, 2 * width, 0, size_a, panels, size_b, width, 0, best, place);
    order(best, size_a, 1, keys, ranked);
    for (int64_t t = 0; t < r; t++) {
        removed[t] = 2 * ranked[t] + first;
        target[t] = place[ranked[t]] + size_a - r;
    }
    if (shape.prefix) { /* surviving A in token order; with no prefix by similarity, as the authors do */
        memset(keys, 0, size_a * sizeof *keys);
        for (int64_t t = 0; t < r; t++) keys[ranked[t]] = 1;
        for (int64_t a = 0; a < size_a; a++)
            if (!keys[a]) *keep++ = 2 * a + first;
    } else {
        for (int64_t t = r; t < size_a; t++) *keep++ = 2 * ranked[t] + first;
    }
    for (int64_t b = 0; b < size_b; b++) *keep++ = 2 * b + 1 - first;
    if (score)
        for (int64_t t = 0; t < patches; t++) score[t] = t % 2 == first ? best[t / 2] : NAN;
}

int decide_tome(heads_t key, shape_t shape, int64_t r, decided_t out, float *score, int threads) {
    const int64_t patches = shape.tokens - shape.prefix, kept = patches - r;
    const room_t room = new_room(shape.batch, (2 * patches + LANES) * (shape.width + 1), 3 * patches);
    if (!room.data) return 1;
#pragma omp parallel for num_threads(threads) if (threads > 1 && shape.batch > 1)
    for (int64_t b = 0; b < shape.batch; b++)
        plan_image(key, shape, b, r, floats_of(room, b), indices_of(room, b), out.keep + b * kept,
                   out.removed + b * r, out.target + b * r, score ? score + b * patches : 0);
    free(room.data);
    return 0;
}
