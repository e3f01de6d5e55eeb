/* The first runs of the search over one register: register_search.first_runs. */

#ifndef HIGHWATER_FIRST_RUNS_H
#define HIGHWATER_FIRST_RUNS_H

#include "events.h"

/* register_search_walk over what is known to be in order. */
static int64_t go_on(const struct register_history *history, struct register_walk *walk);

/* One walk over the events before `stop`, from its begin to its end, with `room` for so many configurations; false if
 * memory lacked. */
static bool walk_at_once(const struct register_history *h, struct register_walk *walk, int64_t stop, int64_t room) {
    int64_t status = PAUSED;
    walk->stop = stop;
    walk->room = room;
    while (status == PAUSED) {
        status = go_on(h, walk);
    }
    register_search_free(walk);
    return status == FINISHED;
}

static void refute(struct register_answer *answer, const struct encoded *e, int64_t first, int64_t died) {
    answer->answer = NO;
    answer->last = first + ~e->events[died];
}

/* The answer for one register, whose operations begin at row `first`; false if memory lacked. */
static bool decide(const struct encoded *e, const struct register_plan *plan, int64_t first,
                   struct register_answer *answer) {
    struct register_walk relaxed = plan->relaxed, thrifty = plan->thrifty;
    int64_t events = e->h.events_count, most = plan->per_event * events;
    int64_t room = relaxed.room + plan->relaxed_tries * events;
    most = most > plan->configurations ? most : plan->configurations;
    if (e->slots > 64 || e->h.unknown > plan->unknown_max) {
        return true;
    }
    if (!walk_at_once(&e->h, &relaxed, events, room < most ? room : most)) {
        return false;
    }
    answer->visited = relaxed.visited;
    if (relaxed.answer == YES) {
        answer->answer = YES;
        return true;
    }
    if (relaxed.answer == NO && relaxed.reached == relaxed.died) {
        refute(answer, e, first, relaxed.died);
        return true;
    }
    int64_t stop = relaxed.answer == NO ? relaxed.died : events;
    room = thrifty.room + plan->thrifty_tries * stop;
    most -= relaxed.visited;
    if (!walk_at_once(&e->h, &thrifty, stop, room < most ? room : most)) {
        return false;
    }
    answer->visited += thrifty.visited;
    if (thrifty.answer == NO) {
        refute(answer, e, first, thrifty.died);
    } else if (thrifty.answer == YES && relaxed.answer == NO) {
        refute(answer, e, first, relaxed.died);
    } else {
        answer->answer = thrifty.answer;
    }
    return true;
}

#endif
