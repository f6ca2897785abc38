/* host.h: the broker around the core, in one thread: hands of the engine, as broker/shell has them in several.
 *
 *     request ─► engine: core_turn, request ─► facts (read late, handed in later) ─► core_turn_step ─► batch
 *     batch ─► group_commit: append, read, sync ─► release_gate ─► answers ─► delivery sender, indexer, CORE_DURABLE
 * (engine) indexer: engine: index_schedule ─► table, CORE_INDEXED; retention, erasure start: engine: recovery_plan
 *
 * The log is the real one on a virtual disk (model_disk.h), the index a model (table.h), the clock the real one's pure
 * half (shell/process/clock.h). It fails stop (LOG-4): a failed call ends the broker's life, and only a start goes on.
 *
 * What it watches by itself: every promise that can be seen from inside, frame by frame (MUST with the promise). */
#ifndef TARRY_TESTS_SIM_HOST_H
#define TARRY_TESTS_SIM_HOST_H

#include "clock.h"
#include "core_turn.h"
#include "disk_reserve.h"
#include "engine_request.h"
#include "erasure.h"
#include "group_commit.h"
#include "index_schedule.h"
#include "lane_state.h"
#include "ledger.h"
#include "log.h"
#include "outgoing_read.h"
#include "release_gate.h"
#include "retention.h"
#include "stall.h"
#include "table.h"
#include "timeline.h"
#include "watch.h"

#define HOST_LANES_MAX LANES_MAX
#define HOST_SUBSCRIBERS 4 /* of the release gate */

struct world;
struct client;
struct request;
struct model_disk;
struct node;

enum host_state {
    HOST_DOWN,
    HOST_UP,
    HOST_REFUSED /* it would not start; host.message says why */
};
enum host_end {
    HOST_KILLED,    /* the process ends; the page cache stays */
    HOST_POWER_LOST /* the machine ends: what was not synced is lost, torn or there */
};

struct frame_note { /* what was appended, remembered outside of the log */
    struct frame_header header;
    uint64_t end;
    uint64_t synced_to;   /* as the log wrote it */
    int64_t trusted_ns;   /* how wrong the wall clock was that the broker went by */
    uint64_t stood_ns;    /* how long the wall had stood still */
    const uint8_t *bytes; /* of the body */
    Tarry__FrameBody *body;
    uint64_t digest;          /* of the state behind it */
    uint64_t live;            /* likewise */
    uint64_t serial;          /* no two frames have the same, on whichever disk */
    uint32_t node;            /* who decided it */
    struct ledger_news *news; /* what it says of tasks that only the rig knows */
    size_t news_count;
    bool state_ends; /* it was the last one of its step: core_digest could be compared */
};

struct asked {                            /* something that the core lacks facts for, or asked for itself */
    struct engine_request engine_request; /* first: a call, or a page; or the item of a window */
    struct window_rows rows;              /* a window's */
    struct core_window window;
    struct core_page page;
    uint64_t life;
    struct client *client;
    struct request *request;
    uint64_t arrived_ns; /* a call: the truth, when it came to the machine */
    size_t known;        /* how many frames had been acknowledged when it came (truth.h) */
    size_t proved;       /* … and how many of them a follower's answer must show (node_proved) */
};

struct batch {              /* effects of some steps, on their way to the disk and out (shell/queues/batch.h) */
    struct release release; /* first: batch_of */
    struct arena arena;
    struct core_effects effects;
    struct batch *next;
    uint64_t end;    /* where the log ends behind them; 0: a follower's, which rests on what is committed */
    bool reads_late; /* its deliveries are read once they may leave */
};

struct lane {
    struct lane_state state;
    struct client *client; /* whose connection it is, or was last */
    struct sent *sent;     /* under way on it; NULL: nothing is */
};

struct unread { /* a request that has come to the machine, and was not looked at yet */
    struct unread *next;
    struct client *client;
    struct request *request;
    uint64_t life;
    uint64_t arrived_ns; /* the truth */
};

struct parcel {                    /* a delivery on its way out (shell/threads/delivery_sender.c) */
    struct core_delivery delivery; /* tasks and keys in the world's memory */
    struct parcel *next;
};

struct host {
    uint32_t number;
    enum host_state state;
    char message[512];
    uint64_t life;     /* grows with every start; what belongs to an earlier one is void */
    struct node *node; /* it is one of a pair; NULL: it is alone */

    /* The machine's clocks. */
    int64_t wall_offset_ns;    /* how wrong the wall clock is */
    uint64_t booted_ns;        /* BOOTTIME counts from here */
    uint64_t boot;             /* which one of the machine; from 1 */
    uint64_t paused_until_ns;  /* SIGSTOP */
    struct timeline stopped;   /* what happens once that is over */
    uint64_t paused_from_ns;   /* the last time, suspended machines included … */
    uint64_t went_on_ns;       /* … and until then */
    uint64_t paused_steady_ns; /* logical time as it was stopped */
    struct unread *unread;     /* in its sockets */

