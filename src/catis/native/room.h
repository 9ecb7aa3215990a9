/* Working memory of one image: `floats` numbers, then `indices` integers; every part starts aligned. */
#ifndef CATIS_ROOM_H
#define CATIS_ROOM_H

#include <stdlib.h>

#include "lanes.h"

typedef struct {
    char *data;
    size_t floats, each;
} room_t;

INLINE room_t new_room(int64_t images, int64_t floats, int64_t indices) {
    const size_t numbers = PADDED(floats) * sizeof(float), each = numbers + PADDED(indices) * sizeof(int64_t);
    return (room_t){malloc(images * each), numbers, each};
}

INLINE float *floats_of(room_t room, int64_t image) { return (float *)(room.data + image * room.each); }

INLINE int64_t *indices_of(room_t room, int64_t image) {
    return (int64_t *)(room.data + image * room.each + room.floats);
}

#endif
