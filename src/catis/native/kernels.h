/* What the kernels take and give: one struct, filled by name from Python's arguments (fields.c), with every tensor
   checked against the sizes written beside it. */
#ifndef CATIS_KERNELS_H
#define CATIS_KERNELS_H

#include <stdint.h>

enum { TOME = 1, PITOME = 2, CATIS = 4, RECEIVED = 8, MCTF = 16, MERGE = 32 };
enum { NO_MEMORY = 1, WRONG_PLAN = 2 };
enum { BY_SIZE, EVENLY, BY_WEIGHT, MLERP };

/* Sizes, each under the letter that stands for it in a tensor's shape: "BHND" is (batch, heads, tokens, width). */
#define SIZES(SIZE)                                                     \
    SIZE('B', batch)                                                    \
    SIZE('N', tokens)         /* prefix and patches that enter */       \
    SIZE('M', patches)        /* N_p */                                 \
    SIZE('K', kept)           /* patches that stay */                   \
    SIZE('R', gone)           /* patches that go */                     \
    SIZE('T', left)           /* prefix and patches that stay */        \
    SIZE('C', channels)       /* width of the residual stream */        \
    SIZE('H', heads)                                                    \
    SIZE('G', content_heads)  /* keys before rotation may be shared */  \
    SIZE('D', width)          /* of a head */

/* (B, H, N, d) of some strides, in floats; the last one is 1. */
typedef struct {
    const float *data;
    int64_t image, head, token;
} heads_t;

typedef float *floats_t;    /* contiguous float32 */
typedef int64_t *indices_t; /* contiguous int64 */
typedef int64_t whole_t;
typedef float number_t;

#define CHOOSE (TOME | PITOME | CATIS | MCTF)

/* Kind, name and shape; which kernels read it, which ones write it, and for which of these it may be None (NULL). */
#define FIELDS(FIELD)                                                                                              \
    FIELD(whole, prefix, "", CHOOSE | RECEIVED | MERGE, 0, 0)                                                      \
    FIELD(heads, query, "BHND", CATIS | RECEIVED, 0, 0)                                                            \
    FIELD(heads, key, "BHND", CATIS | RECEIVED, 0, 0)                                                              \
    FIELD(heads, content_key, "BGND", TOME | PITOME | CATIS, 0, 0)                                                 \
    FIELD(floats, features, "BNC", CATIS, 0, 0)                                                                    \
    FIELD(floats, residual, "BNC", MCTF | MERGE, 0, 0)                                                             \
    FIELD(floats, bias, "B11N", CATIS | RECEIVED, 0, CATIS | RECEIVED)                                             \
    FIELD(number, scale, "", CATIS | RECEIVED, 0, 0)                                                               \
    FIELD(number, margin, "", PITOME, 0, 0)                                                                        \
    FIELD(whole, pure, "", PITOME, 0, 0)                                                                           \
    FIELD(floats, previous, "BM", CATIS, 0, CATIS)                                                                 \
    FIELD(whole, evictions, "", CATIS, 0, 0)                                                                       \
    FIELD(whole, uses_norm, "", CATIS, 0, 0) /* which signals enter the score */                                   \
    FIELD(whole, uses_cls, "", CATIS, 0, 0)                                                                        \
    FIELD(number, gamma, "", CATIS, 0, 0)                                                                          \
    FIELD(number, w_cls, "", CATIS, 0, 0)                                                                          \
    FIELD(number, tau, "", CATIS, 0, 0)                                                                            \
    FIELD(floats, norm, "BM", 0, CATIS, CATIS) /* for an explanation: z(s_nf), z(s_cls) */                         \
    FIELD(floats, context, "BM", 0, CATIS, CATIS)                                                                  \
    FIELD(floats, score, "BM", 0, TOME | PITOME | CATIS, TOME | PITOME | CATIS) /* what decided */                 \
    FIELD(floats, attention, "BM", MERGE, CATIS, MERGE | CATIS) /* A_cls */                                        \
    FIELD(floats, received, "BM", MCTF, RECEIVED, 0)            /* mean over heads and queries */                  \
    FIELD(floats, size, "BM", MCTF | MERGE, 0, MCTF | MERGE)                                                       \
    FIELD(whole, first, "", MCTF, 0, 0)   /* how many of r go from A to B */                                       \
    FIELD(whole, similar, "", MCTF, 0, 0) /* whether similarity counts */                                          \
    FIELD(number, info, "", MCTF, 0, 0)   /* powers of attention received and of size, 0 for off */                \
    FIELD(number, small, "", MCTF, 0, 0)                                                                           \
    FIELD(floats, weight, "BM", MERGE, MCTF, MERGE) /* attention received times size */                            \
    FIELD(whole, blend, "", MERGE, 0, 0)                                                                           \
    FIELD(whole, restore_norm, "", MERGE, 0, 0) /* whether means get the mean norm of their members */             \
    FIELD(indices, keep, "BK", MERGE, CHOOSE, 0)                                                                   \
    FIELD(indices, removed, "BR", MERGE, CHOOSE, 0)                                                                \
    FIELD(indices, target, "BR", MERGE, CHOOSE, MERGE) /* NULL when all are evicted */                             \
    FIELD(floats, next_tokens, "BTC", 0, MERGE, 0)                                                                 \
    FIELD(floats, next_size, "BK", 0, MERGE, MERGE)                                                                \
    FIELD(floats, log_size, "B11T", 0, MERGE, MERGE)                                                               \
    FIELD(floats, next_attention, "BK", 0, MERGE, MERGE)

#define DECLARE_SIZE(letter, name) int64_t name;
typedef struct {
    SIZES(DECLARE_SIZE)
} sizes_t;

#define DECLARE(kind, name, shape, reads, writes, optional) kind##_t name;
typedef struct {
    sizes_t n;
    FIELDS(DECLARE)
    float *partial; /* what the tasks of attention_received give each other */
} call_t;

/* The same call for one image alone. */
call_t image_of(const call_t *in, int64_t b);

/* All kernels return 0 or what went wrong. */
int decide_tome(const call_t *in, int threads);
int decide_pitome(const call_t *in, int threads);
int decide_catis(const call_t *in, int threads);
int attention_received(const call_t *in, int threads);
int decide_mctf(const call_t *in, int threads);
int merge(const call_t *in, int threads);

#endif
