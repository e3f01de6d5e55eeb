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

/* Operations of many registers as columns, those of one side by side, in the order of their invocations. `kinds` are
 * RegisterKind, values are any numbers. What never returns does so at EVER. `starts` has, for each register and once
 * more, the row where it begins; `initial` what each begins with. */
struct register_columns {
    const int64_t *starts, *initial, *kinds, *values, *news, *invoked, *returned;
    int64_t registers_count;
};

/* How the first runs of register_search.search go: `relaxed` and `thrifty` with the room for no events, and the tries
 * that each event adds. Both together may visit `configurations`, or `per_event` if that is more. `unknown_max` is that
 * of accelerator.py. */
struct register_plan {
    struct register_walk relaxed, thrifty;
    int64_t configurations, per_event, relaxed_tries, thrifty_tries, unknown_max;
};

/* What was found of one register: the answer, the row of the operation whose return cannot be explained, and how many
 * configurations were visited. */
struct register_answer {
    int64_t answer, last, visited;
};

enum { FINISHED, LACKS_MEMORY, PAUSED, OUT_OF_ORDER };

/* The version of this interface: whoever changes a struct or its meaning counts it up. */
EXPORTED int64_t register_search_abi(void);

/* Walk on as `walk` says. FINISHED; or PAUSED, if it is to be called again; or LACKS_MEMORY, and nothing was found;
 * or OUT_OF_ORDER, if an operation ends where it begins or before, and nothing was looked at. */
EXPORTED int64_t register_search_walk(const struct register_history *history, struct register_walk *walk);

/* Free what `walk` holds, the frontier included; at any time after the first call. */
EXPORTED void register_search_free(struct register_walk *walk);

/* Fill `answers` from register `first` on by the first runs of the search alone; what these do not decide is UNDECIDED.
 * Returns the number of registers that have an answer, which may be fewer than there are: then it is to be called
 * again; -1 if memory lacked. If a row is out of order, of no kind, or not over after it began, or is an unknown one
 * that only reads, nothing is said of its register: -2 - row. `starts` must not lead beyond the columns. */
EXPORTED int64_t register_search_many(const struct register_columns *columns, const struct register_plan *plan,
                                      struct register_answer *answers, int64_t first);

#endif
