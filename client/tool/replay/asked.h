/* asked.h: the requests of one recorded commit that took effect; the dry run sends them to its core. */
#ifndef TARRY_TOOL_ASKED_H
#define TARRY_TOOL_ASKED_H

#include "entry.h"
#include "plan.h"
#include "verdict.h"

struct life;
struct turn;

enum ask_kind {
    ASK_SCHEDULE,
    ASK_MOVE,
    ASK_CANCEL,
    ASK_REQUEUE,
    ASK_DROP,
    ASK_QUEUE, /* sets the policy, and the pause if it changed */
    ASK_JOB,
    ASK_SETTLE, /* repeats the recorded settlement of a delivery */
    ASK_TOUCH,  /* not in the log: the core checks whether the task has expired */
};

struct ask {
    enum ask_kind kind;
    struct life *life; /* task of the request; NULL for ASK_QUEUE and ASK_JOB */
    struct plan *plan;
    struct turn *turn; /* SETTLE */
    enum verdict verdict;
    bool absolute;
    /* Due time: a delay, or with `absolute` a time; ASK_QUEUE: duration of the pause, 0: until resumed. */
    uint64_t ms;
    uint32_t priority;
    uint64_t expires_ms;
    bool replaces;
    bool withdraw;
    Tarry__Policy policy; /* ASK_QUEUE: the recorded policy */
    bool pauses, paused;
    Tarry__JobPut__What what;
    uint32_t states;
};

struct asked {
    struct logical_time at;
    uint64_t position;
    bool atomic;
    bool settles; /* true: the commit contains an ASK_SETTLE */
    struct ask *items;
    size_t count, capacity;
};

struct asked *asked_new(const struct entry *entry);
void asked_free(struct asked *asked); /* NULL is allowed */
/* Adds the request of a record, if a client made one. `life` NULL: the record concerns no known task. The caller adds
 * settlements itself. */
void asked_take(struct asked *asked, const struct entry *entry, struct plan *plan, struct life *life);
struct ask *asked_add(struct asked *asked, enum ask_kind kind, struct plan *plan, struct life *life);

#endif
