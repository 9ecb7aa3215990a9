/* What each token gets of the attention, without the map ever being written; twin of BlockView.attention_received. */
#include "kernels.h"
#include "keys.h"
#include "room.h"
#include "softmax.h"

typedef struct {
    float *panels, *rows, *bias;
} head_t;

INLINE head_t lay_out(const received_t *in, room_t *room) {
    const int64_t padded = PADDED(in->n.tokens);
    head_t at;
    at.panels = take_floats(room, padded * in->n.width);
    at.rows = take_floats(room, ROWS * padded);
    at.bias = take_floats(room, padded);
    return at;
}

/* Six rows of attention. */
INLINE void add_rows(const received_t *in, const float *const query[ROWS], int64_t real, head_t at, float *restrict received) {
    const int64_t tokens = in->n.tokens, width = in->n.width, padded = PADDED(tokens);
    const float *restrict bias = at.bias;
    float found[ROWS][LANES], *restrict rows = at.rows;
    for (int64_t column = 0; column < tokens; column += LANES) {
        products(query, at.panels + column * width, width, found);
        for (int i = 0; i < ROWS; i++)
            for (int lane = 0; lane < LANES; lane++)
                rows[i * padded + column + lane] = found[i][lane] * in->scale + bias[column + lane];
    }
    for (int64_t i = 0; i < real; i++) add_softmax(rows + i * padded, tokens, received);
}

/* What each token gets of one head's attention, from every second query: `half` says from which. */
HOT static void attend(const received_t *in, int64_t image, int64_t head, int64_t half, head_t at, float *received) {
    const int64_t tokens = in->n.tokens, padded = PADDED(tokens);
    const float *query = in->query.data + image * in->query.image + head * in->query.head, *row[ROWS];
    pack(in->key.data + image * in->key.image + head * in->key.head, in->key.token, 0, tokens, in->n.width, at.panels);
    memset(received, 0, padded * sizeof *received);
    memset(at.bias, 0, padded * sizeof *at.bias);
    if (in->bias) memcpy(at.bias, in->bias + image * tokens, tokens * sizeof *at.bias);
    for (int64_t first = half * ROWS; first < tokens; first += 2 * ROWS) {
        six_rows(query, in->query.token, 0, first, tokens, row);
        add_rows(in, row, tokens - first < ROWS ? tokens - first : ROWS, at, received);
    }
}

/* Means over heads and queries, of sums that the threads made. */
static void average(const received_t *in, const float *partial, float *received) {
    const int64_t padded = PADDED(in->n.tokens), parts = 2 * in->n.heads;
    for (int64_t t = in->prefix; t < in->n.tokens; t++) {
        double total = 0;
        for (int64_t part = 0; part < parts; part++) total += partial[part * padded + t];
        *received++ = (float)(total / (double)(in->n.heads * in->n.tokens));
    }
}

int attention_received(const received_t *in, int threads) {
    const int64_t padded = PADDED(in->n.tokens), each = 2 * in->n.heads;
    const int64_t tasks = in->n.batch * each, workers = workers_for(tasks, threads);
    room_t count = {0};
    lay_out(in, &count);
    char *block = malloc((size_t)workers * count.used);
    float *partial = malloc((size_t)(tasks * padded) * sizeof *partial);
    if (!block || !partial) return free(block), free(partial), NO_MEMORY;
#pragma omp parallel for num_threads((int)workers) if (workers > 1)
    for (int64_t w = 0; w < workers; w++) {
        room_t room = room_of(block, count.used, w);
        const head_t at = lay_out(in, &room);
        for (int64_t task = w; task < tasks; task += workers)
            attend(in, task / each, task % each / 2, task % 2, at, partial + task * padded);
    }
    for (int64_t b = 0; b < in->n.batch; b++)
        average(in, partial + b * each * padded, in->received + b * in->n.patches);
    free(block), free(partial);
    return 0;
}
