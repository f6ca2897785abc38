/* lone.c: see lone.h. */
#include "lone.h"

#include "shell.h"

void lone_post(struct shell *shell, struct item *call, uint64_t from, bool is_alone) {
    struct lone *lone = &shell->lone;
    bool comes_again = from == lone->from;
    lone->from = from;
    if (!is_alone || !comes_again || lone->company > 0) {
        if (lone->company > 0) lone->company--;
        inbox_post(&shell->inbox, call);
        return;
    }
    lone->is_posted = true;
    inbox_post_alone(&shell->inbox, call);
}

void lone_served(struct shell *shell) {
    struct lone *lone = &shell->lone;
    if (!lone->is_posted) return;
    lone->is_posted = false;
    if (!sync_is_quick(&shell->sync)) {
        inbox_wake(&shell->inbox);
        return;
    }
    struct turn_load load;
    if (!inbox_borrow(&shell->inbox, &load)) return;
    uint64_t from = lone->from; /* while the disk has its time others may be served */
    core_thread_stand_in(&shell->core_thread, &load);
    sync_stand_in(&shell->sync);
    if (door_has_more(shell->door, from)) lone->company = LONE_COMPANY_CALLS;
}
