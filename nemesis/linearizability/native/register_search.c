/* The runs of the register search: a relaxed walk or a beam over the events of one register.
 *
 * Owns the same walk as beam.py, register_frontier.py, register_pending.py and relaxed_run of register_search.py, which
 * say why each step is right. Configurations are visited in the same order and counted alike, so that what is found is
 * equal to the last field; whoever changes one changes the other.
 *
 * Knows nothing of Python, of files or of time. There are no globals. What grows is bounded by the room and by how many
 * configurations may wait; every allocation is checked, and a walk that lacks memory says so.
 *
 * The way of the data: interface.h (arrays in, arrays out) -> state.h -> pending.h -> steps.h -> frontier.h and
 * outline.h -> here. */

#include "frontier.h"
#include "outline.h"

/* Sort the frontier by promise. */
static void sort_frontier(struct search *s) {
    size_t count = s->frontier.count;
    if (!reserve(s, &s->sorting, count)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        s->sorting.at[i] = promise(s, row(s, &s->frontier, i)) << 32 | i;
    }
    sort(s->sorting.at, count);
    s->kept.count = 0;
    for (size_t i = 0; i < count; i++) {
        push(s, &s->kept, row(s, &s->frontier, place_of(s->sorting.at[i])));
    }
    swap(&s->frontier, &s->kept);
}

/* The frontier before this return is the last one that is known. */
static void lose(struct search *s, struct register_walk *walk, int64_t index) {
    walk->died = index;
    s->lost.count = 0;
    for (size_t i = 0; i < s->frontier.count; i++) {
        push(s, &s->lost, row(s, &s->frontier, i));
    }
}

static bool has_unreused(const struct search *s) {
    for (size_t i = 0; i < s->frontier.count; i++) {
        if (!is_reused(s, row(s, &s->frontier, i))) {
            return true;
        }
    }
    return false;
}

/* Walk on; false if there is more to do. */
static bool walk_relaxed(struct search *s, struct register_walk *walk) {
    int64_t left = walk->slice, before = walk->visited;
    for (; s->index < walk->stop && !s->failed; s->index++) {
        int64_t index = s->index, event = s->h->events[index];
        if (--left < 0 || s->visited - before > walk->slice) {
            return false;
        }
        if (event >= 0) {
            begin(s, event);
            continue;
        }
        after_return(s, ~event, index);
        walk->visited = s->visited;
        walk->reached = !s->is_reusing ? index : walk->reached;
        if (s->is_spent) {
            return true;
        }
        if (s->after.count == 0) {
            lose(s, walk, index);
            walk->answer = s->is_lossy ? UNDECIDED : NO;
            return true;
        }
        swap(&s->frontier, &s->after);
        if (s->frontier.count > s->relaxed_width) {
            sort_frontier(s);
            s->frontier.count = s->relaxed_width;
            s->is_lossy = true;
        }
        s->is_reusing = s->is_reusing || !has_unreused(s);
    }
    if (!s->is_reusing) {
        walk->answer = YES;
        walk->reached = walk->stop;
    }
    return true;
}

/* Walk on; false if there is more to do. */
static bool walk_outline(struct search *s, struct register_walk *walk) {
    int64_t left = walk->slice, before = walk->visited;
    if (s->index == 0) {
        add_way(s, 0, 0);
    }
    for (; s->index < walk->stop && !s->failed; s->index++) {
        int64_t event = s->h->events[s->index];
        if (--left < 0 || s->visited - before > walk->slice) {
            return false;
        }
        if (event >= 0) {
            begin_outline(s, event);
            continue;
        }
        tell_outline(s);
        close_outline(s);
        end_outline(s, ~event);
        spend_effort(s, s->possible_count > 0 ? (int64_t)s->possible_count : 1, 0);
        walk->visited = s->visited;
        if (s->is_spent || s->possible_count == 0) {
            break;
        }
    }
    if (s->is_spent || s->index == walk->stop) {
        s->lost.count = 0;
    } else {
        walk->answer = NO;
        walk->died = s->index;
    }
    return true;
}

