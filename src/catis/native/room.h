/* Working memory, one piece per thread. A kernel's function first takes what it needs from a room: run on a room without
   memory it only counts and returns, so what is counted is what is handed out. */
#ifndef CATIS_ROOM_H
#define CATIS_ROOM_H

#include <stdlib.h>

#include "kernels.h"
#include "lanes.h"

#define ALIGNED 64

typedef struct {
    char *data; /* NULL: only count */
    size_t used;
} room_t;

INLINE void *take_bytes(room_t *room, size_t bytes) {
    char *at = room->data ? room->data + room->used : NULL;
    room->used += (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    return at;
}

INLINE float *take_floats(room_t *room, int64_t count) { return take_bytes(room, (size_t)count * sizeof(float)); }
INLINE double *take_doubles(room_t *room, int64_t count) { return take_bytes(room, (size_t)count * sizeof(double)); }
INLINE int64_t *take_indices(room_t *room, int64_t count) { return take_bytes(room, (size_t)count * sizeof(int64_t)); }

/* One task of a kernel: an image, or a part of one. Returns 0 or what went wrong. */
typedef int task_t(const call_t *in, int64_t task, room_t *room);

/* Runs all tasks. A thread takes every n-th, so that its memory stays in its cache. */
static inline int run_tasks(const call_t *in, int64_t tasks, int threads, task_t *run) {
    const int64_t workers = tasks < threads ? tasks : threads > 1 ? threads : 1;
    room_t counted = {0};
    int code = 0;
    run(in, 0, &counted);
    char *block = malloc((size_t)workers * counted.used);
    if (!block) return NO_MEMORY;
#pragma omp parallel for num_threads((int)workers) reduction(| : code) if (workers > 1)
    for (int64_t w = 0; w < workers; w++)
        for (int64_t task = w; task < tasks; task += workers) {
            room_t room = {block + (size_t)w * counted.used, 0};
            code |= run(in, task, &room);
        }
    free(block);
    return code;
}

#endif
