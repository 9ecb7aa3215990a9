/* The executor on plain CPU tensors: survivors, and what merges into them; twin of core/execute.py. */
#include "room.h"

/* (K,) sum of (N_p,) values over each survivor's group, ones where there are no values. */
INLINE void group_sum(const call_t *in, const float *values, float *total) {
    for (int64_t k = 0; k < in->n.kept; k++) total[k] = values ? values[in->keep[k]] : 1.0f;
    for (int64_t t = 0; in->target && t < in->n.gone; t++)
        if (in->target[t] >= 0) total[in->target[t]] += values ? values[in->removed[t]] : 1.0f;
}

/* Whether every index is one: a wrong plan must not write elsewhere. */
INLINE int is_sound(const call_t *in) {
    const int64_t patches = in->n.patches;
    int sound = 1;
    for (int64_t k = 0; k < in->n.kept; k++) sound &= in->keep[k] >= 0 && in->keep[k] < patches;
    for (int64_t t = 0; t < in->n.gone; t++) sound &= in->removed[t] >= 0 && in->removed[t] < patches;
    for (int64_t t = 0; in->target && t < in->n.gone; t++) sound &= in->target[t] >= -1 && in->target[t] < in->n.kept;
    return sound;
}

INLINE float length(const float *row, int64_t channels) { return sqrtf(dot(row, row, channels)); }

/* The survivors that something merged into, by the length that they should have. */
INLINE void set_lengths(const call_t *in, const float *wanted, float *out) {
    for (int64_t k = 0; k < in->n.kept; k++) {
        if (!(wanted[k] >= 0)) continue; /* nothing merged into it, or NaN */
        float *row = out + k * in->n.channels, now = length(row, in->n.channels);
        const float scale = now > 0 ? wanted[k] / now : 1.0f;
        for (int64_t c = 0; c < in->n.channels; c++) row[c] *= scale;
    }
}

/* MLERP: merged vectors get the length of their longest member. */
INLINE void rescale(const call_t *in, const float *patches, float *out, float *longest) {
    for (int64_t k = 0; k < in->n.kept; k++) longest[k] = -1.0f;
    for (int64_t t = 0; t < in->n.gone; t++) {
        const int64_t k = in->target[t];
        if (k < 0) continue;
        const float own = longest[k] < 0 ? length(patches + in->keep[k] * in->n.channels, in->n.channels) : longest[k];
        const float other = length(patches + in->removed[t] * in->n.channels, in->n.channels);
        longest[k] = own > other ? own : other;
    }
    set_lengths(in, longest, out);
}

/* A group's mean is its destination plus each member's share of the way to it, so only destinations change. */
INLINE void merge_rows(const call_t *in, const float *patches, float *out, float *total, float *own, float *wanted) {
    const float *weight = in->blend == BY_SIZE ? in->size : in->blend == BY_WEIGHT ? in->weight : 0;
    const int restores = in->restore_norm && in->blend != MLERP;
    group_sum(in, weight, total);
    for (int64_t k = 0; restores && k < in->n.kept; k++) wanted[k] = -1.0f;
    for (int64_t t = 0; t < in->n.gone; t++) {
        const int64_t k = in->target[t];
        if (k < 0) continue;
        const float share = (weight ? weight[in->removed[t]] : 1.0f) / total[k];
        const float *from = patches + in->removed[t] * in->n.channels, *to = patches + in->keep[k] * in->n.channels;
        float *row = out + k * in->n.channels;
        for (int64_t c = 0; c < in->n.channels; c++) row[c] += (from[c] - to[c]) * share;
        if (!restores) continue;
        if (wanted[k] < 0) wanted[k] = own[k] = length(to, in->n.channels);
        wanted[k] += (length(from, in->n.channels) - own[k]) * share;
    }
    if (restores) set_lengths(in, wanted, out);
    if (in->blend == MLERP) rescale(in, patches, out, total);
}

/* A_cls carried: summed over what merged, dropped with what was evicted, renormalised. */
INLINE void carry_attention(const call_t *in) {
    float sum = 0;
    group_sum(in, in->attention, in->next_attention);
    for (int64_t k = 0; k < in->n.kept; k++) sum += in->next_attention[k];
    sum = sum < TINY ? TINY : sum;
    for (int64_t k = 0; k < in->n.kept; k++) in->next_attention[k] /= sum;
}

HOT static int merge_image(const call_t *all, int64_t b, room_t *room) {
    const int64_t prefix = all->prefix, kept = all->n.kept, channels = all->n.channels;
    float *total = take_floats(room, kept), *own = take_floats(room, kept), *wanted = take_floats(room, kept);
    if (!room->data) return 0;
    const call_t image = image_of(all, b), *in = &image;
    if (!is_sound(in)) return WRONG_PLAN;
    const float *patches = in->residual + prefix * channels;
    float *out = in->next_tokens + prefix * channels;
    memcpy(in->next_tokens, in->residual, prefix * channels * sizeof *out);
    for (int64_t k = 0; k < kept; k++)
        memcpy(out + k * channels, patches + in->keep[k] * channels, channels * sizeof *out);
    if (in->next_size) {
        group_sum(in, in->size, in->next_size);
        for (int64_t p = 0; p < prefix; p++) in->log_size[p] = 0.0f; /* proportional attention */
        for (int64_t k = 0; k < kept; k++) in->log_size[prefix + k] = logf(in->next_size[k]);
    }
    if (in->target) merge_rows(in, patches, out, total, own, wanted);
    if (in->next_attention) carry_attention(in);
    return 0;
}

int merge(const call_t *in, int threads) { return run_tasks(in, in->n.batch, threads, merge_image); }
