/* All that may happen before a pending operation returns: register_pending.Explorer. */

#ifndef HIGHWATER_STEPS_H
#define HIGHWATER_STEPS_H

#include "pending.h"

static void want(struct search *s, int64_t value) {
    if (s->stamps[value] != s->stamp) {
        s->stamps[value] = s->stamp;
        s->wanted[s->wanted_count++] = value;
    }
}

static bool any_left(const struct search *s, int64_t first, uint64_t done) {
    for (int64_t k = first; k != NONE; k = s->next_pending[k]) {
        if (!(done & bit_of(s, k))) {
            return true;
        }
    }
    return false;
}

/* All values that something pending could set or asks for. */
static void want_all(struct search *s) {
    const struct keys *all[] = {&s->write_keys, &s->read_keys, &s->cas_keys};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (int64_t value = all[i]->first; value != NONE; value = all[i]->next[value]) {
            want(s, value);
        }
    }
    for (size_t i = 0; i < s->touched_count; i++) {
        want(s, s->touched[i]);
    }
    qsort(s->wanted, s->wanted_count, sizeof *s->wanted, compare_values);
}

/* The values that something pending asks for, and the one that is to be written now. */
static void find_wanted(struct search *s, const uint64_t *config, int64_t goal) {
    uint64_t done = config[DONE];
    s->stamp++;
    s->wanted_count = 0;
    for (int64_t value = s->miss_keys.first; value != NONE; value = s->miss_keys.next[value]) {
        if (s->misses[value] & ~done) {
            want_all(s);
            return;
        }
    }
    for (int64_t value = s->read_keys.first; value != NONE; value = s->read_keys.next[value]) {
        if (s->reads[value] & ~done) {
            want(s, value);
        }
    }
    for (int64_t value = s->cas_keys.first; value != NONE; value = s->cas_keys.next[value]) {
        if (any_left(s, s->cas_first[value], done)) {
            want(s, value);
        }
    }
    for (size_t i = 0; i < s->wanted_count; i++) {
        for (int64_t a = s->into_first[s->wanted[i]]; a != NONE; a = s->alike[a].next_into) {
            if (spend(s, config + USED, mask_of(s, a), NULL)) {
                want(s, s->alike[a].from);
            }
        }
    }
    if (goal != FORGOTTEN) {
        want(s, goal);
    }
}

static uint64_t *add_step(struct search *s, const uint64_t *config, int64_t new, uint64_t bit, uint64_t optional) {
    uint64_t *step = push(s, &s->steps, config);
    step[VALUE] = (uint64_t)new;
    step[DONE] |= bit | seen(s, new);
    step[OPTIONAL] = optional;
    return step;
}

/* As a step of one of the unknown operations `alike`, if one may be used. */
static void add_unknown(struct search *s, const uint64_t *config, int64_t alike, uint64_t optional) {
    if (alike != NONE && spend(s, config + USED, mask_of(s, alike), NULL)) {
        uint64_t *step = add_step(s, config, s->alike[alike].into, 0, optional);
        spend(s, config + USED, mask_of(s, alike), step + USED);
    }
}

static void add_compare_and_sets(struct search *s, const uint64_t *config) {
    int64_t value = (int64_t)config[VALUE];
    uint64_t done = config[DONE], hidden = config[OPTIONAL];
    for (int64_t k = s->write_first[value]; k != NONE; k = s->next_pending[k]) {
        hidden |= bit_of(s, k) & ~done;
    }
    uint64_t offered = ++s->offer;
    for (int64_t k = s->cas_first[value]; k != NONE; k = s->next_pending[k]) {
        int64_t new = s->h->news[k];
        if (!(done & bit_of(s, k)) && s->offers[new] != offered) {
            s->offers[new] = offered;
            add_step(s, config, new, bit_of(s, k), hidden);
        }
    }
    for (int64_t a = s->from_first[value]; a != NONE; a = s->alike[a].next_from) {
        if (s->stamps[s->alike[a].into] == s->stamp) {
            add_unknown(s, config, a, hidden);
        }
    }
}

/* All that may take effect next, as s->steps. */
static void find_steps(struct search *s, const uint64_t *config, int64_t goal) {
    int64_t value = (int64_t)config[VALUE];
    uint64_t done = config[DONE];
    s->steps.count = 0;
    find_wanted(s, config, goal);
    if (value != FORGOTTEN) {
        add_compare_and_sets(s, config);
    }
    uint64_t writes = s->write_mask & ~done;
    for (size_t i = 0; i < s->wanted_count; i++) {
        int64_t new = s->wanted[i], k = s->write_first[new];
        while (k != NONE && done & bit_of(s, k)) {
            k = s->next_pending[k];
        }
        uint64_t known = k == NONE ? 0 : bit_of(s, k);
        if (new == value && goal != value && !(writes & ~config[OPTIONAL] & ~known)) {
            continue;
        }
        if (known) {
            add_step(s, config, new, known, writes & ~known);
        } else {
            add_unknown(s, config, s->unknown_writes[new], writes);
        }
    }
}

