/* workers.h: the consumers of a queue in a dry run: one session, which takes exactly as many tasks as it was granted.
 *
 * The core sends nothing to a consumer while a delivery to it is in progress. Each grant reports that the last
 * delivery has left, and so allows one task. The core decides which task. */
#ifndef TARRY_TOOL_WORKERS_H
#define TARRY_TOOL_WORKERS_H

#include "stage.h"

LIST_HEAD(twin_list, twin);

struct workers {
    struct stage *stage;
    struct plan *plan;
    uint64_t session; /* 0: none */
    bool open;        /* the core may send a task at once */
    uint32_t granted; /* granted tasks that were not taken yet */
    uint32_t count;   /* leases of this session */
    uint64_t heard_ns, silence_ns;
    uint64_t beats;        /* session that the dry run keeps alive; 0: none */
    struct twin_list held; /* leased tasks of this session and of earlier ones */
};

struct workers *workers_new(struct stage *stage, struct plan *plan);
/* Allows one more task: at once if one is ready, else when one is. */
void workers_grant(struct workers *workers);
/* Cancels the grants that were not used; leases stay. */
void workers_withdraw(struct workers *workers);
/* Report that a task was leased to the consumers, or is not theirs any more. */
void workers_leased(struct workers *workers, struct twin *twin);
void workers_lost(struct workers *workers, struct twin *twin);
/* Returns when the session must be heard again; UINT64_MAX: never. */
uint64_t workers_beat_ns(const struct workers *workers);
void workers_beat(struct workers *workers);

#endif
