/* ToMe and ToFu: the r best edges from even to odd tokens (docs/methods.md); twin of methods/tome.py, plan_bipartite. */
#include "sides.h"

HOT static int decide_image(const call_t *all, int64_t b, room_t *room) {
    const int64_t patches = all->n.patches, width = all->n.width, first = all->prefix % 2;
    float *unit = take_floats(room, patches * width), *panels = take_floats(room, PADDED(patches) * width);
    sides_t at = take_sides(room, patches);
    if (!room->data) return 0;
    const call_t in = image_of(all, b);
    unit_keys(&in, unit);
    deal(0, patches, first, &at);
    match(unit, width, panels, &at);
    write_plan(&in, 0, 0, in.prefix > 0, &at); /* without prefix by similarity, as the authors do */
    for (int64_t t = 0; in.score && t < patches; t++) in.score[t] = t % 2 == first ? at.best[t / 2] : NAN;
    return 0;
}

int decide_tome(const call_t *in, int threads) { return run_tasks(in, in->n.batch, threads, decide_image); }
