/* host.h: a simulated broker around the real core, in one thread. It carries out the engine's effects, as the
 * threads of broker/shell do.
 *
 *     request ─► core_turn, request ─► facts (read late, handed in later) ─► core_turn_step ─► batch
 *     batch ─► group_commit: append, read, sync ─► release_gate ─► replies ─► delivery sender, indexer, CORE_DURABLE
 *     indexer: index_schedule ─► table, CORE_INDEXED; retention, erasure
 *     start: recovery_plan
 *
 * The log is the real one on a virtual disk (model_disk.h). The index is a model (table.h). The clock is the pure
 * half of the real one (shell/process/clock.h). The host is fail-stop (LOG-4): a failed call ends the broker's life,
 * and only a new start continues.
 *
 * For each frame, the host checks every promise that the broker's own state shows (MUST with the promise). */
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
#define HOST_SUBSCRIBERS 4 /* number of subscribers of the release gate */

struct world;
struct client;
struct request;
struct model_disk;
struct node;

enum host_state {
    HOST_DOWN,
    HOST_UP,
    HOST_REFUSED /* the broker has refused to start; host.message has the reason */
};
enum host_end {
    HOST_KILLED,    /* the process ends; the page cache survives */
    HOST_POWER_LOST /* the machine loses power: unsynced writes are lost, torn or on the disk */
};

struct frame_note { /* copy of an appended frame, kept outside of the log */
    struct frame_header header;
    uint64_t end;
    uint64_t synced_to;   /* position up to which the log was durable, as the frame claims */
    int64_t trusted_ns;   /* how far the broker's wall time was from the true time */
    uint64_t stood_ns;    /* time for which the broker's wall time had not advanced when the frame was made */
    const uint8_t *bytes; /* the bytes of the frame's body */
    Tarry__FrameBody *body;
    uint64_t digest;          /* digest of the state after this frame */
    uint64_t live;            /* number of live tasks after the frame */
    uint64_t serial;          /* serial number of the frame, unique over all disks */
    uint32_t node;            /* number of the node that decided the frame */
    struct ledger_news *news; /* what the test knows about the tasks in the frame */
    size_t news_count;
    bool state_ends; /* true: the frame is the last one of its step, so its digest could be compared with core_digest */
};

struct asked {                            /* a request or another event for which the core needs rows of the index */
    struct engine_request engine_request; /* first member, because engine_request.h gets only a pointer to it; its item
                                             is a client's call, a result page or a window */
    struct window_rows rows;              /* rows of a window */
    struct core_window window;
    struct core_page page;
    uint64_t life;
    bool has_recurred; /* true: a recurrence fell due after the call arrived */
    struct client *client;
    struct request *request;
    uint64_t arrived_ns; /* true time at which a client's call reached this machine */
    size_t known;        /* number of acknowledged frames at the time when the call arrived (truth.h) */
    size_t proved;       /* number of acknowledged frames that a follower's reply must show (node_proved) */
};

struct batch {              /* the effects of one or more steps, which wait for the disk (shell/queues/batch.h) */
    struct release release; /* must be the first member (batch_of) */
    struct arena arena;
    struct core_effects effects;
    struct batch *next;
    uint64_t
        end; /* log position after the batch; 0: a follower's batch, which depends on the committed position instead */
    bool reads_late; /* true: the contents of the batch's deliveries are read when the deliveries may leave */
};

struct lane {
    struct lane_state state;
    struct client *client; /* client of the lane's connection, or of its last connection */
    struct sent *sent;     /* the delivery that the connection is sending; NULL: none */
};

struct unread { /* a request in the machine's socket, which the process has not read yet */
    struct unread *next;
    struct client *client;
    struct request *request;
    uint64_t life;
    uint64_t arrived_ns; /* true time */
};

struct parcel {                    /* a delivery that waits until it may leave (shell/threads/delivery_sender.c) */
    struct core_delivery delivery; /* the delivery; its tasks and keys are in the world's memory */
    struct parcel *next;
};

struct host {
    uint32_t number;
    enum host_state state;
    char message[512];
    uint64_t life;     /* number of starts until now; events of an earlier life are ignored */
    struct node *node; /* state of the host as a node of a pair; NULL: the broker is alone */

