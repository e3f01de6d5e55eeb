/* The arrays of one register from the columns of its operations: register_events.encode, to the last number. */

#ifndef HIGHWATER_EVENTS_H
#define HIGHWATER_EVENTS_H

#include "state.h"

/* One register's arrays, and what they were made of. `slots` is how many bits what returns needs. */
struct encoded {
    struct register_history h;
    int64_t *memory, *events, *kinds, *values, *news, *places, *ends, *needed, *begins, *spare;
    int64_t slots;
    bool failed;
};

struct ids {
    int64_t *values, *numbers;
    size_t slots;
    int64_t count;
};

static int64_t id_of(struct ids *ids, int64_t value) {
    size_t mask = ids->slots - 1, at = ((uint64_t)value * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & mask;
    while (ids->numbers[at] != NONE && ids->values[at] != value) {
        at = (at + 1) & mask;
    }
    if (ids->numbers[at] == NONE) {
        ids->values[at] = value;
        ids->numbers[at] = ids->count++;
    }
    return ids->numbers[at];
}

/* Small numbers for the values, in the order of their first operations: the first one, what is read, written or
 * expected, and then what compare-and-sets set. */
static bool number_values(struct encoded *e, const struct register_columns *c, int64_t first, int64_t initial) {
    size_t slots = 16, count = (size_t)e->h.operations_count;
    while (slots < 4 * count + 4) {
        slots *= 2;
    }
    int64_t *memory = malloc(2 * slots * sizeof *memory);
    if (memory == NULL) {
        return false;
    }
    struct ids ids = {memory, memory + slots, slots, 0};
    memset(ids.numbers, 0xff, slots * sizeof *ids.numbers);
    id_of(&ids, initial);
    for (size_t k = 0; k < count; k++) {
        e->kinds[k] = c->kinds[first + (int64_t)k];
        e->values[k] = id_of(&ids, c->values[first + (int64_t)k]);
        e->h.has_misses |= e->kinds[k] == MISS;
    }
    for (size_t k = 0; k < count; k++) {
        e->news[k] = e->kinds[k] == CAS ? id_of(&ids, c->news[first + (int64_t)k]) : 0;
    }
    e->h.values_count = ids.count;
    free(memory);
    return true;
}

struct stamped {
    int64_t time, k;
};

/* Of what returns at once, which no history has, the later operation comes first, as in Python. */
static int compare_stamped(const void *one, const void *other) {
    const struct stamped *a = one, *b = other;
    return a->time != b->time ? (a->time > b->time) - (a->time < b->time) : (a->k < b->k) - (a->k > b->k);
}

/* Sort by time what nearly is: what returns does so about in the order in which it began. */
static void sort_stamped(struct stamped *all, size_t count) {
    size_t patience = 16 * count;
    for (size_t i = 1; i < count; i++) {
        struct stamped one = all[i];
        size_t to = i;
        for (; to > 0 && compare_stamped(&all[to - 1], &one) > 0; to--) {
            all[to] = all[to - 1];
        }
        all[to] = one;
        if (i - to > patience) {
            qsort(all, count, sizeof *all, compare_stamped);
            return;
        }
        patience -= i - to;
    }
}

/* The events in their order, where each operation begins among them, and where it ends. */
static bool order_events(struct encoded *e, const struct register_columns *c, int64_t first) {
    int64_t count = e->h.operations_count, events = 0;
    size_t returns = 0, next = 0;
    struct stamped *all = malloc(((size_t)count + 1) * sizeof *all);
    if (all == NULL) {
        return false;
    }
    for (int64_t k = 0; k < count; k++) {
        e->ends[k] = EVER;
        if (c->returned[first + k] < EVER) {
            all[returns++] = (struct stamped){c->returned[first + k], k};
        }
    }
    sort_stamped(all, returns);
    for (int64_t k = 0; k <= count; k++) {
        for (; next < returns && (k == count || all[next].time <= c->invoked[first + k]); next++) {
            e->ends[all[next].k] = events;
            e->events[events++] = ~all[next].k;
        }
        if (k < count) {
            e->begins[k] = events;
            e->events[events++] = k;
        }
    }
    e->h.events_count = events;
    free(all);
    return true;
}

/* See register_events._needed. */
static void find_needed(struct encoded *e) {
    int64_t count = e->h.operations_count, unknown = 0;
    for (int64_t value = 0; value < e->h.values_count; value++) {
        e->needed[value] = -1;
    }
    for (int64_t k = 0; k < count; k++) {
        int64_t *needed = &e->needed[e->values[k]];
        if (e->kinds[k] == WRITE) {
            continue;
        }
        if (e->ends[k] == EVER) {
            e->spare[unknown++] = k;
        } else if (e->ends[k] > *needed) {
            *needed = e->ends[k];
        }
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int64_t i = 0; i < unknown; i++) {
            int64_t k = e->spare[i], later = e->needed[e->news[k]];
            if (e->needed[e->values[k]] < later && later > e->begins[k]) {
                e->needed[e->values[k]] = later;
                changed = true;
            }
        }
    }
}

