/* PiToMe: order by energy, split, match (docs/methods.md); twin of methods/pitome.py. */
#include "kernels.h"
#include "keys.h"
#include "order.h"
#include "room.h"

typedef struct {
    int64_t used, size_a, size_b; /* tokens that are split, and into what */
    float *unit, *panels, *best;
    double *sums;
    int64_t *ranked, *side_a, *side_b, *place, *keys, *edges;
} image_t;

INLINE image_t lay_out(const pitome_t *in, room_t *room) {
    const int64_t patches = in->n.patches, width = in->n.width;
    image_t at = {.used = in->pure ? 2 * in->n.gone : patches};
    at.size_b = at.used / 2, at.size_a = at.used - at.size_b;
    at.unit = take_floats(room, patches * width);
    at.panels = take_floats(room, PADDED(patches) * width);
    at.best = take_floats(room, at.size_a);
    at.sums = take_doubles(room, PADDED(patches));
    at.ranked = take_indices(room, patches);
    at.side_a = take_indices(room, at.size_a);
    at.side_b = take_indices(room, at.size_b);
    at.place = take_indices(room, at.size_a);
    at.keys = take_indices(room, patches);
    at.edges = take_indices(room, at.size_a);
    return at;
}

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
INLINE void energy(const pitome_t *in, image_t at, float *score) {
    const int64_t width = in->n.width, count = in->n.patches;
    double *sums = at.sums;
    memset(sums, 0, PADDED(count) * sizeof *sums);
    for (int64_t first = 0; first < count; first += ROWS) {
        const float *row[ROWS];
        float found[ROWS][LANES], total[ROWS][LANES] = {{0}};
        six_rows(at.unit, width, 0, first, count, row);
        for (int64_t column = first / LANES * LANES; column < count; column += LANES) {
            products(row, at.panels + column * width, width, found);
            elus(found, in->margin);
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
INLINE void split(const pitome_t *in, int64_t b, image_t at, const float *score) {
    const int64_t width = in->n.width, patches = in->n.patches, r = in->n.gone, protected = patches - at.used;
    int64_t *keep = in->keep + b * in->n.kept, *removed = in->removed + b * r, *target = in->target + b * r;
    order(score, patches, 1, at.keys, at.ranked);
    for (int64_t i = 0; i < at.used; i++) *(i % 2 ? at.side_b + i / 2 : at.side_a + i / 2) = at.ranked[i];
    pack(at.unit, width, at.side_b, at.size_b, width, at.panels);
    best_columns(at.unit, width, at.side_a, at.size_a, at.panels, at.size_b, width, at.best, at.place);
    if (in->pure)
        for (int64_t t = 0; t < at.size_a; t++) at.edges[t] = t;
    else
        order(at.best, at.size_a, 1, at.keys, at.edges);
    for (int64_t t = 0; t < protected; t++) *keep++ = at.ranked[at.used + t];
    for (int64_t t = r; t < at.size_a; t++) *keep++ = at.side_a[at.edges[t]];
    for (int64_t t = 0; t < at.size_b; t++) *keep++ = at.side_b[t];
    for (int64_t t = 0; t < r; t++) {
        removed[t] = at.side_a[at.edges[t]];
        target[t] = at.place[at.edges[t]] + protected + at.size_a - r;
    }
}

HOT static void decide_image(const pitome_t *in, int64_t b, image_t at) {
    float *score = in->score + b * in->n.patches;
    unit_keys(in->key, in->n.heads, in->prefix, in->n.tokens, in->n.width, b, at.unit);
    pack(at.unit, in->n.width, 0, in->n.patches, in->n.width, at.panels);
    energy(in, at, score);
    split(in, b, at, score);
}

int decide_pitome(const pitome_t *in, int threads) {
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