static uint64_t mixed(uint64_t word, uint64_t more) {
    word = (word ^ more) * UINT64_C(0x9e3779b97f4a7c15);
    return word ^ word >> 29;
}

static uint64_t hash_of(const uint64_t *at, size_t words) {
    uint64_t hash = 0;
    for (size_t word = 0; word < words; word++) {
        hash = mixed(hash, at[word]);
    }
    return mixed(hash, hash >> 32);
}

/* Empty `count` buckets, a power of two; each holds the number of its latest row, plus one. */
static bool clear_buckets(struct search *s, size_t count) {
    if (!reserve(s, &s->buckets, count)) {
        return false;
    }
    memset(s->buckets.at, 0, count * sizeof *s->buckets.at);
    return true;
}

static void chain_up(struct search *s, const struct rows *rows, size_t place, size_t count, size_t words) {
    uint64_t *bucket = &s->buckets.at[hash_of(row(s, rows, place), words) & (count - 1)];
    s->chain.at[place] = *bucket;
    *bucket = place + 1;
}

/* Put `config` at the end of s->todo and into the `*count` buckets, which may become more. */
static void remember(struct search *s, const uint64_t *config, size_t *count) {
    push(s, &s->todo, config);
    if (s->failed || !reserve(s, &s->chain, s->todo.count)) {
        return;
    }
    if (s->todo.count <= *count) {
        chain_up(s, &s->todo, s->todo.count - 1, *count, USED);
        return;
    }
    if (clear_buckets(s, *count * 4)) {
        *count *= 4;
        for (size_t i = 0; i < s->todo.count; i++) {
            chain_up(s, &s->todo, i, *count, USED);
        }
    }
}

/* Whether nothing in s->todo came to the same by fewer unknown operations, in the relaxed run by any. */
static bool is_new(const struct search *s, const uint64_t *step, size_t count) {
    uint64_t at = s->buckets.at[hash_of(step, USED) & (count - 1)];
    for (; at != 0; at = s->chain.at[at - 1]) {
        const uint64_t *other = row(s, &s->todo, at - 1);
        if (memcmp(other, step, USED * sizeof *step) != 0) {
            continue;
        }
        if ((s->relaxed && !is_reused(s, other)) || is_subset(s, other + USED, step + USED)) {
            return false;
        }
    }
    return true;
}

/* So many configurations more were looked at, and so many are held. */
static void spend_effort(struct search *s, int64_t visited, int64_t held) {
    s->visited += visited;
    s->is_spent = s->is_spent || s->visited > s->room || held > s->held_max;
}

static int64_t most(size_t one, size_t other) {
    return (int64_t)(one > other ? one : other);
}

/* Add to s->after what `start` leads to by steps of which the last makes `k` take effect. */
static void reach(struct search *s, const uint64_t *start, int64_t k) {
    uint64_t bit = bit_of(s, k);
    int64_t goal = s->h->kinds[k] == WRITE ? s->h->values[k] : FORGOTTEN;
    if (goal != FORGOTTEN && s->cas_keys.first == NONE && s->read_keys.first == NONE && s->miss_keys.first == NONE) {
        spend_effort(s, 1, 0);
        uint64_t *to = push(s, &s->after, start);
        to[VALUE] = (uint64_t)goal;
        to[OPTIONAL] = s->write_mask & ~start[DONE] & ~bit;
        return;
    }
    size_t buckets = 16;
    s->todo.count = 0;
    if (!clear_buckets(s, buckets)) {
        return;
    }
    remember(s, start, &buckets);
    for (size_t i = 0; i < s->todo.count && !s->failed; i++) {
        memcpy(s->here, row(s, &s->todo, i), s->row_words * sizeof *s->here);
        find_steps(s, s->here, goal);
        for (size_t j = 0; j < s->steps.count && !s->failed; j++) {
            const uint64_t *step = row(s, &s->steps, j);
            if (step[DONE] & bit) {
                uint64_t *to = push(s, &s->after, step);
                to[DONE] ^= bit;
                to[OPTIONAL] &= ~bit;
            } else if (is_new(s, step, buckets)) {
                remember(s, step, &buckets);
            }
        }
        if ((int64_t)s->after.count >= s->enough) {
            s->left_out = true;
            break;
        }
        if ((int64_t)s->todo.count > s->room - s->visited || most(s->todo.count, s->after.count) > s->held_max) {
            break;
        }
    }
    spend_effort(s, (int64_t)s->todo.count, most(s->todo.count, s->after.count));
}

#endif
