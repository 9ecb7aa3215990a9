/* The executor on plain CPU tensors: survivors, and what merges into them; twin of core/execute.py. */
#include "kernels.h"
#include "room.h"

/* (K,) sum of (N_p,) values over each survivor's group, ones where there are no values. */
INLINE void group_sum(merge_t in, const float *values, float *total) {
    for (int64_t k = 0; k < in.n.kept; k++) total[k] = values ? values[in.keep[k]] : 1.0f;
    for (int64_t t = 0; in.target && t < in.n.gone; t++)
        if (in.target[t] >= 0) total[in.target[t]] += values ? values[in.removed[t]] : 1.0f;
}

/* Whether every index is one: a wrong plan must not write elsewhere. */
INLINE int is_sound(merge_t in) {
    const int64_t patches = in.n.patches;
    int sound = 1;
    for (int64_t k = 0; k < in.n.kept; k++) sound &= in.keep[k] >= 0 && in.keep[k] < patches;
    for (int64_t t = 0; t < in.n.gone; t++) sound &= in.removed[t] >= 0 && in.removed[t] < patches;
    for (int64_t t = 0; in.target && t < in.n.gone; t++) sound &= in.target[t] >= -1 && in.target[t] < in.n.kept;
    return sound;
}

INLINE float length(const float *row, int64_t channels) { return sqrtf(dot(row, row, channels)); }

/* MLERP: merged vectors get the length of their longest member. */
INLINE void rescale(merge_t in, const float *patches, float *out, float *longest) {
    for (int64_t k = 0; k < in.n.kept; k++) longest[k] = -1.0f;
    for (int64_t t = 0; t < in.n.gone; t++) {
        const int64_t k = in.target[t];
        if (k < 0) continue;
        const float own = longest[k] < 0 ? length(patches + in.keep[k] * in.n.channels, in.n.channels) : longest[k];
        const float other = length(patches + in.removed[t] * in.n.channels, in.n.channels);
        longest[k] = own > other ? own : other;
    }
    for (int64_t k = 0; k < in.n.kept; k++) {
        if (!(longest[k] >= 0)) continue; /* nothing merged into it, or NaN */
        float *row = out + k * in.n.channels, now = length(row, in.n.channels);
        const float scale = now > 0 ? longest[k] / now : 1.0f;
        for (int64_t c = 0; c < in.n.channels; c++) row[c] *= scale;
    }
}

/* A group's mean is its destination plus each member's share of the way to it, so only destinations change. */
INLINE void merge_rows(merge_t in, const float *patches, float *out, float *total) {
    const float *weight = in.blend == BY_SIZE ? in.size : in.blend == BY_WEIGHT ? in.weight : 0;
    group_sum(in, weight, total);
    for (int64_t t = 0; t < in.n.gone; t++) {
        const int64_t k = in.target[t];
        if (k < 0) continue;
        const float share = (weight ? weight[in.removed[t]] : 1.0f) / total[k];
        const float *from = patches + in.removed[t] * in.n.channels, *to = patches + in.keep[k] * in.n.channels;
        float *row = out + k * in.n.channels;
        for (int64_t c = 0; c < in.n.channels; c++) row[c] += (from[c] - to[c]) * share;
    }
    if (in.blend == MLERP) rescale(in, patches, out, total);
}

HOT static int merge_image(merge_t in, float *total) {
    if (!is_sound(in)) return 0;
    const float *patches = in.x + in.prefix * in.n.channels;
    float *out = in.next_x + in.prefix * in.n.channels;
    memcpy(in.next_x, in.x, in.prefix * in.n.channels * sizeof *out);
    for (int64_t k = 0; k < in.n.kept; k++)
        memcpy(out + k * in.n.channels, patches + in.keep[k] * in.n.channels, in.n.channels * sizeof *out);
    if (in.next_size) {
        group_sum(in, in.size, in.next_size);
        for (int64_t p = 0; p < in.prefix; p++) in.log_size[p] = 0.0f; /* proportional attention */
        for (int64_t k = 0; k < in.n.kept; k++) in.log_size[in.prefix + k] = logf(in.next_size[k]);
    }
    if (in.target) merge_rows(in, patches, out, total);
    if (in.next_attention) { /* carried: summed over what merged, dropped with what was evicted, renormalised */
        group_sum(in, in.attention, in.next_attention);
        float sum = 0;
        for (int64_t k = 0; k < in.n.kept; k++) sum += in.next_attention[k];
        sum = sum < TINY ? TINY : sum;
        for (int64_t k = 0; k < in.n.kept; k++) in.next_attention[k] /= sum;
    }
    return 1;
}

/* The same for one image alone. */
INLINE merge_t image_of(const merge_t *all, int64_t b) {
    merge_t in = *all;
    in.keep += b * in.n.kept, in.removed += b * in.n.gone;
    in.x += b * in.n.tokens * in.n.channels, in.next_x += b * in.n.left * in.n.channels;
    if (in.target) in.target += b * in.n.gone;
    if (in.size) in.size += b * in.n.patches;
    if (in.weight) in.weight += b * in.n.patches;
    if (in.attention) in.attention += b * in.n.patches;
    if (in.next_size) in.next_size += b * in.n.kept, in.log_size += b * in.n.left;
    if (in.next_attention) in.next_attention += b * in.n.kept;
    return in;
}

int merge(const merge_t *in, int threads) {
    const int64_t workers = workers_for(in->n.batch, threads);
    room_t count = {0};
    take_floats(&count, in->n.kept);
    char *block = malloc((size_t)workers * count.used);
    if (!block) return NO_MEMORY;
    int sound = 1;
#pragma omp parallel for num_threads((int)workers) reduction(& : sound) if (workers > 1)
    for (int64_t w = 0; w < workers; w++) {
        room_t room = room_of(block, count.used, w);
        float *total = take_floats(&room, in->n.kept);
        for (int64_t b = w; b < in->n.batch; b += workers) sound &= merge_image(image_of(in, b), total);
    }
    free(block);
    return sound ? 0 : WRONG_PLAN;
}
