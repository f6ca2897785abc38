/* lone.c: see lone.h. */
#include "lone.h"

#include "core_thread.h"
#include "door.h"
#include "inbox.h"
#include "sync.h"

void lone_init(struct lone *lone, struct inbox *inbox, struct core_thread *core_thread, struct sync *sync,
               struct door *door) {
    *lone = (struct lone){.inbox = inbox, .core_thread = core_thread, .sync = sync, .door = door};
}

void lone_post(struct lone *lone, struct item *call, uint64_t from, bool is_alone) {
    /* All requests of the gateway count as one connection, although each has a different id. */
    if (door_is_inside(from)) from = DOOR_INSIDE;
    bool comes_again = from == lone->from;
    lone->from = from;
    lone->posted++;
    inbox_post_quietly(lone->inbox, call);
    if (is_alone && comes_again && lone->company == 0)
        lone->is_posted = true;
    else if (lone->company > 0)
        lone->company--;
    if (lone->posted < LONE_CALLS_MAX) return;
    lone->posted = 0;
    inbox_wake(lone->inbox);
}

void lone_served(struct lone *lone) {
    if (lone->posted == 0) return;
    bool is_lone = lone->is_posted && lone->posted == 1;
    if (lone->was_inside && lone->posted > 1) lone->company = LONE_COMPANY_CALLS;
    lone->is_posted = lone->was_inside = false;
    lone->posted = 0;
    if (!is_lone || !sync_is_quick(lone->sync)) {
        inbox_wake(lone->inbox);
        return;
    }
    struct turn_load load;
    if (!inbox_borrow(lone->inbox, &load)) return;
    uint64_t from = lone->from; /* read before the sync, because other connections may be served during the sync */
    core_thread_stand_in(lone->core_thread, &load);
    sync_stand_in(lone->sync);
    lone->was_inside = from == DOOR_INSIDE;
    if (door_has_more(lone->door, from)) lone->company = LONE_COMPANY_CALLS;
}
