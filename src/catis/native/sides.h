/* Two sides of one image's tokens, who of B is most similar to each token of A, and the plan that follows from it. */
#ifndef CATIS_SIDES_H
#define CATIS_SIDES_H

#include "keys.h"
#include "order.h"
#include "room.h"

typedef struct {
    int64_t size_a, size_b, *side_a, *side_b; /* the tokens of each side */
    float *best;                              /* of each A token: the highest score, and the place in B that has it */
    int64_t *place, *ranked, *keys;           /* places in A, best first; memory of the sort */
} sides_t;

INLINE sides_t take_sides(room_t *room, int64_t patches) {
    sides_t at = {0};
    at.side_a = take_indices(room, patches);
    at.side_b = take_indices(room, patches);
    at.best = take_floats(room, patches);
    at.place = take_indices(room, patches);
    at.ranked = take_indices(room, patches);
    at.keys = take_indices(room, patches);
    return at;
}

/* Tokens go to the sides in turn: in the order of a list, or (without one) their own. The one at `first` begins A. */
INLINE void deal(const int64_t *list, int64_t count, int64_t first, sides_t *at) {
    at->size_b = (count + first) / 2, at->size_a = count - at->size_b;
    for (int64_t i = 0; i < at->size_a; i++) at->side_a[i] = list ? list[2 * i + first] : 2 * i + first;
    for (int64_t i = 0; i < at->size_b; i++) at->side_b[i] = list ? list[2 * i + 1 - first] : 2 * i + 1 - first;
}

/* Best partner of every A token, by (N_p, d) keys of unit length. */
INLINE void match(const float *unit, int64_t width, float *panels, sides_t *at) {
    pack(unit, width, at->side_b, at->size_b, width, panels);
    best_columns(unit, width, at->side_a, at->size_a, panels, at->size_b, width, at->best, at->place);
    order(at->best, at->size_a, 1, at->keys, at->ranked);
}

/* The first r of the ranking merge; output order is [tokens that are on no side, surviving A, B]. */
INLINE void write_plan(const call_t *in, const int64_t *others, int64_t count, int in_token_order, sides_t *at) {
    const int64_t r = in->n.gone, stay = at->size_a - r;
    for (int64_t t = 0; t < r; t++) {
        in->removed[t] = at->side_a[at->ranked[t]];
        in->target[t] = at->place[at->ranked[t]] + count + stay;
    }
    int64_t *keep = in->keep;
    for (int64_t t = 0; t < count; t++) *keep++ = others[t];
    survivors(at->ranked, at->size_a, r, in_token_order, at->keys, keep);
    for (int64_t t = 0; t < stay; t++, keep++) *keep = at->side_a[*keep];
    for (int64_t t = 0; t < at->size_b; t++) *keep++ = at->side_b[t];
}

#endif