/* What waits, as a stack of groups of rows, each of them a position among the events and a count; and what was tried
 * since something waits, as rows with the position behind each, in open addressing. */
struct beam {
    struct rows waiting;
    struct words groups;
    size_t groups_count;
    struct words memo;
    size_t memo_slots, memo_count;
    int64_t forgets, memo_max;
};

static uint64_t *memo_slot(const struct search *s, const struct beam *beam, const uint64_t *config, uint64_t index) {
    size_t size = s->row_words + 1, mask = beam->memo_slots - 1;
    size_t at = (size_t)mixed(hash_of(config, s->row_words), index) & mask;
    for (;; at = (at + 1) & mask) {
        uint64_t *slot = beam->memo.at + at * size;
        bool is_free = slot[s->row_words] == 0;
        if (is_free ||
            (slot[s->row_words] == index && memcmp(slot, config, s->row_words * sizeof *config) == 0)) {
            return slot;
        }
    }
}

static bool new_memo(struct search *s, struct beam *beam, size_t slots) {
    size_t size = s->row_words + 1;
    uint64_t *at = slots > SIZE_MAX / 64 / size ? NULL : calloc(slots * size, sizeof *at);
    if (at == NULL) {
        s->failed = true;
        return false;
    }
    beam->memo.at = at;
    beam->memo_slots = slots;
    beam->memo_count = 0;
    return true;
}

/* Room for one more in the memo. `index` is the number of events that are behind, so never 0. */
static bool grow_memo(struct search *s, struct beam *beam) {
    if (beam->memo_slots > 0 && beam->memo_count < beam->memo_slots / 2) {
        return true;
    }
    struct words old = beam->memo;
    size_t size = s->row_words + 1, slots = beam->memo_slots;
    if (!new_memo(s, beam, slots == 0 ? 64 : slots * 2)) {
        return false;
    }
    for (size_t i = 0; i < slots; i++) {
        const uint64_t *entry = old.at + i * size;
        if (entry[s->row_words] != 0) {
            memcpy(memo_slot(s, beam, entry, entry[s->row_words]), entry, size * sizeof *entry);
            beam->memo_count++;
        }
    }
    free(old.at);
    return true;
}

static void clear_memo(struct beam *beam) {
    free(beam->memo.at);
    beam->memo.at = NULL;
    beam->memo_slots = beam->memo_count = 0;
}

/* Drop from the frontier what was here before, and note the others. */
static void try_once(struct search *s, struct beam *beam, int64_t index) {
    size_t kept = 0;
    if ((int64_t)beam->memo_count > beam->memo_max) {
        clear_memo(beam);
    }
    for (size_t i = 0; i < s->frontier.count; i++) {
        const uint64_t *config = row(s, &s->frontier, i);
        if (!grow_memo(s, beam)) {
            return;
        }
        uint64_t *slot = memo_slot(s, beam, config, (uint64_t)index);
        if (slot[s->row_words] != 0) {
            continue;
        }
        memcpy(slot, config, s->row_words * sizeof *slot);
        slot[s->row_words] = (uint64_t)index;
        beam->memo_count++;
        memmove(row(s, &s->frontier, kept++), config, s->row_words * sizeof *config);
    }
    s->frontier.count = kept;
}

static void put_waiting(struct search *s, struct beam *beam, int64_t index, size_t first, size_t end) {
    if (!reserve(s, &beam->groups, 2 * (beam->groups_count + 1))) {
        return;
    }
    for (size_t i = first; i < end; i++) {
        push(s, &beam->waiting, row(s, &s->frontier, i));
    }
    beam->groups.at[2 * beam->groups_count] = (uint64_t)index;
    beam->groups.at[2 * beam->groups_count + 1] = end - first;
    beam->groups_count++;
}

/* Leave the most promising in the frontier, and let the others wait, the least promising below. */
static void narrow(struct search *s, struct beam *beam, int64_t width, int64_t index) {
    if (beam->groups_count > 0) {
        try_once(s, beam, index);
    }
    int64_t count = (int64_t)s->frontier.count;
    if (s->failed || count <= width) {
        return;
    }
    sort_frontier(s);
    for (int64_t first = count - width; first > 0 && !s->failed; first -= width) {
        put_waiting(s, beam, index, (size_t)(first > width ? first : width), (size_t)(first + width));
    }
    s->frontier.count = (size_t)width;
}