    struct model_disk *disk;
    struct disk calls; /* the log's, mindful of the reserve */
    struct log *log;
    struct log_cursor *indexer;
    struct log_cursor *retiring;
    struct core *core;
    struct clock_state clock;
    uint64_t tick_ns; /* when it is woken next; UINT64_MAX: not */
    struct stall stall;
    struct core_turn turn;
    struct turn_load inbox;    /* what waits for the core's turn */
    bool in_turn;              /* the core is told of things, as of turn.at_ns */
    const struct asked *taken; /* the call that is being decided; NULL: none is */
    struct instant stepped;    /* the latest that the core was told */

    struct batch *batch;   /* that steps fill */
    struct batch *posted;  /* for the next group; oldest first */
    struct batch *syncing; /* the group under way */
    struct batch *spare;   /* empty ones */
    unsigned batches;      /* that are filled or on their way */
    bool puts_off;         /* the batch that is filled was not handed on */
    bool awaits_batch;     /* the core's turn goes on once one is free … */
    bool turn_comes;       /* … and does so in a moment */
    struct index_schedule index_schedule;
    uint64_t filter_id_end; /* the filter of keys knows the tasks of the index below it */
    bool flushing;
    struct group_commit group;
    uint64_t sync_since_ns; /* when the sync under way began; 0: there is none */
    bool sync_held;         /* a story holds the disk */
    bool sync_due;          /* … and the group waits for it */
    bool indexing;          /* it waits, for its turn */
    bool index_held;
    bool archiving;
    bool delivery_sender_comes;
    struct retention retention;
    struct erasure erasure;
    size_t slice_count; /* so many of the table's redactions are being erased */
    uint64_t archived;  /* by this process: all that lies below is in the archive */
    struct release_gate gate;
    struct release_subscriber subscribers[HOST_SUBSCRIBERS];
    struct parcel *parcels;    /* the oldest first */
    struct parcel *departures; /* leased ahead of time, and not durable yet */
    struct lane lanes[HOST_LANES_MAX];
    uint64_t connections; /* that were ever made; the number of each is its name */
    uint64_t durable;     /* as the core was told */
    uint64_t indexed;
    struct disk_reserve reserve;

    /* What is known from outside. */
    struct table table;                           /* durable: survives every end */
    struct flat head;                             /* as of all frames appended; of a follower: applied */
    struct ledger_origin origins[FLAT_TASKS_MAX]; /* [id], as of the same */
    uint64_t given_out[FLAT_TASKS_MAX];           /* [id]: position of the lease that this run's core gave out last */
    struct watch watch;
    uint64_t archive_end;             /* what the archive has, durably … */
    bool archive_has[FLAT_TASKS_MAX]; /* [id] … and whose content it has */
    struct frame_note *frames;
    size_t frame_count;
    size_t frame_capacity;
    uint64_t promised;        /* answers and deliveries that rest on positions below it have left */
    uint64_t noted_boot;      /* the boot in which … */
    uint64_t noted_steady_ns; /* … steady time was this at BOOTTIME zero (shell/process/boot.h) */
    uint64_t stood_before_ns; /* how long the wall had stood still at the last start … */
    uint64_t stood_wall_ns;   /* … where it was */
    uint64_t steps;
    uint32_t starts;
    uint32_t refusals;
    uint64_t cut_bytes;
    uint64_t may_cut_at; /* a bit flipped there, and nothing protects it; UINT64_MAX: none */
};

/* ---- life */
void host_begin(struct world *world); /* an empty disk */
void host_free(struct host *host);
struct batch *host_batch_take(struct host *host);
void host_batch_drop(struct host *host, struct batch *batch);
/* Some were dropped, of a broker that is up: the core may be waiting for one. */
void host_batches_dropped(struct world *world);
/* A turn that waits for a batch goes on now, if it may. */
void host_go_on_with_turn(struct world *world);
void host_end_history(struct world *world);
/* False: host.state is REFUSED and host.message a sentence, or DOWN when the disk failed. */
bool host_start(struct world *world, bool accept_clock);
void host_kill(struct world *world, enum host_end how);
/* In order: CORE_STOP, everything answered, CORE_CLOSE, the log sealed; then it is down. */
void host_stop(struct world *world);
/* Fail stop (LOG-4). */
void host_fail(struct world *world, const char *what, int error);

/* ---- from outside */
/* A request is in the machine's socket; the process looks at it. NULL: nobody is there to do so. */
struct unread *host_reached(struct world *world, struct client *client, struct request *request);
void host_read(struct world *world, struct unread *unread);
void host_lane_up(struct world *world, struct client *client, uint32_t number, uint64_t session);
void host_lane_gone(struct world *world, uint64_t connection);
/* Each delivery to the pooled session may have so many tasks. */
void host_credit(struct world *world, uint64_t session, uint32_t credit);

