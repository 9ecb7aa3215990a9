/* PiToMe: order by energy, split, match (docs/methods.md); twin of methods/pitome.py. */
#include "sides.h"

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
INLINE void energy(const call_t *in, const float *unit, const float *panels, double *sums, float *score) {
    const int64_t width = in->n.width, count = in->n.patches;
    memset(sums, 0, PADDED(count) * sizeof *sums);
    for (int64_t first = 0; first < count; first += ROWS) {
        const float *row[ROWS];
        float found[ROWS][LANES], total[ROWS][LANES] = {{0}};
        six_rows(unit, width, 0, first, count, row);
        for (int64_t column = first / LANES * LANES; column < count; column += LANES) {
            products(row, panels + column * width, width, found);
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

/* "bsm" deals all tokens and keeps the r best edges; "pure" deals the first 2r, and all of its A tokens merge. */
HOT static int decide_image(const call_t *all, int64_t b, room_t *room) {
    const int64_t patches = all->n.patches, width = all->n.width, used = all->pure ? 2 * all->n.gone : patches;
    float *unit = take_floats(room, patches * width), *panels = take_floats(room, PADDED(patches) * width);
    float *own_score = take_floats(room, patches);
    double *sums = take_doubles(room, PADDED(patches));
    int64_t *ranked = take_indices(room, patches);
    sides_t at = take_sides(room, patches);
    if (!room->data) return 0;
    const call_t in = image_of(all, b);
    float *score = in.score ? in.score : own_score;
    unit_keys(&in, unit);
    pack(unit, width, 0, patches, width, panels);
    energy(&in, unit, panels, sums, score);
    order(score, patches, 1, at.keys, ranked);
    deal(ranked, used, 0, &at);
    match(unit, width, panels, &at);
    for (int64_t t = 0; in.pure && t < at.size_a; t++) at.ranked[t] = t;
    write_plan(&in, ranked + used, patches - used, 0, &at);
    return 0;
}

int decide_pitome(const call_t *in, int threads) { return run_tasks(in, in->n.batch, threads, decide_image); }
