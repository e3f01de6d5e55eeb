/* A run that refutes histories too wide for the others: register_outline. */

#ifndef HIGHWATER_OUTLINE_H
#define HIGHWATER_OUTLINE_H

#include "pending.h"

/* The register may have `value` after operations in `done`; whether that is news. */
static bool add_way(struct search *s, int64_t value, uint64_t done) {
    if (!s->is_possible[value]) {
        s->is_possible[value] = 1;
        s->possible[s->possible_count++] = value;
        s->ways[value] = done;
        return true;
    }
    bool is_new = done & ~s->ways[value];
    s->ways[value] |= done;
    return is_new;
}

static void begin_outline(struct search *s, int64_t k) {
    int64_t kind = s->h->kinds[k], value = s->h->values[k];
    toggle(s, k, true);
    for (size_t i = 0; (kind == READ || kind == MISS) && i < s->possible_count; i++) {
        if ((s->possible[i] == value) == (kind == READ)) {
            s->ways[s->possible[i]] |= bit_of(s, k);
        }
    }
}

static bool add_compare_and_set_ways(struct search *s, int64_t value) {
    uint64_t done = s->ways[value];
    bool is_new = false;
    for (int64_t k = s->write_first[value]; k != NONE; k = s->next_pending[k]) {
        done |= bit_of(s, k);
    }
    for (int64_t k = s->cas_first[value]; k != NONE; k = s->next_pending[k]) {
        int64_t new = s->h->news[k];
        is_new |= add_way(s, new, done | bit_of(s, k) | seen(s, new));
    }
    for (int64_t a = s->from_first[value]; a != NONE; a = s->alike[a].next_from) {
        is_new |= add_way(s, s->alike[a].into, done | seen(s, s->alike[a].into));
    }
    return is_new;
}

/* All that pending operations can make of the ways. */
static void close_outline(struct search *s) {
    for (bool is_new = true; is_new;) {
        uint64_t anyhow = s->write_mask;
        is_new = false;
        for (size_t i = 0; i < s->possible_count; i++) {
            anyhow |= s->ways[s->possible[i]];
        }
        for (int64_t value = s->write_keys.first; value != NONE; value = s->write_keys.next[value]) {
            is_new |= add_way(s, value, anyhow | seen(s, value));
        }
        for (size_t i = 0; i < s->touched_count; i++) {
            if (s->unknown_writes[s->touched[i]] != NONE) {
                is_new |= add_way(s, s->touched[i], anyhow | seen(s, s->touched[i]));
            }
        }
        for (size_t i = 0; i < s->possible_count; i++) {
            is_new |= add_compare_and_set_ways(s, s->possible[i]);
        }
    }
}

/* Leave only ways on which operation `k` took effect. */
static void end_outline(struct search *s, int64_t k) {
    size_t kept = 0;
    for (size_t i = 0; i < s->possible_count; i++) {
        int64_t value = s->possible[i];
        if (s->ways[value] & bit_of(s, k)) {
            s->ways[value] ^= bit_of(s, k);
            s->possible[kept++] = value;
        } else {
            s->is_possible[value] = 0;
        }
    }
    s->possible_count = kept;
    toggle(s, k, false);
}

/* The ways as configurations, the least value first. */
static void tell_outline(struct search *s) {
    qsort(s->possible, s->possible_count, sizeof *s->possible, compare_values);
    s->lost.count = 0;
    for (size_t i = 0; i < s->possible_count; i++) {
        memset(s->here, 0, s->row_words * sizeof *s->here);
        s->here[VALUE] = (uint64_t)s->possible[i];
        s->here[DONE] = s->ways[s->possible[i]];
        push(s, &s->lost, s->here);
    }
}

#endif
