/* Working memory, one piece per thread. A kernel has one function that takes what it needs from a room: run on a room
   without memory it only counts, so what is counted is what is handed out. A thread takes every n-th image, so that its
   memory stays in its cache. */
#ifndef CATIS_ROOM_H
#define CATIS_ROOM_H

#include <stdlib.h>

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

INLINE int64_t workers_for(int64_t tasks, int threads) { return tasks < threads ? tasks : threads > 1 ? threads : 1; }

/* Memory of worker `w` in a block of pieces of `each` bytes. */
INLINE room_t room_of(char *block, size_t each, int64_t w) { return (room_t){block + (size_t)w * each, 0}; }

#endif