/* See register_events._without_useless. */
static void drop_useless(struct encoded *e) {
    int64_t kept = 0, *moved = e->spare;
    for (int64_t index = 0; index < e->h.events_count; index++) {
        int64_t event = e->events[index];
        moved[index] = kept;
        if (event >= 0 && e->ends[event] == EVER) {
            int64_t target = e->kinds[event] == WRITE ? e->values[event] : e->news[event];
            if (e->needed[target] <= index) {
                continue;
            }
        }
        e->events[kept++] = event;
    }
    if (kept == e->h.events_count) {
        return;
    }
    e->h.events_count = kept;
    for (int64_t k = 0; k < e->h.operations_count; k++) {
        e->ends[k] = e->ends[k] == EVER ? EVER : moved[e->ends[k]];
    }
    for (int64_t value = 0; value < e->h.values_count; value++) {
        int64_t last = e->needed[value];
        e->needed[value] = last == EVER || last < 0 ? last : moved[last];
    }
}

/* See slots.slot_bits. */
static void give_bits(struct encoded *e) {
    int64_t *free_places = e->spare;
    size_t free_count = 0;
    for (int64_t k = 0; k < e->h.operations_count; k++) {
        e->places[k] = -1;
    }
    for (int64_t index = 0; index < e->h.events_count; index++) {
        int64_t event = e->events[index];
        if (event < 0) {
            free_places[free_count++] = e->places[~event];
        } else if (e->ends[event] == EVER) {
            e->places[event] = e->h.unknown++;
        } else {
            e->places[event] = free_count > 0 ? free_places[--free_count] : e->slots++;
        }
    }
}

/* Whether the row is not as interface.h has it; `before` is when the row above was invoked. No branches: what is asked
 * and answered is as good as random, and this goes over every row. */
static bool is_wrong(const struct register_columns *c, int64_t row, int64_t before) {
    int64_t kind = c->kinds[row], invoked = c->invoked[row], returned = c->returned[row];
    return (((uint64_t)kind > MISS) | (returned <= invoked) | (invoked < before) |
            (((kind == READ) | (kind == MISS)) & (returned >= EVER))) != 0;
}

/* The first row from `first` to `end` that is wrong; `end` if none is. */
static int64_t first_wrong(const struct register_columns *c, int64_t first, int64_t end) {
    int64_t before = INT64_MIN;
    for (int64_t row = first; row < end; before = c->invoked[row++]) {
        if (is_wrong(c, row, before)) {
            return row;
        }
    }
    return end;
}

static void forget(struct encoded *e) {
    free(e->memory);
}

/* The arrays of the operations from row `first` to `end`, which stand in the order of their invocations. */
static struct encoded encode(const struct register_columns *c, int64_t first, int64_t end, int64_t initial) {
    struct encoded e = {.h.operations_count = end - first};
    size_t n = (size_t)(end - first) + 1;
    /* Two events for each operation; values are what began, and two for each at most. */
    e.memory = malloc(12 * n * sizeof *e.memory);
    e.failed = e.memory == NULL;
    if (e.failed) {
        return e;
    }
    int64_t *columns[] = {e.memory,         e.memory + 2 * n, e.memory + 3 * n, e.memory + 4 * n, e.memory + 5 * n,
                          e.memory + 6 * n, e.memory + 8 * n, e.memory + 9 * n, e.memory + 11 * n};
    e.events = columns[0], e.kinds = columns[1], e.values = columns[2], e.news = columns[3], e.ends = columns[4];
    e.needed = columns[5], e.begins = columns[6], e.spare = columns[7], e.places = columns[8];
    e.failed = !number_values(&e, c, first, initial) || !order_events(&e, c, first);
    if (e.failed) {
        return e;
    }
    find_needed(&e);
    if (!e.h.has_misses) {
        drop_useless(&e);
    }
    give_bits(&e);
    e.h.events = e.events, e.h.kinds = e.kinds, e.h.values = e.values, e.h.news = e.news;
    e.h.places = e.places, e.h.ends = e.ends, e.h.needed = e.needed;
    return e;
}

#endif