/* Take up what waited last: where among the events it stands. */
static int64_t go_back(struct search *s, struct beam *beam, int64_t from) {
    beam->groups_count--;
    int64_t index = (int64_t)beam->groups.at[2 * beam->groups_count];
    size_t count = (size_t)beam->groups.at[2 * beam->groups_count + 1];
    s->frontier.count = 0;
    beam->waiting.count -= count;
    for (size_t i = 0; i < count; i++) {
        push(s, &s->frontier, row(s, &beam->waiting, beam->waiting.count + i));
    }
    while (from > index) {
        int64_t event = s->h->events[--from];
        toggle(s, event >= 0 ? event : ~event, event < 0);
    }
    if (beam->groups_count == 0) {
        clear_memo(beam);
    }
    return index;
}

/* Let go of the oldest half of what waits. */
static void forget_half(struct search *s, struct beam *beam) {
    size_t groups = (beam->groups_count + 1) / 2, rows = 0;
    for (size_t i = 0; i < groups; i++) {
        rows += (size_t)beam->groups.at[2 * i + 1];
    }
    beam->groups_count -= groups;
    memmove(beam->groups.at, beam->groups.at + 2 * groups, 2 * beam->groups_count * sizeof *beam->groups.at);
    beam->waiting.count -= rows;
    memmove(beam->waiting.at, row(s, &beam->waiting, rows),
            beam->waiting.count * s->row_words * sizeof *beam->waiting.at);
    s->left_out = true;
}

/* Walk on; false if there is more to do. */
static bool walk_beam(struct search *s, struct register_walk *walk, struct beam *beam) {
    int64_t left = walk->slice, before = walk->visited;
    while (s->index < walk->stop && !s->failed) {
        if (--left < 0 || s->visited - before > walk->slice) {
            return false;
        }
        int64_t event = s->h->events[s->index], at = s->index++;
        if (event >= 0) {
            begin(s, event);
            continue;
        }
        after_return(s, ~event, at);
        walk->visited = s->visited;
        if (s->is_spent) {
            return true;
        }
        bool is_dead = s->after.count == 0;
        if (is_dead && at > walk->died) {
            lose(s, walk, at);
        }
        int64_t reached = is_dead ? at : s->index;
        walk->reached = reached > walk->reached ? reached : walk->reached;
        swap(&s->frontier, &s->after);
        narrow(s, beam, walk->width, s->index);
        if ((int64_t)beam->waiting.count > beam->forgets) {
            forget_half(s, beam);
        }
        if ((int64_t)beam->waiting.count > s->held_max) {
            return true;
        }
        if (s->frontier.count == 0) {
            if (beam->groups_count == 0) {
                if (!s->left_out) {
                    walk->answer = NO;
                    walk->reached = walk->died;
                }
                return true;
            }
            s->index = go_back(s, beam, s->index);
        }
    }
    walk->answer = YES;
    walk->reached = walk->stop;
    swap(&s->lost, &s->frontier);
    return true;
}

static void prepare_keys(struct search *s, struct keys *keys, size_t count) {
    *keys = (struct keys){take_nones(s, count), take_nones(s, count), NONE, NONE};
}

