/* stage.h: runs the real core on a virtual clock, and calls it as the broker does (core_turn.h). Everything that the
 * core appends counts as durable and indexed at once. Instead of an index, this module keeps a struct twin for each
 * task, with its current row.
 *
 * A step gives the core one event, and calls `watch` with every record that results, and with every delivery. */
#ifndef TARRY_TOOL_STAGE_H
#define TARRY_TOOL_STAGE_H

#include <sys/queue.h>

#include "core_turn.h"
#include "life.h"

struct workers;
struct twin {
    struct row row; /* current row of the task. The row points to the key in `life`; the reason is not stored */
    struct life *life;
    bool ended;
    enum outcome_kind outcome;
    struct logical_time since; /* time of the last record of this task */
    struct logical_time waited_since;
    struct phase *phase; /* recorded period of waiting (life.h) that matches the current one of this task; NULL: none */
    struct phase *next;  /* recorded period of waiting that may match the next one of this task */
    struct turn *turn; /* recorded delivery that the dry run imitates in the current or the next delivery; NULL: none */
    uint64_t version;  /* increases with each change of the task, but not when only the lease's deadline changes */
    uint64_t taken;    /* number of deliveries so far */
    uint64_t take_ns;  /* approximate time of the next delivery (steady) */
    struct twin *same_key; /* next task that has the same key and was once dead */
    bool was_dead;
    struct workers *holder;
    LIST_ENTRY(twin) held;
};

struct stage {
    struct core *core;
    struct core_turn turn; /* state of one call of the core, as in the broker (core_turn.h) */
    struct core_effects effects;
    struct arena arena, bodies, facts;
    struct instant now;
    uint64_t producer, sequence;
    uint64_t first_id;
    struct twin **twins; /* array of tasks, indexed by id - first_id; owned */
    size_t count, capacity;
    struct id_map dead_keys; /* tasks that were once dead, by the hash of their key */
    struct core_page *pages; /* result pages that the core's jobs have requested from this module */
    size_t page_count, page_capacity;
    /* Last reply of the core: its code and its results. */
    Tarry__Code code;
    const Tarry__CommitReply *results; /* results of a commit, in `arena`; NULL: another reply */
    uint64_t session, silence_ms;      /* results of a subscription */
    const char *problem; /* error message if the core refused a request that the stage needs; NULL: none */
    void (*on_twin)(void *argument, struct twin *twin, Tarry__Cause cause);
    void *argument;
};

/* Starts the core. `count`: maximum number of tasks. False: out of memory. */
bool stage_init(struct stage *stage, uint64_t first_id, size_t count, struct logical_time now);
void stage_deinit(struct stage *stage);
void stage_tick(struct stage *stage);
uint64_t stage_deadline_ns(const struct stage *stage);
/* Sends a commit to the core. `lives`: the recorded life of each task that the commit schedules, in the order of the
 * operations; NULL: the commit schedules no task. */
void stage_commit(struct stage *stage, Tarry__Op **ops, size_t count, bool atomic, struct life *const *lives);
/* Gives the core's jobs all result pages that they have requested up to now. False: no job has requested one. */
bool stage_pages(struct stage *stage);

/* ---- consumers */

/* The consumers of a queue in a dry run: one session, which gets exactly as many tasks as the dry run grants. The core
 * sends a session nothing while a delivery to it is on its way. A grant tells the core that the last delivery has left,
 * so the core may send one more task. The core decides which task. */

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
/* workers_leased records that these consumers got a lease on the task; workers_lost records that their lease has ended.
 */
void workers_leased(struct workers *workers, struct twin *twin);
void workers_lost(struct workers *workers, struct twin *twin);
/* Returns when the session needs the next heartbeat; UINT64_MAX: never. */
uint64_t workers_beat_ns(const struct workers *workers);
void workers_beat(struct workers *workers);

#endif
