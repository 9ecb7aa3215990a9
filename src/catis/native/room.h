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

/* Every n-th task from one on, in a room of their own. */
static inline int run_some(const call_t *in, int64_t from, int64_t tasks, int64_t step, task_t *run, char *memory) {
    int code = 0;
    for (int64_t task = from; task < tasks; task += step) {
        room_t room = {memory, 0};
        code |= run(in, task, &room);
    }
    return code;
}

/* Runs all tasks. A thread takes every n-th, so that its memory stays in its cache. One worker opens no team: a task may
   open one of its own, and OpenMP makes new threads for a team inside another, even inside one of a single thread. */
static inline int run_tasks(const call_t *in, int64_t tasks, int threads, task_t *run) {
    const int64_t workers = tasks < threads ? tasks : threads > 1 ? threads : 1;
    room_t counted = {0};
    int code = 0;
    run(in, 0, &counted);
    char *block = malloc((size_t)workers * counted.used);
    if (!block) return NO_MEMORY;
    if (workers == 1) {
        code = run_some(in, 0, tasks, 1, run, block);
    } else {
#pragma omp parallel for num_threads((int)workers) reduction(| : code)
        for (int64_t w = 0; w < workers; w++)
            code |= run_some(in, w, tasks, workers, run, block + (size_t)w * counted.used);
    }
    free(block);
    return code;
}

#endif