static void prepare(struct search *s) {
    size_t values = (size_t)s->h->values_count, unknown = (size_t)s->h->unknown;
    s->used_words = unknown / 64 + 1;
    s->row_words = USED + s->used_words;
    s->reads = take(s, values, sizeof *s->reads);
    s->misses = take(s, values, sizeof *s->misses);
    prepare_keys(s, &s->read_keys, values);
    prepare_keys(s, &s->miss_keys, values);
    prepare_keys(s, &s->write_keys, values);
    prepare_keys(s, &s->cas_keys, values);
    s->write_first = take_nones(s, values);
    s->cas_first = take_nones(s, values);
    s->next_pending = take_nones(s, (size_t)s->h->operations_count);
    s->alike = take(s, unknown, sizeof *s->alike);
    s->alike_masks = take(s, unknown * s->used_words, sizeof *s->alike_masks);
    s->unknown_writes = take_nones(s, values);
    s->from_first = take_nones(s, values);
    s->from_last = take_nones(s, values);
    s->into_first = take_nones(s, values);
    s->into_last = take_nones(s, values);
    s->touched = take(s, unknown, sizeof *s->touched);
    s->stamps = take(s, values, sizeof *s->stamps);
    s->offers = take(s, values, sizeof *s->offers);
    s->group_of = take(s, values, sizeof *s->group_of);
    s->wanted = take(s, values, sizeof *s->wanted);
    s->ways = take(s, values, sizeof *s->ways);
    s->is_possible = take(s, values, sizeof *s->is_possible);
    s->possible = take(s, values, sizeof *s->possible);
    s->here = take(s, s->row_words, sizeof *s->here);
    s->scratch = take(s, s->row_words, sizeof *s->scratch);
}

static void release(struct search *s, struct beam *beam) {
    for (size_t i = 0; i < s->owned_count; i++) {
        free(s->owned[i]);
    }
    struct rows *rows[] = {&s->frontier, &s->after, &s->kept, &s->todo, &s->steps, &s->lost, &beam->waiting};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        free(rows[i]->at);
    }
    struct words *words[] = {&s->buckets, &s->chain, &s->groups, &s->sorting, &s->sorted, &s->spare, &s->best,
                             &beam->groups, &beam->memo};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        free(words[i]->at);
    }
}

int64_t register_search_abi(void) {
    return ABI_VERSION;
}

static bool walk_on(struct search *s, struct register_walk *walk, struct beam *beam) {
    if (walk->width < 0) {
        return walk_outline(s, walk);
    }
    return s->relaxed ? walk_relaxed(s, walk) : walk_beam(s, walk, beam);
}

struct session {
    struct search s;
    struct beam beam;
};

static struct session *begin_session(const struct register_history *history, struct register_walk *walk) {
    struct session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    session->s = (struct search){
        .h = history,
        .relaxed = walk->width == 0,
        .room = walk->room,
        .held_max = walk->held_max,
        .enough = walk->enough,
        .relaxed_width = (size_t)walk->relaxed_width,
        .dominance_max = (size_t)walk->dominance_max,
        .witnesses = (size_t)walk->witnesses,
    };
    session->beam.forgets = walk->forgets;
    session->beam.memo_max = walk->memo;
    walk->state = session;
    walk->answer = UNDECIDED;
    walk->died = -1;
    walk->reached = walk->visited = walk->frontier_count = 0;
    walk->frontier = NULL;
    prepare(&session->s);
    if (!session->s.failed) {
        push(&session->s, &session->s.frontier, session->s.here); /* all zeros: the first value, nothing done or used */
    }
    return session;
}

/* Whether each operation ends after it began. */
static bool is_ordered(const struct register_history *h) {
    for (int64_t index = 0; index < h->events_count; index++) {
        int64_t event = h->events[index];
        if (event >= 0 && h->ends[event] <= index) {
            return false;
        }
    }
    return true;
}

int64_t register_search_walk(const struct register_history *history, struct register_walk *walk) {
    if (walk->state == NULL && !is_ordered(history)) {
        return OUT_OF_ORDER;
    }
    struct session *session = walk->state != NULL ? walk->state : begin_session(history, walk);
    if (session == NULL) {
        return LACKS_MEMORY;
    }
    struct search *s = &session->s;
    bool done = s->failed || walk_on(s, walk, &session->beam);
    if (s->failed) {
        return LACKS_MEMORY;
    }
    if (!done) {
        return PAUSED;
    }
    walk->frontier = s->lost.at;
    walk->frontier_count = (int64_t)s->lost.count;
    walk->row_words = (int64_t)s->row_words;
    return FINISHED;
}

void register_search_free(struct register_walk *walk) {
    if (walk->state != NULL) {
        struct session *session = walk->state;
        release(&session->s, &session->beam);
        free(session);
    }
    walk->state = NULL;
    walk->frontier = NULL;
    walk->frontier_count = 0;
}