    /* The machine's clocks. */
    int64_t wall_offset_ns;    /* how far the wall clock is from the true time */
    uint64_t booted_ns;        /* world time at which the machine's BOOTTIME was zero */
    uint64_t boot;             /* number of the machine's present boot, counted from 1 */
    uint64_t paused_until_ns;  /* world time until which the process is stopped (SIGSTOP) */
    struct timeline stopped;   /* events that wait until the stopped process runs again */
    uint64_t paused_from_ns;   /* time at which the process was last stopped, or the machine last went to sleep */
    uint64_t went_on_ns;       /* time at which the process last continued, or the machine last woke up */
    uint64_t paused_steady_ns; /* steady time at which the process was last stopped */
    struct unread *unread;     /* requests in the machine's sockets, oldest first */

    struct model_disk *disk;
    struct disk calls; /* functions of the disk that the log uses; they take the disk reserve into account */
    struct log *log;
    struct log_cursor *indexer;
    struct log_cursor *retiring;
    struct core *core;
    struct clock_state clock;
    uint64_t tick_ns; /* time of the core thread's next wake-up; UINT64_MAX: none */
    struct stall stall;
    struct core_turn turn;
    struct turn_load inbox;    /* items that the core's turn has not taken yet */
    bool in_turn;              /* true: the core is being called, with the time turn.at_ns */
    const struct asked *taken; /* the call about which the core is deciding; NULL: none */
    struct instant stepped;    /* latest time with which the core was called */

    struct batch *batch;   /* the batch into which steps put their effects */
    struct batch *posted;  /* batches that wait for the next group commit, oldest first */
    struct batch *syncing; /* batches of the running group commit */
    struct batch *spare;   /* empty batches */
    unsigned batches;      /* number of batches that are being filled or have not left yet */
    bool puts_off;         /* true: too many batches wait, so the current batch is not passed on */
    bool awaits_batch;     /* true: the core's turn has stopped, because it waits for a free batch */
    bool turn_comes;       /* true: an event is scheduled in which the waiting turn continues */
    struct index_schedule index_schedule;
    uint64_t filter_id_end; /* the key filter contains the keys of all tasks of the index with smaller ids */
    bool flushing;
    struct group_commit group;
    uint64_t sync_since_ns; /* time at which the running sync began; 0: no sync runs */
    uint64_t sync_stood_ns; /* time in ns that the process was stopped during the running sync, less the part that a
                               sync's duration includes (HUNG_DISK_LOOK_COUNTS_MS) */
    bool sync_held;         /* true: a story prevents every sync from ending */
    bool sync_due;          /* true: a group commit waits for the sync that the story prevents */
    bool indexing;          /* true: an event is scheduled in which the indexer runs */
    bool index_held;
    bool archiving;
    bool delivery_sender_comes;
    struct retention retention;
    struct erasure erasure;
    size_t
        slice_count; /* number of redactions whose contents are being erased; they are the first of table.redactions */
    uint64_t archived; /* position up to which this process has archived the log */
    struct release_gate gate;
    struct release_subscriber subscribers[HOST_SUBSCRIBERS];
    struct parcel *parcels;    /* deliveries that wait to leave, oldest first */
    struct parcel *departures; /* deliveries of leases ahead of time that wait until their leases are durable */
    struct lane lanes[HOST_LANES_MAX];
    uint64_t connections; /* number of connections made so far, from which each connection gets its number */
    uint64_t durable;     /* durable log position, as far as the core knows it */
    uint64_t indexed;
    struct disk_reserve reserve;

