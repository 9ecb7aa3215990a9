/* PiToMe: order by energy, split, match (BASELINES 1.3); twin of methods/pitome.py. */
#include "kernels.h"
#include "keys.h"
#include "order.h"
#include "room.h"

typedef struct {
    shape_t shape;
    int64_t patches, r;
    float margin;
    int pure;
} pitome_t;

/* ELU(cosine - margin) of six rows by sixteen columns. */
INLINE void elus(float found[ROWS][LANES], float margin) {
    for (int i = 0; i < ROWS; i++)
        for (int lane = 0; lane < LANES; lane++) {
            const float x = found[i][lane] - margin, low = exponential(x) - 1.0f;
            found[i][lane] = x > 0 ? x : low;
        }
}

/* Only what is right of the diagonal counts, for its row and for its column; so the diagonal itself counts half. */
INLINE void trim(float found[ROWS][LANES], int32_t first, int32_t column, int32_t count) {
    for (int32_t i = 0; i < ROWS; i++)
        for (int32_t lane = 0; lane < LANES; lane++) {
            const int32_t row = first + i, at = column + lane;
            const float share = at > row ? 1.0f : at == row ? 0.5f : 0.0f;
            found[i][lane] = row < count && at < count ? found[i][lane] * share : 0.0f;
        }
}

/* Mean over tokens of ELU(cosine - margin). Cosines are symmetric, so one half of them does. Many energies are close,
   and their order decides: the sums are doubles. */
INLINE void energy(pitome_t in, const float *unit, const float *panels, double *sums, float *score) {
    const int64_t width = in.shape.width, count = in.patches;
    memset(sums, 0, PADDED(count) * sizeof *sums);
    for (int64_t first = 0; first < count; first += ROWS) {
        const float *row[ROWS];
        float found[ROWS][LANES], total[ROWS][LANES] = {{0}};
        six_rows(unit, width, 0, first, count, row);
        for (int64_t column = first / LANES * LANES; column < count; column += LANES) {
            products(row, panels + column * width, width, found);
            elus(found, in.margin);
            if (column < first + ROWS || column + LANES > count || first + ROWS > count)
                trim(found, (int32_t)first, (int32_t)column, (int32_t)count);
            float below[LANES] = {0};
            for (int i = 0; i < ROWS; i++)
                for (int lane = 0; lane < LANES; lane++) total[i][lane] += found[i][lane], below[lane] += found[i][lane];
            for (int lane = 0; lane < LANES; lane++) sums[column + lane] += below[lane];
        }
        for (int64_t i = 0; i < ROWS && first + i < count; i++)
            for (int lane = 0; lane < LANES; lane++) sums[first + i] += total[i][lane];
    }
    for (int64_t t = 0; t < count; t++) score[t] = (float)(sums[t] / (double)count);
}

/* "bsm" alternates all tokens and keeps the r best edges; "pure" alternates the first 2r and merges all of them. */
INLINE void split(pitome_t in, const float *score, const float *unit, float *panels, int64_t *index, int64_t *keep,
                  int64_t *removed, int64_t *target) {
    const int64_t width = in.shape.width, r = in.r, used = in.pure ? 2 * r : in.patches;
    const int64_t size_b = used / 2, size_a = used - size_b, protected = in.patches - used;
    int64_t *ranked = index, *side_a = ranked + in.patches, *side_b = side_a + size_a, *place = side_b + size_b;
    int64_t *keys = place + size_a, *edges = keys + in.patches;
    float *best = panels + PADDED(in.patches) * width;

    order(score, in.patches, 1, keys, ranked);
    for (int64_t i = 0; i < used; i++) *(i % 2 ? side_b + i / 2 : side_a + i / 2) = ranked[i];
    pack(unit, width, side_b, size_b, width, panels);
    best_columns(unit, width, side_a, size_a, panels, size_b, width, best, place);
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

HOT static void decide_image(heads_t key, pitome_t in, int64_t b, float *unit, int64_t *index, decided_t out, float *score) {
    float *panels = unit + PADDED(in.patches * in.shape.width);
    double *sums = (double *)(panels + PADDED(in.patches) * (in.shape.width + 1));
    unit_keys(key, in.shape, b, unit);
    pack(unit, in.shape.width, 0, in.patches, in.shape.width, panels);
    energy(in, unit, panels, sums, score);
    split(in, score, unit, panels, index, out.keep + b * (in.patches - in.r), out.removed + b * in.r, out.target + b * in.r);
}

int decide_pitome(heads_t key, shape_t shape, int64_t r, float margin, int pure, decided_t out, float *score,
                  int threads) {
    const int64_t patches = shape.tokens - shape.prefix;
    const pitome_t in = {shape, patches, r, margin, pure};
    if (2 * r > patches) return TOO_MANY;
    const int64_t workers = workers_for(shape.batch, threads);
    const room_t room = new_room(workers, PADDED(patches * shape.width) + PADDED(patches) * (shape.width + 3), 6 * patches);
    if (!room.data) return NO_MEMORY;
#pragma omp parallel for num_threads((int)workers) if (workers > 1)
    for (int64_t w = 0; w < workers; w++)
        for (int64_t b = w; b < shape.batch; b += workers)
            decide_image(key, in, b, floats_of(room, w), indices_of(room, w), out, score + b * patches);
    free(room.data);
    return 0;
}
