/* stage.h: the real core, stepped as the broker steps it (core_turn.h), on a virtual clock, with everything that it
 * appends durable and indexed at once. What an index would know is kept here: a twin for each task.
 *
 * A step hands the core one event, and tells `watch` every record that comes of it, and every delivery. */
#ifndef TARRY_TOOL_STAGE_H
#define TARRY_TOOL_STAGE_H

#include <sys/queue.h>

#include "core_turn.h"
#include "life.h"

struct workers;
struct twin {
    struct row row; /* its key is the life's; its reason is not kept */
    struct life *life;
    bool ended;
    enum outcome_kind outcome;
    struct logical_time since; /* of the last record */
    struct logical_time waited_since;
    struct phase *phase;   /* of the record, that this waiting was found to be; NULL: none */
    struct phase *next;    /* of the record, that the next waiting may be */
    struct turn *turn;     /* of the record, that goes for the next or the current delivery; NULL: none */
    uint64_t version;      /* grows with every change but of a lease's deadline */
    uint64_t taken;        /* deliveries so far */
    uint64_t take_ns;      /* when it is to be delivered next, about; steady */
    struct twin *same_key; /* among those that were dead once */
    bool was_dead;
    struct workers *holder;
    LIST_ENTRY(twin) held;
};

struct stage {
    struct core *core;
    struct core_turn turn; /* steps it */
    struct core_effects effects;
    struct arena arena, bodies, facts;
    struct instant now;
    uint64_t producer, sequence;
    uint64_t first_id;
    struct twin **twins; /* [id - first_id]; owned */
    size_t count, capacity;
    struct id_map dead_keys; /* by key's hash: those that were dead once */
    struct core_page *pages; /* that jobs wait for */
    size_t page_count, page_capacity;
    /* the last reply */
    Tarry__Code code;
    const Tarry__CommitReply *results; /* of a commit; in `arena` */
    uint64_t session, silence_ms;      /* of a subscription */
    const char *problem;               /* the core refused what the stage cannot do without; NULL: it did not */
    void (*on_twin)(void *argument, struct twin *twin, Tarry__Cause cause);
    void *argument;
};

/* `count`: tasks at most. False: out of memory. */
bool stage_init(struct stage *stage, uint64_t first_id, size_t count, struct logical_time now);
void stage_deinit(struct stage *stage);
void stage_event(struct stage *stage, struct core_event *event);
void stage_tick(struct stage *stage);
uint64_t stage_deadline_ns(const struct stage *stage);
/* A request with the kind of event that it is. */
void stage_ask(struct stage *stage, enum core_event_kind kind, Tarry__Request *request);
/* Commits; `lives` are the tasks that schedules bring, in order of the operations (NULL: it is none). */
void stage_commit(struct stage *stage, Tarry__Op **ops, size_t count, bool atomic, struct life *const *lives);
/* Answers what the jobs wait for, once. False: none does. */
bool stage_pages(struct stage *stage);

#endif