    /* State that the rig keeps outside of the broker. */
    struct table table; /* the model index on the disk: it survives every crash */
    struct flat head;   /* state after all appended frames; of a follower: after all applied frames */
    struct ledger_origin origins[FLAT_TASKS_MAX]; /* facts about each task as of `head`, indexed by the task's id */
    uint64_t given_out[FLAT_TASKS_MAX]; /* by task id: log position of the lease in the newest delivery that the core
                                           decided since the last start */
    struct watch watch;
    uint64_t archive_end;             /* durable end of the archive */
    bool archive_has[FLAT_TASKS_MAX]; /* by task id: true if the archive has the task's content */
    struct frame_note *frames;
    size_t frame_count;
    size_t frame_capacity;
    uint64_t promised;        /* largest log position on which a reply or a delivery that has left depends */
    uint64_t noted_boot;      /* number of the boot in which noted_steady_ns is valid */
    uint64_t noted_steady_ns; /* steady time at the beginning of boot `noted_boot`, where BOOTTIME is 0; see
                                 shell/process/clock.h */
    uint64_t stood_before_ns; /* time for which the wall time had not advanced when the log's last frame before the
                                 start was decided */
    uint64_t stood_wall_ns;   /* broker's wall time at the last start; stood_before_ns counts while the wall time still
                                 has this value */
    uint64_t steps;
    uint32_t starts;
    uint32_t refusals;
    uint64_t cut_bytes;
    uint64_t may_cut_at; /* log position of a flipped bit that no seal frame protects, so a start may cut there;
                            UINT64_MAX: none */
};

/* ---- life */
void host_begin(struct world *world); /* gives the host an empty disk */
void host_free(struct host *host);
struct batch *host_batch_take(struct host *host);
void host_batch_drop(struct host *host, struct batch *batch);
/* Continues the core's turn if it waited for a free batch. Must be called after batches of a running broker were
 * dropped. */
void host_batches_dropped(struct world *world);
/* If a batch is free, continues the turn that waits for one. */
void host_go_on_with_turn(struct world *world);
void host_end_history(struct world *world);
/* Starts the broker. Returns false if it did not start: host.state is REFUSED and host.message a sentence, or DOWN
 * after a disk failure. */
bool host_start(struct world *world, bool accept_clock);
void host_kill(struct world *world, enum host_end how);
/* Stops the broker in order: CORE_STOP, all replies, CORE_CLOSE, a seal frame. After that the broker is down. */
void host_stop(struct world *world);
/* Ends the broker's life after a failed call (LOG-4). */
void host_fail(struct world *world, const char *what, int error);

/* ---- from outside */
/* Puts a request into the machine's socket; host_read lets the process read it. Returns NULL if the broker is down. */
struct unread *host_reached(struct world *world, struct client *client, struct request *request);
void host_read(struct world *world, struct unread *unread);
void host_lane_up(struct world *world, struct client *client, uint32_t number, uint64_t session);
void host_lane_gone(struct world *world, uint64_t connection);
/* Sets how many tasks each delivery to the pooled session may have. */
void host_credit(struct world *world, uint64_t session, uint32_t credit);

/* Checks that every frame of the log, contents included, is as it was appended. */
void host_check_log(struct world *world);

/* ---- scripted */
void host_hold_sync(struct world *world);
void host_release_sync(struct world *world);
void host_hold_index(struct world *world);
void host_release_index(struct world *world);
/* Absorbs all durable frames into the index at once. */
void host_index_now(struct world *world);
struct instant host_now(struct world *world);
/* Returns the time for the step of the current event: when it was received (engine/stall.h), or the present time if
 * that is not known. */
struct instant host_event_time(struct world *world);
/* Returns the steady time from which a delay in the present request counts (TIME-1). */
uint64_t host_from_ns(struct world *world);
/* Notes that the process stops (or the machine sleeps), and that it runs again. */
void host_stands_still(struct world *world);
void host_goes_on(struct world *world);
/* Returns the time that the core uses to answer queries now. A follower's clock may be behind its leader's log, so the
 * log's time counts if it is later. */
struct instant host_answers_at(struct world *world);

/* ---- of a pair (node.h) */
/* Puts a batch into the release gate. A batch without frames is confirmed by the follower's question with the number
 * `question` (R3). */
void host_enter(struct world *world, struct batch *batch, uint64_t question);
/* Releases the replies and deliveries that may leave. Returns false if the disk failed, which ends the broker's life.
 */
