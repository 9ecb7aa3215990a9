/* What each token gets of the attention, without the map ever being written; twin of BlockView.attention_received. */
#include "kernels.h"
#include "keys.h"
#include "room.h"
#include "softmax.h"

/* Six rows of attention; `bias` is padded, `rows` has room for them. */
INLINE void add_rows(const float *const query[ROWS], int64_t real, float scale, shape_t shape, const float *restrict bias,
                     const float *restrict panels, float *restrict rows, float *restrict received) {
    const int64_t padded = PADDED(shape.tokens);
    float found[ROWS][LANES];
    for (int64_t column = 0; column < shape.tokens; column += LANES) {
        products(query, panels + column * shape.width, shape.width, found);
        for (int i = 0; i < ROWS; i++)
            for (int lane = 0; lane < LANES; lane++)
                rows[i * padded + column + lane] = found[i][lane] * scale + bias[column + lane];
    }
    for (int64_t i = 0; i < real; i++) add_softmax(rows + i * padded, shape.tokens, received);
}

/* What each token gets of one head's attention, from every second query: `half` says from which. */
HOT static void attend(attention_t in, shape_t shape, int64_t image, int64_t head, int64_t half, float *room,
                       float *received) {
    const int64_t padded = PADDED(shape.tokens);
    const float *query = in.query.data + image * in.query.image + head * in.query.head, *row[ROWS];
    float *panels = room, *rows = panels + padded * shape.width, *bias = rows + ROWS * padded;
    pack(in.key.data + image * in.key.image + head * in.key.head, in.key.token, 0, shape.tokens, shape.width, panels);
    memset(received, 0, padded * sizeof *received);
    memset(bias, 0, padded * sizeof *bias);
    if (in.bias) memcpy(bias, in.bias + image * shape.tokens, shape.tokens * sizeof *bias);
    for (int64_t first = half * ROWS; first < shape.tokens; first += 2 * ROWS) {
        six_rows(query, in.query.token, 0, first, shape.tokens, row);
        add_rows(row, shape.tokens - first < ROWS ? shape.tokens - first : ROWS, in.scale, shape, bias, panels, rows, received);
    }
}

/* Means over heads and queries, of sums that the threads made. */
static void average(shape_t shape, const float *partial, float *received) {
    const int64_t padded = PADDED(shape.tokens), parts = 2 * shape.heads;
    for (int64_t t = shape.prefix; t < shape.tokens; t++) {
        double total = 0;
        for (int64_t part = 0; part < parts; part++) total += partial[part * padded + t];
        *received++ = (float)(total / (double)(shape.heads * shape.tokens));
    }
}

int attention_received(attention_t in, shape_t shape, float *received, int threads) {
    const int64_t patches = shape.tokens - shape.prefix, padded = PADDED(shape.tokens), each = 2 * shape.heads;
    const int64_t tasks = shape.batch * each, workers = workers_for(tasks, threads);
    const room_t room = new_room(workers, padded * (shape.width + ROWS + 1), 0);
    float *partial = malloc(tasks * padded * sizeof *partial);
    if (!room.data || !partial) return free(room.data), free(partial), NO_MEMORY;
#pragma omp parallel for num_threads((int)workers) if (workers > 1)
    for (int64_t w = 0; w < workers; w++)
        for (int64_t task = w; task < tasks; task += workers)
            attend(in, shape, task / each, task % each / 2, task % 2, floats_of(room, w), partial + task * padded);
    for (int64_t b = 0; b < shape.batch; b++) average(shape, partial + b * each * padded, received + b * patches);
    free(room.data), free(partial);
    return 0;
}
