/* What each token gets of the attention, without the map ever being written; twin of BlockView.attention_received. */
#include "keys.h"
#include "room.h"
#include "softmax.h"

enum { HALVES = 2 }; /* a head's queries are two tasks, so that one image and few heads serve many threads */

/* Six rows of attention, added to what each token gets. */
INLINE void add_rows(const call_t *in, const float *const query[ROWS], int64_t real, const float *restrict panels,
                     const float *restrict bias, float *restrict rows, float *restrict sums) {
    const int64_t tokens = in->n.tokens, width = in->n.width, padded = PADDED(tokens);
    float found[ROWS][LANES];
    for (int64_t column = 0; column < tokens; column += LANES) {
        products(query, panels + column * width, width, found);
        for (int i = 0; i < ROWS; i++)
            for (int lane = 0; lane < LANES; lane++)
                rows[i * padded + column + lane] = found[i][lane] * in->scale + bias[column + lane];
    }
    for (int64_t i = 0; i < real; i++) add_softmax(rows + i * padded, tokens, sums);
}

/* What each token gets of one head's attention, from every second query. */
HOT static int attend(const call_t *all, int64_t task, room_t *room) {
    const int64_t tokens = all->n.tokens, padded = PADDED(tokens), head = task / HALVES % all->n.heads;
    float *panels = take_floats(room, padded * all->n.width), *rows = take_floats(room, ROWS * padded);
    float *bias = take_floats(room, padded), *sums = all->partial + task * padded;
    if (!room->data) return 0;
    const call_t in = image_of(all, task / HALVES / all->n.heads);
    const float *query = in.query.data + head * in.query.head, *row[ROWS];
    pack(in.key.data + head * in.key.head, in.key.token, 0, tokens, in.n.width, panels);
    memset(sums, 0, padded * sizeof *sums);
    memset(bias, 0, padded * sizeof *bias);
    if (in.bias) memcpy(bias, in.bias, tokens * sizeof *bias);
    for (int64_t first = task % HALVES * ROWS; first < tokens; first += HALVES * ROWS) {
        six_rows(query, in.query.token, 0, first, tokens, row);
        add_rows(&in, row, tokens - first < ROWS ? tokens - first : ROWS, panels, bias, rows, sums);
    }
    return 0;
}

/* Means over heads and queries, of sums that the tasks made. */
static void average(const call_t *in, const float *partial, float *received) {
    const int64_t padded = PADDED(in->n.tokens), parts = HALVES * in->n.heads;
    for (int64_t t = in->prefix; t < in->n.tokens; t++) {
        double total = 0;
        for (int64_t part = 0; part < parts; part++) total += partial[part * padded + t];
        *received++ = (float)(total / (double)(in->n.heads * in->n.tokens));
    }
}

int attention_received(const call_t *given, int threads) {
    const int64_t each = HALVES * given->n.heads * PADDED(given->n.tokens);
    call_t in = *given;
    in.partial = malloc((size_t)(in.n.batch * each) * sizeof *in.partial);
    if (!in.partial) return NO_MEMORY;
    const int code = run_tasks(&in, HALVES * in.n.heads * in.n.batch, threads, attend);
    for (int64_t b = 0; !code && b < in.n.batch; b++)
        average(&in, in.partial + b * each, in.received + b * in.n.patches);
    free(in.partial);
    return code;
}
