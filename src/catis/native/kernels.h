/* What the kernels take and give. All return 0 or what went wrong; float32, contiguous where nothing is said. */
#ifndef CATIS_KERNELS_H
#define CATIS_KERNELS_H

#include <stdint.h>

enum { NO_MEMORY = 1, WRONG_PLAN = 2, TOO_MANY = 3 };

/* (B, H, N, d) of some strides, in floats; the last one is 1. */
typedef struct {
    const float *data;
    int64_t image, head, token;
} heads_t;

/* (B, H, N, d), of which the first `prefix` tokens are not patches. */
typedef struct {
    int64_t batch, heads, tokens, width, prefix;
} shape_t;

/* (B, K), (B, R), (B, R): the fields of a Plan of the same names. */
typedef struct {
    int64_t *keep, *removed, *target;
} decided_t;

typedef struct {
    const float *features; /* (B, N, C) */
    int64_t channels, content_heads; /* keys before rotation may be shared by several queries */
    heads_t query, key, content_key;
    const float *bias, *previous; /* (B, N) and (B, N_p), or NULL */
    int64_t r, evictions;
    int uses_norm, uses_cls; /* which signals enter the score */
    float scale, gamma, w_cls, tau;
} catis_t;

/* (B, N_p) each, or NULL: A_cls (NULL: is not needed), and for an explanation what goes into the decision. */
typedef struct {
    float *attention, *norm, *context, *score;
} signals_t;

typedef struct {
    heads_t query, key;
    const float *bias; /* (B, N) or NULL */
    float scale;
} attention_t;

typedef struct {
    int64_t batch, tokens, channels, prefix;
    const float *residual, *received, *size; /* (B, N, C), (B, N_p), (B, N_p) or NULL */
    int64_t r1, r2;
    int similar;       /* whether similarity counts */
    float info, small; /* powers of attention received and of size, 0 for off */
} mctf_t;

enum { BY_SIZE, EVENLY, BY_WEIGHT, MLERP };

typedef struct {
    int64_t batch, prefix, kept, gone, channels;
    int blend;
    int64_t *keep, *removed, *target; /* target is NULL when all are evicted */
    const float *x, *size, *weight, *attention; /* (B, N, C), (B, N_p) each or NULL */
    float *next_x, *next_size, *log_size, *next_attention; /* (B, P + K, C), (B, K), (B, P + K), (B, K); or NULL */
} merge_t;

/* `score` (B, N_p): best similarity of every A token, NaN for B; or NULL. */
int decide_tome(heads_t key, shape_t shape, int64_t r, decided_t out, float *score, int threads);
/* `score` (B, N_p): the energy. */
int decide_pitome(heads_t key, shape_t shape, int64_t r, float margin, int pure, decided_t out, float *score, int threads);
int decide_catis(catis_t in, shape_t shape, decided_t out, signals_t signals, int threads);
/* `received` (B, N_p): mean over heads and queries. */
int attention_received(attention_t in, shape_t shape, float *received, int threads);
/* `weight` (B, N_p): attention received times size. */
int decide_mctf(mctf_t in, decided_t out, float *weight, int threads);
int merge(merge_t in, int threads);

#endif
