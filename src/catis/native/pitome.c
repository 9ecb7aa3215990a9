/* PiToMe: order by energy, split, match (BASELINES 1.3); twin of methods/pitome.py. */
#include "kernels.h"
#include "keys.h"
#include "order.h"
#include "room.h"

#define CHUNK (4 * ROWS) /* rows of energy that one thread takes at a time */

typedef struct {
    shape_t shape;
    int64_t patches, r;
    float margin;
    int pure;
} pitome_t;

/* Keys of unit length, and the same as panels behind them. */
HOT static void prepare(heads_t key, pitome_t in, int64_t image, float *unit) {
    unit_keys(key, in.shape, image, unit);
    pack(unit, in.shape.width, 0, in.patches, in.shape.width, unit + in.patches * in.shape.width);
}

/* Mean over tokens of ELU(cosine - margin), for the rows first .. first + CHUNK. */
HOT static void energy(pitome_t in, const float *unit, int64_t first, float *score) {
    const int64_t width = in.shape.width, count = in.patches, end = first + CHUNK < count ? first + CHUNK : count;
    const float *panels = unit + count * width;
    for (; first < end; first += ROWS) {
        const float *row[ROWS];
        float found[ROWS][LANES], total[ROWS][LANES] = {{0}};
        six_rows(unit, width, 0, first, count, row);
        for (int64_t column = 0; column < count; column += LANES) {
            products(row, panels + column * width, width, found);
            for (int i = 0; i < ROWS; i++)
                for (int lane = 0; lane < LANES; lane++) {
                    float x = found[i][lane] - in.margin, elu = x > 0 ? x : exponential(x) - 1.0f;
                    total[i][lane] += column + lane < count ? elu : 0.0f;
                }
        }
        for (int64_t i = 0; i < ROWS && first + i < count; i++) {
            float sum = 0;
            for (int lane = 0; lane < LANES; lane++) sum += total[i][lane];
            score[first + i] = sum / (float)count;
        }
    }
}

/* "bsm" alternates all tokens and keeps the r best edges; "pure" alternates the first 2r and merges all of them. */
HOT static void split(pitome_t in, const float *score, float *unit, int64_t *index, int64_t *keep, int64_t *removed,
                      int64_t *target) {
    const int64_t width = in.shape.width, r = in.r, used = in.pure ? 2 * r : in.patches;
    const int64_t size_b = used / 2, size_a = used - size_b, protected = in.patches - used;
    int64_t *ranked = index, *side_a = ranked + in.patches, *side_b = side_a + size_a, *place = side_b + size_b;
    int64_t *keys = place + size_a, *edges = keys + in.patches;
    float *panels = unit + in.patches * width, *best = panels + PADDED(size_b) * width;

    order(score, in.patches, 1, keys, ranked);
    for (int64_t i = 0; i < used; i++) *(i % 2 ? side_b + i / 2 : side_a + i / 2) = ranked[i];
    pack(unit, width, side_b, size_b, width, panels);
    best_columns(unit, width, side_a, size_a, panels, size_b, width, 0, best, place);
    if (in.pure)
        for (int64_t t = 0; t < size_a; t++) edges[t] = t;
    else
        order(best, size_a, 1, keys, edges);
    for (int64_t t = 0; t < protected; t++) *keep++ = ranked[used + t];
    for (int64_t t = r; t < size_a; t++) *keep++ = side_a[edges[t]];
    for (int64_t t = 0; t < size_b; t++) *keep++ = side_b[t];
    for (int64_t t = 0; t < r; t++) {
        removed[t] = side_a[edges[t]];
        target[t] = place[edges[t]] + protected + size_a - r;
    }
}

int decide_pitome(heads_t key, shape_t shape, int64_t r, float margin, int pure, decided_t out, float *score,
                  int threads) {
    const int64_t patches = shape.tokens - shape.prefix, kept = patches - r, chunks = (patches + CHUNK - 1) / CHUNK;
    const pitome_t in = {shape, patches, r, margin, pure};
    const room_t room = new_room(shape.batch, (2 * patches + LANES) * (shape.width + 1), 6 * patches);
    if (!room.data) return 1;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for
        for (int64_t b = 0; b < shape.batch; b++) prepare(key, in, b, floats_of(room, b));
#pragma omp for
        for (int64_t task = 0; task < shape.batch * chunks; task++) {
            int64_t b = task / chunks;
            energy(in, floats_of(room, b), task % chunks * CHUNK, score + b * patches);
        }
#pragma omp for
        for (int64_t b = 0; b < shape.batch; b++)
            split(in, score + b * patches, floats_of(room, b), indices_of(room, b), out.keep + b * kept,
                  out.removed + b * r, out.target + b * r);
    }
    free(room.data);
    return 0;
}