bool host_release(struct world *world, bool *out_has_left);
/* Drops all waiting replies and deliveries. */
void host_drop_waiting(struct host *host);
/* Returns whether this run leased the task ahead of time and has not sent its delivery yet. All answers show such a
 * task as waiting (core/ahead.h). */
bool host_holds_back(const struct world *world, const struct row *row);
/* Sends a delivery of a lease ahead of time (core_delivery.departs). It waits only until its own leases are durable. */
void host_depart(struct world *world, const struct core_delivery *delivery);
/* Marks everything below `position` as committed: replies that depend on it may leave, and the indexer may absorb it.
 */
void host_committed(struct world *world, uint64_t position);
/* Begins an epoch in which this host's core decides. */
void host_begin_epoch(struct world *world, uint32_t epoch);
void host_restart_clock(struct world *world, struct clock_origin origin);

/* ---- between host_*.c */
void host_step(struct world *world, struct core_event *event);
/* Runs a turn of the core over all items in the inbox (engine/core_turn.h). Must not be called within a turn. */
void host_turn(struct world *world);
/* Puts the item into the inbox with the present time as its time of receipt, unless it has one, and runs the core's
 * turn. */
void host_take(struct world *world, struct item *item);
/* Steps the core with `event`, which begins or ends the core's run. */
void host_begin_run(struct world *world, struct core_event event);
/* Sends the core an event of the lane after a short time. Drops the event if another session has the lane at that time.
 */
void host_post(struct world *world, const struct lane *lane, const struct core_event *event);
void host_wake(struct world *world); /* schedules the next wake-up */
/* Passes the current batch on to the group commit (TURN_FLUSH). */
void host_flush(struct world *world);
/* Carry out TURN_TAKE, TURN_REFUSE and TURN_DROP for an item. Events of lanes are carried out elsewhere. */
void host_take_asked(struct world *world, struct asked *asked);
void host_refuse_asked(struct world *world, struct asked *asked);
void host_drop_asked(struct world *world, struct asked *asked);
void host_ask_window(struct world *world, const struct core_window *window);
void host_ask_page(struct world *world, const struct core_page *page);
void host_gate_begin(struct world *world); /* makes the release gate and its subscribers, once host->durable is known */
void host_index_later(struct world *world);
void host_retire_later(struct world *world);
/* Starts the indexer at the index's position. */
void host_index_begin(struct host *host);
/* Implements core_filter.may_exist for the core of a host. */
bool host_may_exist(const void *filter, uint64_t key_hash);
/* ---- host_archive.c */
void host_archive_begin(struct host *host);
bool host_is_archived(const struct world *world, uint64_t end);
/* Archives the segment that retention has chosen, after a random time. */
void host_archive_later(struct world *world);
/* Erases a content in the archive. Returns false if the archive cannot be reached. */
bool host_archive_erase(struct world *world, const Tarry__Redaction *redaction);
bool host_redacts(const Tarry__Request *request);
/* Searches for the contents that the redaction concerns. Afterwards the request returns to the core. */
void host_locate_later(struct world *world, struct asked *asked);
void host_erase_later(struct world *world);
/* Ends the running erasure. Must be called before a cut of the log, which in the product waits for the erasing thread
 * (log_erase_begin). */
void host_erase_through(struct world *world);
void host_check_erased(struct world *world);
void host_lane_effect(struct world *world, const struct core_lane *lane);
/* Sends a delivery on its lane. `is_made` false: its contents could not be read, so nothing is sent. */
void host_lane_send(struct world *world, const struct core_delivery *delivery, const struct outgoing_contents *contents,
                    bool is_made);
/* Sends a reply. `node`: number of the node that decided it. */
void host_answer(struct world *world, struct asked *asked, uint32_t node, Tarry__Reply *reply, const uint8_t *commit,
                 size_t commit_size);
struct frame_note *host_add_frame(struct host *host);
const struct frame_note *host_frame(const struct host *host, uint64_t position);
/* Returns the number of frames that end at or below `position`. */
size_t host_frames_below(const struct host *host, uint64_t position);
/* CAP-1: returns whether the disk has room for a commit with schedules of this size. */
bool host_has_room(struct world *world, uint64_t size);
void host_room_begin(struct world *world);

#endif
