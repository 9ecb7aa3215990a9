/* What the kernels take and give. Each list below is one struct: module.c fills it by name from Python's arguments, and
   checks every tensor against the sizes written beside it. All kernels return 0 or what went wrong. */
#ifndef CATIS_KERNELS_H
#define CATIS_KERNELS_H

#include <stdint.h>

enum { NO_MEMORY = 1, WRONG_PLAN = 2 };

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

typedef const float *floats_t;
typedef float *output_t;
typedef const int64_t *indices_t;
typedef int64_t *chosen_t;
typedef int64_t whole_t;
typedef float number_t;

/* Kinds: heads as above; floats (float32) and indices (int64) to read, output and chosen to write, all contiguous;
   whole and number are plain numbers. "?" stands before what may be None (NULL). */
#define TOME(FIELD)             \
    FIELD(heads, key, "BHND")   \
    FIELD(whole, prefix, "")    \
    FIELD(chosen, keep, "BK")   \
    FIELD(chosen, removed, "BR") \
    FIELD(chosen, target, "BR") \
    FIELD(output, score, "?BM") /* best similarity of every A token, NaN for B */

#define PITOME(FIELD)            \
    FIELD(heads, key, "BHND")    \
    FIELD(whole, prefix, "")     \
    FIELD(number, margin, "")    \
    FIELD(whole, pure, "")       \
    FIELD(chosen, keep, "BK")    \
    FIELD(chosen, removed, "BR") \
    FIELD(chosen, target, "BR")  \
    FIELD(output, score, "BM") /* the energy */

#define CATIS(FIELD)                                                             \
    FIELD(floats, features, "BNC")                                               \
    FIELD(heads, query, "BHND")                                                  \
    FIELD(heads, key, "BHND")                                                    \
    FIELD(heads, content_key, "BGND")                                            \
    FIELD(floats, bias, "?B11N")                                                 \
    FIELD(floats, previous, "?BM")                                               \
    FIELD(whole, prefix, "")                                                     \
    FIELD(whole, evictions, "")                                                  \
    FIELD(whole, uses_norm, "") /* which signals enter the score */              \
    FIELD(whole, uses_cls, "")                                                   \
    FIELD(number, scale, "")                                                     \
    FIELD(number, gamma, "")                                                     \
    FIELD(number, w_cls, "")                                                     \
    FIELD(number, tau, "")                                                       \
    FIELD(chosen, keep, "BK")                                                    \
    FIELD(chosen, removed, "BR")                                                 \
    FIELD(chosen, target, "BR")                                                  \
    FIELD(output, attention, "?BM") /* A_cls; NULL: is not needed */             \
    FIELD(output, norm, "?BM")      /* for an explanation: z(s_nf), z(s_cls), s */ \
    FIELD(output, context, "?BM")                                                \
    FIELD(output, score, "?BM")

#define RECEIVED(FIELD)          \
    FIELD(heads, query, "BHND")  \
    FIELD(heads, key, "BHND")    \
    FIELD(floats, bias, "?B11N") \
    FIELD(number, scale, "")     \
    FIELD(whole, prefix, "")     \
    FIELD(output, received, "BM") /* mean over heads and queries */

#define MCTF(FIELD)                                                              \
    FIELD(floats, residual, "BNC")                                               \
    FIELD(floats, received, "BM")                                                \
    FIELD(floats, size, "?BM")                                                   \
    FIELD(whole, prefix, "")                                                     \
    FIELD(whole, first, "")   /* how many of r go from A to B */                 \
    FIELD(whole, similar, "") /* whether similarity counts */                    \
    FIELD(number, info, "")   /* powers of attention received and of size, 0 for off */ \
    FIELD(number, small, "")                                                     \
    FIELD(chosen, keep, "BK")                                                    \
    FIELD(chosen, removed, "BR")                                                 \
    FIELD(chosen, target, "BR")                                                  \
    FIELD(output, weight, "BM") /* attention received times size */

enum { BY_SIZE, EVENLY, BY_WEIGHT, MLERP };

#define MERGE(FIELD)                                            \
    FIELD(floats, x, "BNC")                                     \
    FIELD(whole, prefix, "")                                    \
    FIELD(whole, blend, "")                                     \
    FIELD(indices, keep, "BK")                                  \
    FIELD(indices, removed, "BR")                               \
    FIELD(indices, target, "?BR") /* NULL when all are evicted */ \
    FIELD(floats, size, "?BM")                                  \
    FIELD(floats, weight, "?BM")                                \
    FIELD(floats, attention, "?BM")                             \
    FIELD(output, next_x, "BTC")                                \
    FIELD(output, next_size, "?BK")                             \
    FIELD(output, log_size, "?B11T")                            \
    FIELD(output, next_attention, "?BK")

#define DECLARE_SIZE(letter, name) int64_t name;
typedef struct {
    SIZES(DECLARE_SIZE)
} sizes_t;

#define DECLARE(kind, name, shape) kind##_t name;
typedef struct {
    sizes_t n;
    TOME(DECLARE)
} tome_t;
typedef struct {
    sizes_t n;
    PITOME(DECLARE)
} pitome_t;
typedef struct {
    sizes_t n;
    CATIS(DECLARE)
} catis_t;
typedef struct {
    sizes_t n;
    RECEIVED(DECLARE)
} received_t;
typedef struct {
    sizes_t n;
    MCTF(DECLARE)
} mctf_t;
typedef struct {
    sizes_t n;
    MERGE(DECLARE)
} merge_t;

int decide_tome(const tome_t *in, int threads);
int decide_pitome(const pitome_t *in, int threads);
int decide_catis(const catis_t *in, int threads);
int attention_received(const received_t *in, int threads);
int decide_mctf(const mctf_t *in, int threads);
int merge(const merge_t *in, int threads);

#endif
