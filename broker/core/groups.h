/* groups.h: topics and their groups (DESIGN.md, Groups). A queue with a filter, such as "orders:billing", is a group of
 * the topic "orders". A topic's due tasks go to a sharer (Subscribe.sharer), which has one commit turn each of them
 * into shares: one small task in each group whose filter matches. */
#ifndef TARRY_CORE_GROUPS_H
#define TARRY_CORE_GROUPS_H

#include "decide.h"

/* ---- the links between topics and groups */

/* Updates the links between topic and groups. Call it after the queue's policy was set, or after the queue was created
 * or deleted. */
void groups_apply(struct core *core, struct queue *queue);
/* Returns the reason why the queue cannot get this filter, as a sentence in `arena`, and stores its code; NULL: it can.
 * `drafted` is the number of groups that this commit creates. */
const char *group_problem(struct core *core, const char *name, const char *filter, uint32_t drafted,
                          struct arena *arena, Tarry__Code *out_code);
/* Returns the reason why consumers may not subscribe to the queue; NULL: they may. */
const char *group_subscribe_problem(const struct core *core, const char *name, struct arena *arena);
/* Returns the names of the topic's groups, separated by commas. */
const char *group_names(const struct queue *topic, struct arena *arena);

/* ---- the shares of a task that went to its groups */

struct shares {
    struct known known[GROUPS_MAX]; /* the shares that are live or dead letters */
    /* State of each share in `known`, at the same index: RESOLVED_LIVE or RESOLVED_DEAD. */
    enum resolved how[GROUPS_MAX];
    size_t count;
    const struct outcome *ended[GROUPS_MAX]; /* the ended shares whose outcomes are remembered */
    size_t ended_count;
    uint64_t id;      /* id of the task; 0: its outcome is forgotten */
    uint64_t due_ms;  /* due time of the task or, if its outcome is forgotten, of a share */
    bool has_unknown; /* there may have been further shares, whose outcomes are forgotten */
};
/* Finds the shares of the task that the reference names. Call it after `resolve` has returned RESOLVED_ENDED. A
 * reference by key finds the shares even if the task's outcome is forgotten, as long as one share is live. Returns
 * false if no share is found. Does not change d->result. */
bool shares_find(struct decision *d, const Tarry__Ref *ref, struct shares *out);
/* shares_cancel cancels all live shares of a task, and shares_move moves them, unless one is in flight. Both return
 * false, and set no result, if the reference names no task with shares. */
bool shares_cancel(struct decision *d, const Tarry__Cancel *cancel);
bool shares_move(struct decision *d, const Tarry__Move *move);
/* Returns true after a refusal of a new task of the topic, because a live share has the task's key. */
bool shares_hold_key(struct decision *d, const Tarry__Schedule *schedule);

#endif
