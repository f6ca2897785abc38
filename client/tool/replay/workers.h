/* workers.h: the consumers of a queue in a dry run: one session, which takes exactly as many tasks as it was granted.
 * The core sends nothing to a consumer while a delivery to it is in progress. Each grant reports to the core that the
 * last delivery has left, and so allows one task. The core decides which task. */
#ifndef TARRY_TOOL_WORKERS_H
#define TARRY_TOOL_WORKERS_H

#include "stage.h"

LIST_HEAD(twin_list, twin);

struct workers {
    struct stage *stage;
    struct plan *plan;
    uint64_t session; /* 0: none */
    bool open;        /* true: the core may send a task to this session at once */
    uint32_t granted; /* number of granted tasks that were not taken yet */
    uint32_t count;   /* number of leases of this session */
    uint64_t heard_ns, silence_ns;
    uint64_t beats;        /* session whose heartbeats the dry run sends; 0: none */
    struct twin_list held; /* leased tasks of this session and of earlier ones */
};

struct workers *workers_new(struct stage *stage, struct plan *plan);
/* Allows one more task: the core sends it now, or when a task is ready. */
void workers_grant(struct workers *workers);
/* Cancels the grants that were not used. Leases stay. */
void workers_withdraw(struct workers *workers);
/* Report that a task was leased to these consumers, or that their lease on it has ended. */
void workers_leased(struct workers *workers, struct twin *twin);
void workers_lost(struct workers *workers, struct twin *twin);
/* Returns when the session needs the next heartbeat; UINT64_MAX: never. */
uint64_t workers_beat_ns(const struct workers *workers);
void workers_beat(struct workers *workers);

#endif
