/* What is pending on a register: register_pending.Pending; and the sets of unknown operations. */

#ifndef HIGHWATER_PENDING_H
#define HIGHWATER_PENDING_H

#include "state.h"

static int count_bits(uint64_t word) {
    return __builtin_popcountll(word);
}

static bool is_reused(const struct search *s, const uint64_t *config) {
    return config[s->row_words - 1] == UINT64_MAX;
}

static bool is_subset(const struct search *s, const uint64_t *small, const uint64_t *large) {
    for (size_t word = 0; word < s->used_words; word++) {
        if (small[word] & ~large[word]) {
            return false;
        }
    }
    return true;
}

/* Whether one of `mask` may be used; if so, and `to` is not NULL, it is in `to`, which began as a copy of `used`. */
static bool spend(const struct search *s, const uint64_t *used, const uint64_t *mask, uint64_t *to) {
    bool any = false;
    for (size_t word = 0; word < s->used_words; word++) {
        uint64_t left = mask[word] & ~used[word];
        if (left) {
            if (to != NULL) {
                to[word] |= left & -left;
            }
            return true;
        }
        any = any || mask[word];
    }
    if (!any || !s->relaxed) {
        return false;
    }
    if (to != NULL) {
        memset(to, 0xff, s->used_words * sizeof *to);
    }
    return true;
}

static const uint64_t *mask_of(const struct search *s, int64_t alike) {
    return s->alike_masks + (size_t)alike * s->used_words;
}

/* The order in which configurations are tried, as a number of 32 bits; see register_frontier.promise. */
static uint64_t promise(const struct search *s, const uint64_t *config) {
    uint64_t used = 0;
    if (is_reused(s, config)) {
        used = 1 << 10; /* more than UNKNOWN_MAX of accelerator.py */
    } else {
        for (size_t word = 0; word < s->used_words; word++) {
            used += (uint64_t)count_bits(config[USED + word]);
        }
    }
    return used << 21 | (uint64_t)(64 - count_bits(config[DONE] & s->cas_mask)) << 14 |
           (uint64_t)(64 - count_bits(config[OPTIONAL])) << 7 | (uint64_t)(64 - count_bits(config[DONE]));
}

