/* What a search holds: rows of configurations, what is pending, and room to work in; and how all that grows.
 *
 * A configuration is a row of 3 + words integers: the value id, and sets of bits. DONE and OPTIONAL are one word each;
 * the set of used unknown operations has as many words as there are unknown operations, and one more bit, so that all
 * ones, REUSED, is a set of its own. */

#ifndef HIGHWATER_STATE_H
#define HIGHWATER_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "interface.h"

enum { READ, WRITE, CAS, MISS };
enum { VALUE, DONE, OPTIONAL, USED };
enum { UNDECIDED, YES, NO };

static const int64_t EVER = (int64_t)1 << 62;
static const int64_t FORGOTTEN = -1;
static const int64_t NONE = -1;

struct words {
    uint64_t *at;
    size_t room;
};

struct rows {
    uint64_t *at;
    size_t count, room;
};

/* A dict's keys, which are value ids, in the order of their insertion. */
struct keys {
    int64_t *next, *prev;
    int64_t first, last;
};

/* Unknown operations that do the same: writes of `into`, or compare-and-sets of `from` to `into`. */
struct alike {
    int64_t from, into, next_from, next_into;
};

struct search {
    const struct register_history *h;
    size_t used_words, row_words;
    bool relaxed, failed, is_spent, left_out, is_lossy, is_reusing;
    int64_t index;
    int64_t room, held_max, enough, visited;
    size_t relaxed_width, dominance_max, witnesses;
    /* Pending, by value id. */
    uint64_t *reads, *misses, write_mask, cas_mask;
    struct keys read_keys, miss_keys, write_keys, cas_keys;
    int64_t *write_first, *cas_first, *next_pending;
    /* Unknown operations: their sets, by number of their kind; by value id the first and last kind from and into it. */
    struct alike *alike;
    uint64_t *alike_masks;
    size_t alike_count;
    int64_t *unknown_writes, *from_first, *from_last, *into_first, *into_last;
    int64_t *touched;
    size_t touched_count;
    /* Values that were wanted, or groups, in this round; and those that a compare-and-set was offered to set. */
    uint64_t *stamps, stamp, *offers, offer;
    int64_t *group_of, *wanted;
    size_t wanted_count;
    /* The outline: the values that are possible, and by value the operations that may have taken effect. */
    uint64_t *ways, *is_possible;
    int64_t *possible;
    size_t possible_count;
    uint64_t *here, *scratch;
    struct rows frontier, after, kept, todo, steps, lost;
    struct words buckets, chain, groups, sorting, sorted, spare, best;
    void *owned[48];
    size_t owned_count;
};

static void *take(struct search *s, size_t count, size_t size) {
    void *memory = s->owned_count < sizeof s->owned / sizeof *s->owned ? calloc(count + 1, size) : NULL;
    if (memory == NULL) {
        s->failed = true;
    } else {
        s->owned[s->owned_count++] = memory;
    }
    return memory;
}

static int64_t *take_nones(struct search *s, size_t count) {
    int64_t *memory = take(s, count, sizeof *memory);
    for (size_t i = 0; memory != NULL && i <= count; i++) {
        memory[i] = NONE;
    }
    return memory;
}

static bool grow(struct search *s, uint64_t **at, size_t *room, size_t needed, size_t size) {
    size_t wanted = *room < 16 ? 16 : *room;
    while (wanted < needed) {
        wanted *= 2;
    }
    if (wanted == *room) {
        return true;
    }
    uint64_t *bigger = wanted > SIZE_MAX / 2 / size ? NULL : realloc(*at, wanted * size);
    if (bigger == NULL) {
        s->failed = true;
        return false;
    }
    *at = bigger;
    *room = wanted;
    return true;
}

static bool reserve(struct search *s, struct words *words, size_t count) {
    return grow(s, &words->at, &words->room, count, sizeof *words->at);
}

static uint64_t *row(const struct search *s, const struct rows *rows, size_t place) {
    return rows->at + place * s->row_words;
}

/* A copy of `from` at the end of `rows`; where memory lacks, a row that nobody reads. */
static uint64_t *push(struct search *s, struct rows *rows, const uint64_t *from) {
    uint64_t *to = s->scratch;
    if (grow(s, &rows->at, &rows->room, rows->count + 1, s->row_words * sizeof *rows->at)) {
        to = row(s, rows, rows->count++);
    }
    memcpy(to, from, s->row_words * sizeof *to);
    return to;
}

static void swap(struct rows *one, struct rows *other) {
    struct rows kept = *one;
    *one = *other;
    *other = kept;
}

#endif
