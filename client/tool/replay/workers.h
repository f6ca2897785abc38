/* workers.h: the consumers of a queue in a dry run: one session, which takes exactly as many tasks as it is granted.
 *
 * What holds it back is that a consumer is sent nothing while a delivery to it is under way: each grant says that the
 * last one has left, and lets one task through. Which one is the core's word. */
#ifndef TARRY_TOOL_WORKERS_H
#define TARRY_TOOL_WORKERS_H

#include "stage.h"

LIST_HEAD(twin_list, twin);

struct workers {
    struct stage *stage;
    struct plan *plan;
    uint64_t session; /* 0: none */
    bool open;        /* the core may send it a task at once */
    uint32_t granted; /* and not taken */
    uint32_t count;   /* leases of this session */
    uint64_t heard_ns, silence_ns;
    uint64_t beats;        /* the session that the dry run keeps alive; 0: none */
    struct twin_list held; /* of this session and those before */
};

struct workers *workers_new(struct stage *stage, struct plan *plan);
/* Lets one more task through: at once if one is ready, else as soon as one is. */
void workers_grant(struct workers *workers);
/* Takes back what was granted and not taken; leases stay. */
void workers_withdraw(struct workers *workers);
/* A task was leased to them, or is not theirs any more. */
void workers_leased(struct workers *workers, struct twin *twin);
void workers_lost(struct workers *workers, struct twin *twin);
/* When they must be heard of again; UINT64_MAX: need not. */
uint64_t workers_beat_ns(const struct workers *workers);
void workers_beat(struct workers *workers);

#endif