static int compare(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static int compare_values(const void *one, const void *other) {
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* Sort places by the promise of what stands there, stably: each word carries the promise above its number. */
static void sort(uint64_t *keys, size_t count) {
    if (count > 24) {
        qsort(keys, count, sizeof *keys, compare);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        uint64_t key = keys[i];
        size_t to = i;
        for (; to > 0 && keys[to - 1] > key; to--) {
            keys[to] = keys[to - 1];
        }
        keys[to] = key;
    }
}

static size_t place_of(uint64_t key) {
    return (size_t)(key & UINT32_MAX);
}

static uint64_t bit_of(const struct search *s, int64_t k) {
    return (uint64_t)1 << s->h->places[k];
}

static void put_key(struct keys *keys, int64_t value) {
    keys->prev[value] = keys->last;
    keys->next[value] = NONE;
    if (keys->last == NONE) {
        keys->first = value;
    } else {
        keys->next[keys->last] = value;
    }
    keys->last = value;
}

static void drop_key(struct keys *keys, int64_t value) {
    int64_t next = keys->next[value], prev = keys->prev[value];
    if (prev == NONE) {
        keys->first = next;
    } else {
        keys->next[prev] = next;
    }
    if (next == NONE) {
        keys->last = prev;
    } else {
        keys->prev[next] = prev;
    }
}

static void toggle_read(struct search *s, uint64_t *masks, struct keys *keys, int64_t k) {
    int64_t value = s->h->values[k];
    if (!masks[value]) {
        put_key(keys, value);
    }
    masks[value] ^= bit_of(s, k);
    if (!masks[value]) {
        drop_key(keys, value);
    }
}

/* Put operation `k` into the list of its value, the earliest end first. */
static void insert(struct search *s, int64_t *firsts, struct keys *keys, int64_t k) {
    int64_t value = s->h->values[k];
    if (firsts[value] == NONE) {
        put_key(keys, value);
    }
    int64_t *link = &firsts[value];
    while (*link != NONE && s->h->ends[*link] < s->h->ends[k]) {
        link = &s->next_pending[*link];
    }
    s->next_pending[k] = *link;
    *link = k;
}

static void remove_from(struct search *s, int64_t *firsts, struct keys *keys, int64_t k) {
    int64_t value = s->h->values[k];
    int64_t *link = &firsts[value];
    while (*link != k) {
        link = &s->next_pending[*link];
    }
    *link = s->next_pending[k];
    if (firsts[value] == NONE) {
        drop_key(keys, value);
    }
}

static int64_t new_alike(struct search *s, int64_t from, int64_t into) {
    int64_t number = (int64_t)s->alike_count++;
    s->alike[number] = (struct alike){from, into, NONE, NONE};
    return number;
}

static void link_alike(struct search *s, int64_t number) {
    struct alike *it = &s->alike[number];
    if (s->from_first[it->from] == NONE) {
        s->from_first[it->from] = number;
    } else {
        s->alike[s->from_last[it->from]].next_from = number;
    }
    s->from_last[it->from] = number;
    if (s->into_first[it->into] == NONE) {
        s->into_first[it->into] = number;
        s->touched[s->touched_count++] = it->into;
    } else {
        s->alike[s->into_last[it->into]].next_into = number;
    }
    s->into_last[it->into] = number;
}

static int64_t alike_of(struct search *s, int64_t k) {
    int64_t value = s->h->values[k];
    if (s->h->kinds[k] == WRITE) {
        if (s->unknown_writes[value] == NONE) {
            s->unknown_writes[value] = new_alike(s, NONE, value);
            s->touched[s->touched_count++] = value;
        }
        return s->unknown_writes[value];
    }
    int64_t number = s->from_first[value];
    while (number != NONE && s->alike[number].into != s->h->news[k]) {
        number = s->alike[number].next_from;
    }
    if (number == NONE) {
        number = new_alike(s, value, s->h->news[k]);
        link_alike(s, number);
    }
    return number;
}

/* Operation `k` is pending from now on, or no longer. */
static void toggle(struct search *s, int64_t k, bool enters) {
    int64_t kind = s->h->kinds[k];
    if (kind == READ) {
        toggle_read(s, s->reads, &s->read_keys, k);
    } else if (kind == MISS) {
        toggle_read(s, s->misses, &s->miss_keys, k);
    } else if (s->h->ends[k] == EVER) {
        int64_t place = s->h->places[k];
        s->alike_masks[(size_t)alike_of(s, k) * s->used_words + (size_t)place / 64] ^= (uint64_t)1 << place % 64;
    } else {
        int64_t *firsts = kind == WRITE ? s->write_first : s->cas_first;
        struct keys *keys = kind == WRITE ? &s->write_keys : &s->cas_keys;
        (enters ? insert : remove_from)(s, firsts, keys, k);
        *(kind == WRITE ? &s->write_mask : &s->cas_mask) ^= bit_of(s, k);
    }
}

/* The bits of all pending reads that a register with `value` satisfies. */
static uint64_t seen(const struct search *s, int64_t value) {
    uint64_t bits = s->reads[value];
    for (int64_t missed = s->miss_keys.first; missed != NONE; missed = s->miss_keys.next[missed]) {
        bits |= missed == value ? 0 : s->misses[missed];
    }
    return bits;
}

/* Operation `k` begins: a read or a miss takes effect at once where it can. */
static void begin(struct search *s, int64_t k) {
    toggle(s, k, true);
    int64_t kind = s->h->kinds[k], value = s->h->values[k];
    if (kind != READ && kind != MISS) {
        return;
    }
    for (size_t i = 0; i < s->frontier.count; i++) {
        uint64_t *config = row(s, &s->frontier, i);
        if (((int64_t)config[VALUE] == value) == (kind == READ)) {
            config[DONE] |= bit_of(s, k);
        }
    }
}

#endif
