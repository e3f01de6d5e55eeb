/* From the configurations before a return to those after it: register_frontier. */

#ifndef HIGHWATER_FRONTIER_H
#define HIGHWATER_FRONTIER_H

#include "steps.h"

static bool dominates(const struct search *s, const uint64_t *strong, const uint64_t *weak) {
    uint64_t writes = s->write_mask, cas = s->cas_mask;
    uint64_t differing = strong[DONE] ^ weak[DONE];
    if (weak[OPTIONAL] & ~strong[OPTIONAL] || differing & writes & ~strong[OPTIONAL] || differing & cas ||
        weak[DONE] & ~(strong[DONE] | writes | cas)) {
        return false;
    }
    return s->relaxed || is_subset(s, strong + USED, weak + USED);
}

/* Drop from s->after what stands there twice; the first of them stays. */
static void drop_repeated(struct search *s) {
    size_t buckets = 16, kept = 0;
    while (buckets < s->after.count) {
        buckets *= 2;
    }
    if (!clear_buckets(s, buckets) || !reserve(s, &s->chain, s->after.count)) {
        return;
    }
    for (size_t i = 0; i < s->after.count; i++) {
        const uint64_t *config = row(s, &s->after, i);
        uint64_t at = s->buckets.at[hash_of(config, s->row_words) & (buckets - 1)];
        while (at != 0 && memcmp(row(s, &s->after, at - 1), config, s->row_words * sizeof *config) != 0) {
            at = s->chain.at[at - 1];
        }
        if (at == 0) {
            memmove(row(s, &s->after, kept), config, s->row_words * sizeof *config);
            chain_up(s, &s->after, kept++, buckets, s->row_words);
        }
    }
    s->after.count = kept;
}

/* The places in s->after, as s->sorted, by group of one value, in the order in which the values come first there;
 * s->groups says where each group ends. Returns how many groups there are. */
static size_t group(struct search *s) {
    size_t groups = 0, count = s->after.count;
    if (!reserve(s, &s->groups, count + 1) || !reserve(s, &s->sorted, count)) {
        return 0;
    }
    s->stamp++;
    for (size_t i = 0; i < count; i++) {
        int64_t slot = (int64_t)row(s, &s->after, i)[VALUE] + 1;
        if (s->stamps[slot] != s->stamp) {
            s->stamps[slot] = s->stamp;
            s->group_of[slot] = (int64_t)groups;
            s->groups.at[groups++] = 0;
        }
        s->groups.at[s->group_of[slot]]++;
    }
    uint64_t start = 0;
    for (size_t g = 0; g < groups; g++) {
        uint64_t size = s->groups.at[g];
        s->groups.at[g] = start;
        start += size;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t *config = row(s, &s->after, i);
        s->sorted.at[s->groups.at[s->group_of[config[VALUE] + 1]]++] = promise(s, config) << 32 | i;
    }
    return groups;
}

/* Keep the best of one group; what the relaxed run may need as a witness is added to the `spare` ones. */
static void keep_best(struct search *s, const uint64_t *places, size_t count, size_t *spare) {
    size_t best = 0;
    if (!reserve(s, &s->best, count) || !reserve(s, &s->spare, *spare + count)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t *config = row(s, &s->after, place_of(places[i]));
        bool is_dominated = false;
        for (size_t j = 0; j < best && j < s->dominance_max && !is_dominated; j++) {
            is_dominated = dominates(s, row(s, &s->after, s->best.at[j]), config);
        }
        if (is_dominated) {
            continue;
        }
        size_t left = 0;
        for (size_t j = 0; s->relaxed && j < best; j++) {
            const uint64_t *weak = row(s, &s->after, s->best.at[j]);
            if (!dominates(s, config, weak)) {
                s->best.at[left++] = s->best.at[j];
            } else if (!is_reused(s, weak)) {
                s->spare.at[(*spare)++] = s->best.at[j];
            }
        }
        best = s->relaxed ? left : best;
        s->best.at[best++] = place_of(places[i]);
    }
    for (size_t j = 0; j < best; j++) {
        push(s, &s->kept, row(s, &s->after, s->best.at[j]));
    }
}

/* s->after without those for which another one of them, of the same value, can do all that they can. */
static void drop_dominated(struct search *s) {
    size_t before = s->after.count, spare = 0, start = 0;
    drop_repeated(s);
    size_t groups = s->failed ? 0 : group(s);
    if (s->failed || groups == before) {
        return;
    }
    s->kept.count = 0;
    for (size_t g = 0; g < groups && !s->failed; g++) {
        size_t end = (size_t)s->groups.at[g];
        sort(s->sorted.at + start, end - start);
        keep_best(s, s->sorted.at + start, end - start, &spare);
        start = end;
    }
    if (s->failed || !reserve(s, &s->sorting, spare)) {
        return;
    }
    for (size_t i = 0; i < spare; i++) {
        s->sorting.at[i] = promise(s, row(s, &s->after, s->spare.at[i])) << 32 | i;
    }
    sort(s->sorting.at, spare);
    for (size_t i = 0; i < spare && i < s->witnesses; i++) {
        push(s, &s->kept, row(s, &s->after, s->spare.at[place_of(s->sorting.at[i])]));
    }
    swap(&s->after, &s->kept);
}

/* s->after: the configurations after operation `k` returned by event `index`. */
static void after_return(struct search *s, int64_t k, int64_t index) {
    const struct register_history *h = s->h;
    uint64_t bit = bit_of(s, k);
    bool as_last = h->kinds[k] == WRITE && (h->needed[h->values[k]] > index || h->has_misses);
    s->after.count = 0;
    for (size_t i = 0; i < s->frontier.count && !s->failed; i++) {
        const uint64_t *config = row(s, &s->frontier, i);
        if (config[DONE] & bit) {
            push(s, &s->after, config)[DONE] ^= bit;
            continue;
        }
        if (config[OPTIONAL] & bit) {
            push(s, &s->after, config)[OPTIONAL] ^= bit;
            if (!as_last) {
                continue;
            }
        }
        reach(s, config, k);
    }
    toggle(s, k, false);
    if (s->after.count < 2) {
        return;
    }
    for (size_t i = 0; i < s->after.count; i++) {
        uint64_t *config = row(s, &s->after, i);
        if ((int64_t)config[VALUE] != FORGOTTEN && h->needed[config[VALUE]] <= index) {
            config[VALUE] = (uint64_t)FORGOTTEN;
        }
    }
    drop_dominated(s);
}

#endif