/* Every frame of the log, contents included, is what was appended. */
void host_check_log(struct world *world);

/* ---- scripted */
void host_hold_sync(struct world *world);
void host_release_sync(struct world *world);
void host_hold_index(struct world *world);
void host_release_index(struct world *world);
/* All that is durable is indexed at once. */
void host_index_now(struct world *world);
struct instant host_now(struct world *world);
/* The time that an event is stepped at: when it was received (engine/stall.h); now, if that is not known. */
struct instant host_event_time(struct world *world);
/* Steady time from which what it wants "in so long" counts (TIME-1). */
uint64_t host_from_ns(struct world *world);
/* The process stops, or the machine sleeps; it goes on. */
void host_stands_still(struct world *world);
void host_goes_on(struct world *world);
/* The time as of which questions are answered: a follower's clock may be behind what its leader has written. */
struct instant host_answers_at(struct world *world);

/* ---- of a pair (node.h) */
/* Takes the batch over, which leaves by the gate. `question`: what confirms it, if it appended nothing (R3). */
void host_enter(struct world *world, struct batch *batch, uint64_t question);
/* What may leave does. False: the disk failed, and the broker with it. */
bool host_release(struct world *world, bool *out_has_left);
/* Nothing that waits will leave any more. */
void host_drop_waiting(struct host *host);
/* What is below that position is, and may go into the index. */
/* Leased by this run, and not given out yet: for everybody else it waits (core/ahead.h). */
bool host_holds_back(const struct world *world, const struct row *row);
/* A delivery that departs (core_delivery.departs) goes its own way. */
void host_depart(struct world *world, const struct core_delivery *delivery);
void host_committed(struct world *world, uint64_t position);
/* The core decides from now on. */
void host_begin_epoch(struct world *world, uint32_t epoch);
void host_restart_clock(struct world *world, struct clock_origin origin);

/* ---- between host_*.c */
void host_step(struct world *world, struct core_event *event);
/* The core's turn comes, with all that waits in the inbox (engine/core_turn.h). Not within a turn. */
void host_turn(struct world *world);
/* An item is received now, unless it was before, and the core's turn comes. */
void host_take(struct world *world, struct item *item);
/* What begins or ends a run of the core. */
void host_begin_run(struct world *world, struct core_event event);
/* News of a lane, a moment later, unless its turn is over by then. */
void host_post(struct world *world, const struct lane *lane, const struct core_event *event);
void host_wake(struct world *world); /* arms the next tick */
/* The batch is handed on (TURN_FLUSH). */
void host_flush(struct world *world);
/* TURN_TAKE, TURN_REFUSE and TURN_DROP, of all but news of lanes. */
void host_take_asked(struct world *world, struct asked *asked);
void host_refuse_asked(struct world *world, struct asked *asked);
void host_drop_asked(struct world *world, struct asked *asked);
void host_ask_window(struct world *world, const struct core_window *window);
void host_ask_page(struct world *world, const struct core_page *page);
void host_gate_begin(struct world *world); /* host->durable is known */
void host_index_later(struct world *world);
void host_retire_later(struct world *world);
/* The index is begun at what it has. */
void host_index_begin(struct host *host);
/* core_filter.may_exist, of a host. */
bool host_may_exist(const void *filter, uint64_t key_hash);
/* ---- host_archive.c */
void host_archive_begin(struct host *host);
bool host_is_archived(const struct world *world, uint64_t end);
/* The segment under retention comes into the archive, later. */
void host_archive_later(struct world *world);
/* False: the archive is not there just now. */
bool host_archive_erase(struct world *world, const Tarry__Redaction *redaction);
bool host_redacts(const Tarry__Request *request);
/* Where the contents lie that it means; the request comes back. */
void host_locate_later(struct world *world, struct asked *asked);
void host_erase_later(struct world *world);
/* The erasure under way ends: whoever cuts the log waits for it, in another thread (log_erase_begin). */
void host_erase_through(struct world *world);
void host_check_erased(struct world *world);
void host_lane_effect(struct world *world, const struct core_lane *lane);
/* `is_made`: there is something to send. */
void host_lane_send(struct world *world, const struct core_delivery *delivery, const struct outgoing_contents *contents,
                    bool is_made);
/* `node`: who decided it. */
void host_answer(struct world *world, struct asked *asked, uint32_t node, Tarry__Reply *reply, const uint8_t *commit,
                 size_t commit_size);
struct frame_note *host_add_frame(struct host *host);
const struct frame_note *host_frame(const struct host *host, uint64_t position);
/* How many of the frames end at or below `position`. */
size_t host_frames_below(const struct host *host, uint64_t position);
/* CAP-1: a commit that schedules may be taken. */
bool host_has_room(struct world *world, uint64_t size);
void host_room_begin(struct world *world);

#endif
