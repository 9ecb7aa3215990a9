/* Working memory, for each thread: `floats` numbers, then `indices` integers; every part starts aligned.
   A thread takes every n-th image, so that its memory stays in its cache. */
#ifndef CATIS_ROOM_H
#define CATIS_ROOM_H

#include <stdlib.h>

#include "lanes.h"

typedef struct {
    char *data;
    size_t floats, each;
} room_t;

INLINE int64_t workers_for(int64_t tasks, int threads) { return tasks < threads ? tasks : threads > 1 ? threads : 1; }

INLINE room_t new_room(int64_t workers, int64_t floats, int64_t indices) {
    const size_t numbers = PADDED(floats) * sizeof(float), each = numbers + PADDED(indices) * sizeof(int64_t);
    return (room_t){malloc(workers * each), numbers, each};
}

INLINE float *floats_of(room_t room, int64_t worker) { return (float *)(room.data + worker * room.each); }

INLINE int64_t *indices_of(room_t room, int64_t worker) {
    return (int64_t *)(room.data + worker * room.each + room.floats);
}

#endif
