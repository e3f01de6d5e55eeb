/* What Python calls, by ctypes: see accelerator.py, which has the same structs. */

#ifndef HIGHWATER_INTERFACE_H
#define HIGHWATER_INTERFACE_H

#include <stdint.h>

#define ABI_VERSION 1
#define EXPORTED __attribute__((visibility("default")))

/* The arrays of RegisterEvents. `places` are the numbers of the bits; `values_count` is the length of `needed`. */
struct register_history {
    const int64_t *events, *kinds, *values, *news, *places, *ends, *needed;
    int64_t events_count, operations_count, values_count, unknown, has_misses;
};

/* What is asked, and what was found. `width` is 0 for the relaxed run, which looks at `stop`, all events, and lets
 * nothing wait. The second line are the constants of these names in Python. `frontier` has `frontier_count` rows of `row_words` integers, and is freed by register_walk_free. */
struct register_walk {
    int64_t width, stop, room, waiting_max;
    int64_t relaxed_width, dominance_max, witnesses;
    int64_t answer, reached, died, visited, frontier_count, row_words;
    uint64_t *frontier;
};

/* The version of this interface: whoever changes a struct or its meaning counts it up. */
EXPORTED int64_t register_search_abi(void);

/* Walk as `walk` says. Returns 0, or 1 if memory lacked; then nothing was found. */
EXPORTED int64_t register_search_walk(const struct register_history *history, struct register_walk *walk);

EXPORTED void register_search_free(struct register_walk *walk);

#endif
