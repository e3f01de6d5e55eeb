/* What Python calls, by ctypes: see accelerator.py, which has the same structs. */

#ifndef HIGHWATER_INTERFACE_H
#define HIGHWATER_INTERFACE_H

#include <stdint.h>

#define ABI_VERSION 4
#define EXPORTED __attribute__((visibility("default")))

/* The arrays of RegisterEvents. `places` are the numbers of the bits; `values_count` is the length of `needed`. */
struct register_history {
    const int64_t *events, *kinds, *values, *news, *places, *ends, *needed;
    int64_t events_count, operations_count, values_count, unknown, has_misses;
};

/* What is asked, and what was found. `width` is 0 for the relaxed run and -1 for the outline, which look at `stop`,
 * all events, and let nothing wait. `enough` is EVER where all explanations are looked at, `forgets` for beams that do not;
 * `memo` is how many that were tried are remembered. `slice` is after how
 * many visited configurations, or events, a call comes back though it has not finished. The second line are the
 * constants of these names in Python. `frontier` has `frontier_count` rows of `row_words` integers. `state` is what the
 * walk holds between two calls, NULL before the first. */
struct register_walk {
    int64_t width, stop, room, held_max, enough, forgets, memo, slice;
    int64_t relaxed_width, dominance_max, witnesses;
    int64_t answer, reached, died, visited, frontier_count, row_words;
    uint64_t *frontier;
    void *state;
};

enum { FINISHED, LACKS_MEMORY, PAUSED, OUT_OF_ORDER };

/* The version of this interface: whoever changes a struct or its meaning counts it up. */
EXPORTED int64_t register_search_abi(void);

/* Walk on as `walk` says. FINISHED; or PAUSED, if it is to be called again; or LACKS_MEMORY, and nothing was found;
 * or OUT_OF_ORDER, if an operation ends where it begins or before, and nothing was looked at. */
EXPORTED int64_t register_search_walk(const struct register_history *history, struct register_walk *walk);

/* Free what `walk` holds, the frontier included; at any time after the first call. */
EXPORTED void register_search_free(struct register_walk *walk);

#endif
