/* CATIS' unary signals of one image (docs/methods.md, CATIS); twins of core/signals.py and of BlockView.cls_attention. */
#ifndef CATIS_SIGNALS_H
#define CATIS_SIGNALS_H

#include "keys.h"
#include "softmax.h"

#define STRIPE 64

/* Mean and 1 / variance over the tokens, of a stripe of channels; 0 for a constant one, which differs by rounding alone. */
INLINE void statistics(const float *features, int64_t patches, int64_t channels, int width, float *mean, float *precision) {
    float sum[STRIPE] = {0}, square[STRIPE] = {0};
    for (int64_t t = 0; t < patches; t++)
        for (int c = 0; c < width; c++) sum[c] += features[t * channels + c];
    for (int c = 0; c < width; c++) mean[c] = sum[c] /= (float)patches;
    for (int64_t t = 0; t < patches; t++)
        for (int c = 0; c < width; c++) {
            const float away = features[t * channels + c] - sum[c];
            square[c] += away * away;
        }
    for (int c = 0; c < width; c++) {
        const float variance = square[c] / (float)patches, floor = 8 * 1.1920929e-7f * sum[c];
        precision[c] = variance <= floor * floor ? 0.0f : 1.0f / variance;
    }
}

/* s_nf = || (z - mu) / sigma ||_2 over the patch tokens (Eq. norm-f); `room` has 2 C floats. */
INLINE void activation(const float *features, int64_t patches, int64_t channels, float *room, float *score) {
    float *mean = room, *precision = mean + channels;
    int64_t at = 0;
    for (; at + STRIPE <= channels; at += STRIPE)
        statistics(features + at, patches, channels, STRIPE, mean + at, precision + at);
    statistics(features + at, patches, channels, (int)(channels - at), mean + at, precision + at);
    for (int64_t t = 0; t < patches; t++, features += channels) {
        float part[LANES] = {0};
        for (at = 0; at + LANES <= channels; at += LANES)
            for (int lane = 0; lane < LANES; lane++) {
                const float away = features[at + lane] - mean[at + lane];
                part[lane] += away * away * precision[at + lane];
            }
        for (; at < channels; at++) part[0] += (features[at] - mean[at]) * (features[at] - mean[at]) * precision[at];
        score[t] = sqrtf(sum_of(part));
    }
}

/* A_cls: CLS row of the softmax, summed over heads, renormalised over the patches; `room` has twice N, padded. */
INLINE void cls_attention(const call_t *in, float *room, float *attention) {
    const int64_t tokens = in->n.tokens;
    float *row = room, *received = row + PADDED(tokens), total = 0;
    memset(received, 0, PADDED(tokens) * sizeof *received);
    for (int64_t head = 0; head < in->n.heads; head++) {
        const float *q = in->query.data + head * in->query.head, *k = in->key.data + head * in->key.head;
        for (int64_t t = 0; t < tokens; t++)
            row[t] = dot(q, k + t * in->key.token, in->n.width) * in->scale + (in->bias ? in->bias[t] : 0.0f);
        add_softmax(row, tokens, received);
    }
    for (int64_t t = in->prefix; t < tokens; t++) total += received[t];
    total = total < TINY ? TINY : total;
    for (int64_t t = 0; t < in->n.patches; t++) attention[t] = received[in->prefix + t] / total;
}

/* Zero mean, unit variance (Eq. zscore); zeros for a constant signal. */
INLINE void standardise(float *values, int64_t count) {
    float mean = 0, square = 0;
    for (int64_t t = 0; t < count; t++) mean += values[t];
    mean /= (float)count;
    for (int64_t t = 0; t < count; t++) values[t] -= mean, square += values[t] * values[t];
    float spread = sqrtf(square / (float)count);
    spread = spread > 1e-5f * fabsf(mean) ? spread : INFINITY;
    for (int64_t t = 0; t < count; t++) values[t] /= spread;
}

#endif
