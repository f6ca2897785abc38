/* into.c: tarry replay --into: sends the recorded requests of clients to another broker. So all recorded times are
 * shifted by the time between --from and now.
 *
 *     log ──► record by record ──► at its time ──► operations ──► sender ──► target
 *                                                     ▲                        │ deliveries (--settle)
 *                                                     └──── holder ◄───────────┘
 *
 * Time. The replay starts now with the moment --from (default: the time of the first frame). Each later record is
 * replayed when its recorded distance from that moment, divided by --speed, has passed. A delay is also divided, and
 * counts from its own commit; an absolute time is shifted. With --speed max the program does not wait, and due times
 * are shifted but not divided. With --settle it then moves a task to now, before a delivery that the log has.
 *
 * The log contains only operations that took effect, so refused operations are not sent. For a lost lease, the program
 * sends a nack without delay, which counts the same attempt. Leases are not extended, because the holder's leases are
 * long enough. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "content.h"
#include "identity.h"
#include "json_out.h"
#include "output.h"
#include "replay.h"
#include "row.h"
#include "sender.h"
#include "signals.h"
#include "source.h"
#include "tables.h"
#include "tarry_limits.h"
#include "tool.h"

/* ---- the replay as a consumer */

/* The replay's consumer. It receives the deliveries of the target, and keeps each lease until the log says how the
 * delivery was settled.
 *
 * It asks for the longest possible leases, so that no lease ends before its settlement in the log. One consumer for
 * each queue receives all its deliveries. One thread. */

struct holder {
    struct sender *sender;
    struct id_map held; /* leases that the target has given, by the target's id of the task */
    uint64_t timeout_ms;
};

#define TAKE_MAX 256u
#define LOOK_MS 100u     /* timeout of one wait in ms */
#define DOUBT_MS 1000u   /* after this time without a delivery, ask the target whether it will still deliver the task */
#define SOON_MS 500u     /* ms; a due task that does not come within this time is with another consumer */
#define PATIENCE_TIMES 3 /* a wait ends after this multiple of --timeout */

struct held_lease {
    uint64_t id;
    struct tarry_token token;
};

/* Subscribes to the queue of the route, if that is not done yet. Returns a code. */
static int holder_subscribe(struct holder *holder, struct route *route) {
    if (route->consumer != NULL) return TARRY_OK;
    sender_settle(holder->sender); /* an unanswered request may create the queue, so wait for all answers first */
    struct tarry_consumer_options options = {.queues = &route->name,
                                             .queue_count = 1,
                                             .prefetch = PREFETCH_MAX,
                                             .lease_ms = LEASE_MAX_MS};
    return tarry_consumer_open(holder->sender->client, &options, &route->consumer, NULL);
}

static bool is_newer(struct tarry_token a, struct tarry_token b) {
    return a.epoch != b.epoch ? a.epoch > b.epoch : a.position > b.position;
}

static void keep(struct holder *holder, const struct tarry_task *task) {
    struct held_lease *held = id_map_get(&holder->held, task->id);
    if (held == NULL) {
        held = tool_alloc(sizeof *held);
        held->id = task->id;
        id_map_put(&holder->held, task->id, held);
    } else if (!is_newer(task->token, held->token)) {
        return;
    }
    held->token = task->token;
}

/* Receives the deliveries that have arrived; waits up to wait_ms for the first. Returns false if none came. */
static bool holder_pump(struct holder *holder, struct route *route, uint64_t wait_ms) {
    const struct tarry_task *tasks[TAKE_MAX];
    size_t count = 0, all = 0;
    while (tarry_consumer_next_batch(route->consumer, all == 0 ? wait_ms : 0, tasks, TAKE_MAX, &count) == TARRY_OK) {
        for (size_t i = 0; i < count; i++) {
            keep(holder, tasks[i]);
            tarry_task_free(tasks[i]);
        }
        all += count;
    }
    return all > 0;
}

/* Gets the token of the lease on the task. False: there was no lease so far. */
static bool holder_has(struct holder *holder, uint64_t id, struct tarry_token *out_token) {
    const struct held_lease *held = id != 0 ? id_map_get(&holder->held, id) : NULL;
    if (held == NULL) return false;
    *out_token = held->token;
    return true;
}

static bool take_delivery(struct holder *holder, uint64_t id, struct tarry_token *out_token) {
    if (!holder_has(holder, id, out_token)) return false;
    free(id_map_take(&holder->held, id));
    return true;
}

/* Returns why the target will not deliver the task; NULL: it will be delivered. */
static const char *wont_come(struct holder *holder, const struct image *image, uint64_t id) {
    struct tarry_ref ref = {.id = id};
    struct tarry_view *view = NULL;
    if (tarry_get(holder->sender->client, &ref, false, NULL, &view, NULL) != TARRY_OK) return NULL; /* asked again */
    const char *why = NULL;
    bool is_ours = view->session == tarry_consumer_session(image->route->consumer);
    if (view->outcome == TARRY_DEAD)
        why = "it is a dead letter at the target";
    else if (view->outcome == TARRY_IN_FLIGHT && !is_ours)
        why = "another consumer has it at the target";
    else if (view->outcome != TARRY_PENDING && view->outcome != TARRY_IN_FLIGHT)
        why = "it has already ended at the target";
    tarry_view_free(view);
    return why;
}

/* Waits for the delivery of the task's copy at the target (`image`), and takes its lease. Returns false if the copy
 * will not be delivered, or after a signal that asks for the end. In the first case sets image->left_out and records
 * the difference. */
static bool holder_wait(struct holder *holder, struct image *image, struct tarry_token *out_token) {
    uint64_t id = sender_id(holder->sender, image);
    if (id == 0) image->left_out = true; /* the task's scheduling was refused, which was reported */
    if (image->left_out) return false;
    sender_flush(holder->sender);
    uint64_t begin_ms = steady_ms(), asked_ms = begin_ms;
    const char *why = NULL;
    while (why == NULL && !signals_ended()) {
        if (take_delivery(holder, id, out_token)) return true;
        if (sender_failure(holder->sender) != TARRY_OK) return false;
        if (holder_pump(holder, image->route, LOOK_MS)) continue;
        uint64_t now_ms = steady_ms();
        if (now_ms - asked_ms < DOUBT_MS) continue;
        asked_ms = now_ms;
        why = wont_come(holder, image, id);
        if (why == NULL && now_ms - begin_ms > PATIENCE_TIMES * holder->timeout_ms)
            why = "the target did not deliver it for a long time";
    }
    if (why == NULL) return false;
    image->left_out = true;
    sender_differs(holder->sender, image, "deliver", why);
    return false;
}

/* Called before a change of a task that had no lease in the log. If this program has a lease on the task's copy, or
 * gets one within SOON_MS, adds its release to the commit that is being filled. */
static void holder_let_go(struct holder *holder, struct image *image, uint64_t now_ms) {
    struct tarry_token token;
    bool may_be_out = image->due_ms <= now_ms && !image->route->paused;
    if (image->route->consumer == NULL || image->left_out) return;
    uint64_t id = may_be_out ? sender_id(holder->sender, image) : image->id;
    uint64_t end_ms = steady_ms() + SOON_MS;
    if (may_be_out) sender_flush(holder->sender);
    while (may_be_out && !holder_has(holder, id, &token) && steady_ms() < end_ms && !signals_ended())
        holder_pump(holder, image->route, LOOK_MS);
    if (!take_delivery(holder, id, &token)) return;
    struct op op = {.kind = OP_AUXILIARY, .task = image->recorded};
    sender_note(holder->sender, tarry_commit_release(holder->sender->commit, id, token), &op, 0);
}

static void give_back(void *argument, void *value) {
    struct holder *holder = argument;
    struct held_lease *held = value;
    struct op op = {.kind = OP_AUXILIARY};
    sender_note(holder->sender, tarry_commit_release(holder->sender->commit, held->id, held->token), &op, 0);
    free(held);
}

/* Releases all leases without an attempt, and closes the consumers. */
static void holder_close(struct holder *holder, struct routes *routes) {
    for (size_t i = 0; i < routes->count; i++)
        if (routes->items[i]->consumer != NULL) holder_pump(holder, routes->items[i], 0);
    id_map_each(&holder->held, give_back, holder);
    id_map_deinit(&holder->held);
    sender_settle(holder->sender);
    for (size_t i = 0; i < routes->count; i++) {
        tarry_consumer_close(routes->items[i]->consumer, 0, NULL);
        routes->items[i]->consumer = NULL;
    }
}

/* ---- the replay */

#define NS_PER_MS 1000000u
#define SLICE_MS 50u
#define LONG_AGO_MS 60000u /* a task this long past its expiry has expired; clocks differ by less */

struct into {
    struct tool *tool;
    const struct replay_options *options;
    struct store *store;
    struct routes routes;
    struct sender sender;
    struct holder holder;
    struct content content;
    uint64_t frame; /* log position of the frame being replayed; 0: none yet */
    uint64_t frames;
    uint64_t resume; /* log position from which a later replay can continue; 0: everything was replayed */
    bool stopped;
    uint64_t origin_steady_ms, origin_wall_ms; /* recorded times of the replay's first moment (--from) */
    uint64_t origin_ns;                        /* steady time of the replay's first moment in ns */
    uint64_t start_ms;                         /* steady clock of this machine at the start of the replay */
    uint64_t target_ms;                        /* clock of the target at the start of the replay */
    bool replaces;                             /* true: the log says that the next schedule replaced a live task */
    /* Numbers of records and tasks. `before`: tasks that were scheduled before the first replayed frame. `emptied`:
     * tasks whose content is lost. */
    uint64_t records, before, skipped, emptied;
};

/* ---- time */

static uint64_t now_ms(const struct into *in) {
    return in->target_ms + (steady_ms() - in->start_ms);
}

static uint64_t divided(const struct into *in, uint64_t ms) {
    return in->options->speed > 0 ? (uint64_t)ceil((double)ms / in->options->speed) : ms;
}

/* Returns the target's time that corresponds to a recorded time. */
static uint64_t shifted(const struct into *in, uint64_t ms, uint64_t origin_ms) {
    if (ms >= origin_ms) return in->target_ms + divided(in, ms - origin_ms);
    uint64_t before_ms = divided(in, origin_ms - ms);
    return before_ms < in->target_ms ? in->target_ms - before_ms : 0;
}

static uint64_t ms_up(uint64_t ns) {
    return (ns + NS_PER_MS - 1) / NS_PER_MS;
}

/* Returns the delay at the target that corresponds to a recorded steady time. */
static uint64_t delay_of(const struct into *in, const struct frame_header *header, uint64_t due_ms) {
    uint64_t at_ms = in->options->speed > 0 ? ms_up(header->steady_ns) : now_ms(in);
    uint64_t until_ms = in->options->speed > 0 ? due_ms : shifted(in, due_ms, in->origin_steady_ms);
    return until_ms > at_ms ? divided(in, until_ms - at_ms) : 0;
}

struct when {
    enum tarry_when kind;
    uint64_t ms;
};

static struct when when_of(const struct into *in, const struct entry *entry, struct image *image) {
    const Tarry__Task *task = entry->record->put->task;
    struct when when = {.kind = TARRY_AT};
    /* The due time without the recorded spread, because the target's queue adds its own spread. */
    const uint64_t asked_ms = task->due_ms - task->spread_ms;
    if (task->time_base == TARRY__TASK__BASE__WALL) {
        when.ms = image->due_ms = shifted(in, asked_ms, in->origin_wall_ms);
    } else {
        when = (struct when){TARRY_DELAY, delay_of(in, entry->header, asked_ms)};
        image->due_ms = now_ms(in) + when.ms;
    }
    return when;
}

/* Waits until a recorded time. False: a signal came, or the target is lost. */
static bool wait_for(struct into *in, uint64_t steady_ns) {
    if (in->options->speed == 0) return true;
    uint64_t after_ns = steady_ns > in->origin_ns ? steady_ns - in->origin_ns : 0;
    uint64_t due_ms = in->start_ms + (uint64_t)((double)after_ns / NS_PER_MS / in->options->speed);
    bool flushed = false;
    for (uint64_t now; (now = steady_ms()) < due_ms;) {
        if (!flushed) sender_flush(&in->sender);
        flushed = true;
        struct pollfd fd = {.fd = signals_fd(), .events = POLLIN};
        poll(&fd, 1, (int)(due_ms - now < SLICE_MS ? due_ms - now : SLICE_MS));
        if (signals_ended() || sender_failure(&in->sender) != TARRY_OK) return false;
    }
    return true;
}

/* ---- operations */

static struct op op_of(enum op_kind kind, const struct image *image) {
    return (struct op){.kind = kind, .task = image->recorded};
}

static void schedule(struct into *in, const struct entry *entry, struct route *route) {
    const Tarry__Task *task = entry->record->put->task;
    bool replaces = in->replaces;
    in->replaces = false;
    struct image *image = sender_image_new(&in->sender, task->id, route, task->key.data, task->key.len);
    int gone = content_read(&in->content, in->store, entry->header->position, task);
    if (gone < 0) {
        store_damaged(in->store, "log position %" PRIu64 ": %s", entry->header->position, store_sentence(gone));
        in->stopped = true;
    }
    if (gone != 0 && !in->options->missing_as_empty) {
        image->left_out = true;
        in->skipped++;
        return;
    }
    in->emptied += gone != 0;
    struct when when = when_of(in, entry, image);
    image->expires_ms = task->expires_ms > 0 ? divided(in, task->expires_ms) : 0;
    char serial[SERIAL_SIZE_MAX + 1] = "";
    if (task->serial.len > 0 && task->serial.len <= SERIAL_SIZE_MAX) /* a valid record has no longer serial name */
        memcpy(serial, task->serial.data, task->serial.len);
    const struct tarry_own_policy own = {.max_attempts = task->max_attempts,
                                         .backoff_ms = task->backoff_ms,
                                         .lease_ms = task->lease_ms};
    struct tarry_schedule_options options = {
        .serial = serial,
        .own = &own,
        .queue = route->name,
        .key = image->key,
        .key_size = image->key_size,
        .when = when.kind,
        .when_ms = when.ms,
        .payload = in->content.payload,
        .payload_size = in->content.payload_size,
        .properties = in->content.properties,
        .properties_size = in->content.properties_size,
        .attributes = in->content.attributes,
        .attribute_count = in->content.attribute_count,
        .priority = task->priority,
        .expires_ms = image->expires_ms,
        .on_conflict = replaces ? TARRY_REPLACE : TARRY_REJECT,
    };
    struct op op = op_of(OP_SCHEDULE, image);
    sender_note(&in->sender, tarry_commit_schedule(in->sender.commit, &options), &op, task->blob_size + 256);
}

static void move(struct into *in, const struct entry *entry, struct image *image) {
    holder_let_go(&in->holder, image, now_ms(in));
    struct tarry_ref ref = sender_ref(&in->sender, image);
    struct when when = when_of(in, entry, image);
    struct op op = op_of(OP_MOVE, image);
    sender_note(&in->sender, tarry_commit_move(in->sender.commit, &ref, when.kind, when.ms), &op, 128);
}

static void cancel(struct into *in, struct image *image, enum op_kind kind, bool withdraw) {
    struct tarry_ref ref = sender_ref(&in->sender, image);
    struct op op = op_of(kind, image);
    sender_note(&in->sender, tarry_commit_cancel(in->sender.commit, &ref, withdraw), &op, 128);
}

/* Repeats the end of a task that expired: moves its due time so far into the past that the target lets it expire. */
static void expire(struct into *in, struct image *image) {
    holder_let_go(&in->holder, image, now_ms(in));
    struct tarry_ref ref = sender_ref(&in->sender, image);
    struct op op = op_of(OP_AUXILIARY, image);
    uint64_t age_ms = image->expires_ms + LONG_AGO_MS, at_ms = now_ms(in);
    uint64_t due_ms = at_ms > age_ms ? at_ms - age_ms : 0;
    sender_note(&in->sender, tarry_commit_move(in->sender.commit, &ref, TARRY_AT, due_ms), &op, 128);
    cancel(in, image, OP_AUXILIARY, false);
}

static void revive_or_drop(struct into *in, struct image *image, enum tarry_dead_what what) {
    struct tarry_ref ref = sender_ref(&in->sender, image);
    struct op op = op_of(what == TARRY_REQUEUE ? OP_REQUEUE : OP_DROP, image);
    image->due_ms = now_ms(in);
    sender_note(&in->sender, tarry_commit_dead(in->sender.commit, what, &ref, false), &op, 128);
}

/* ---- deliveries */

static void lease(struct into *in, struct image *image) {
    struct tarry_token token;
    int code = holder_subscribe(&in->holder, image->route);
    if (code != TARRY_OK) {
        sender_differs(&in->sender, NULL, "subscribe", tarry_code_sentence(code));
        in->stopped = true;
        return;
    }
    image->leased = true;
    bool comes_by_itself = in->options->speed > 0 || holder_has(&in->holder, image->id, &token);
    if (comes_by_itself) return;
    struct tarry_ref ref = sender_ref(&in->sender, image);
    struct op op = op_of(OP_AUXILIARY, image);
    sender_note(&in->sender, tarry_commit_move(in->sender.commit, &ref, TARRY_DELAY, 0), &op, 128);
}

static void add_settlement(struct into *in, const struct op *op, uint64_t id, struct tarry_token token) {
    int code;
    if (op->kind == OP_ACK)
        code = tarry_commit_ack(in->sender.commit, id, token);
    else if (op->kind == OP_NACK)
        code = tarry_commit_nack(in->sender.commit, id, token, &op->nack);
    else
        code = tarry_commit_release(in->sender.commit, id, token);
    sender_note(&in->sender, code, op, 128);
}

/* Settles the task's lease at the target. Takes ownership of the reason in `op`. */
static void settle(struct into *in, struct image *image, struct op *op) {
    struct tarry_token token;
    /* A task that was leased before --from-position is not leased on the target yet. */
    if (!image->leased) lease(in, image);
    image->leased = false;
    bool is_here = holder_wait(&in->holder, image, &token);
    if (!is_here && signals_ended()) in->stopped = true;
    if (is_here)
        add_settlement(in, op, image->id, token);
    else
        free(op->reason);
}

static void nack(struct into *in, struct image *image, const struct entry *entry, bool at_once) {
    const Tarry__Task *task = entry->record->put->task;
    struct op op = op_of(OP_NACK, image);
    op.as_buried = task->state == TARRY__TASK__STATE__BURIED;
    op.nack = (struct tarry_nack_options){.has_delay = !op.as_buried, .dead = op.as_buried};
    if (!at_once && !op.as_buried) op.nack.delay_ms = delay_of(in, entry->header, task->due_ms);
    const ProtobufCBinaryData *reason = op.as_buried ? &task->reason : &entry->record->put->reason;
    if (reason->len > 0) {
        op.reason = tool_alloc(reason->len + 1);
        memcpy(op.reason, reason->data, reason->len);
    }
    op.nack.reason = op.reason;
    image->due_ms = op.as_buried ? UINT64_MAX : now_ms(in) + op.nack.delay_ms;
    settle(in, image, &op);
}

/* Repeats settlements with a new token, because a restart of the target had ended their leases. */
static void settle_again(struct into *in) {
    for (struct op *op; (op = sender_again(&in->sender)) != NULL; op_free(op)) {
        struct image *image = sender_image(&in->sender, op->task);
        struct tarry_token token;
        if (image == NULL) continue;
        pthread_mutex_lock(&in->sender.lock);
        image->unanswered--;
        pthread_mutex_unlock(&in->sender.lock);
        if (!holder_wait(&in->holder, image, &token)) continue;
        struct op copy = *op;
        if (op->reason != NULL) copy.nack.reason = copy.reason = tool_strdup(op->reason);
        add_settlement(in, &copy, image->id, token);
    }
}

/* ---- records */

/* Finds a task of an earlier replay by its key, when the replay continues. */
static struct image *adopt(struct into *in, const struct entry *entry, struct route *route) {
    const Tarry__Task *task = entry_task(entry);
    struct tarry_ref ref = {.queue = route->name, .key_size = task->key.len};
    struct tarry_view *view = NULL;
    if (in->options->from_position == 0 || task->key.len == 0) return NULL;
    const void *given = sender_key(task->key.data, &ref.key_size);
    char *key = tool_alloc(ref.key_size + 1);
    memcpy(key, given, ref.key_size);
    ref.key = key;
    sender_settle(&in->sender);
    struct image *image = NULL;
    if (tarry_get(in->tool->client, &ref, false, NULL, &view, NULL) == TARRY_OK && view->id != 0) {
        image = sender_image_new(&in->sender, task->id, route, key, ref.key_size);
        image->id = view->id;
        image->due_ms = view->due_ms;
        image->expires_ms = view->expires_ms;
    }
    tarry_view_free(view);
    free(key);
    return image;
}

static void end_purged(struct into *in, struct image *image, const Tarry__Task *task) {
    bool is_dead = task->state == TARRY__TASK__STATE__BURIED;
    if (is_dead && in->options->settle) revive_or_drop(in, image, TARRY_DROP);
    if (!is_dead) cancel(in, image, OP_CANCEL, true);
}

static void act_settling(struct into *in, const struct entry *entry, struct image *image, enum entry_kind kind) {
    struct op op;
    switch (kind) {
    case ENTRY_LEASED:
        lease(in, image);
        break;
    case ENTRY_RELEASED:
    case ENTRY_UNSENT:
        op = op_of(OP_RELEASE, image);
        settle(in, image, &op);
        break;
    case ENTRY_ACKED:
        op = op_of(OP_ACK, image);
        settle(in, image, &op);
        break;
    case ENTRY_LEASE_LOST:
    case ENTRY_RETRIED:
    case ENTRY_DEAD:
        nack(in, image, entry, kind == ENTRY_LEASE_LOST);
        break;
    case ENTRY_REQUEUED:
        revive_or_drop(in, image, TARRY_REQUEUE);
        break;
    case ENTRY_DROPPED:
        revive_or_drop(in, image, TARRY_DROP);
        break;
    case ENTRY_EXPIRED:
        expire(in, image);
        break;
    default:
        break;
    }
}

static void act(struct into *in, const struct entry *entry, struct image *image) {
    enum entry_kind kind = entry_kind(entry);
    switch (kind) {
    case ENTRY_MOVED:
        move(in, entry, image);
        break;
    case ENTRY_CANCELLED:
        cancel(in, image, OP_CANCEL, in->options->settle); /* with --settle, the target's consumers may have the task
                                                              leased even if none had it in the log */
        break;
    case ENTRY_WITHDRAWN:
        cancel(in, image, OP_CANCEL, true);
        break;
    case ENTRY_PURGED:
        end_purged(in, image, entry_task(entry));
        break;
    case ENTRY_REPLACED:
        holder_let_go(&in->holder, image, now_ms(in));
        in->replaces = true;
        break;
    default:
        if (in->options->settle) act_settling(in, entry, image, kind);
        break;
    }
}

/* Copies the policy without the push URL: a replay must not POST old tasks to a real target. */
static struct tarry_policy policy_of(const Tarry__Policy *from) {
    return (struct tarry_policy){.lease_ms = from->lease_ms,
                                 .max_attempts = from->max_attempts,
                                 .backoff_exponential = from->backoff == TARRY__POLICY__BACKOFF__EXPONENTIAL,
                                 .backoff_min_ms = from->backoff_min_ms,
                                 .backoff_max_ms = from->backoff_max_ms,
                                 .backoff_jitter = from->backoff_jitter,
                                 .rate = from->rate,
                                 .rate_period_ms = from->rate_period_ms,
                                 .burst = from->burst,
                                 .max_in_flight = from->max_in_flight};
}

static void set_queue(struct into *in, const struct entry *entry, struct route *route) {
    const Tarry__QueuePut *put = entry->record->queue;
    if (put->deleted) return; /* the target's queue may have tasks of others, so only its operator may delete it */
    struct tarry_policy policy = policy_of(put->policy);
    struct op op = {.kind = OP_QUEUE};
    uint32_t all = TARRY_POLICY_LEASE | TARRY_POLICY_MAX_ATTEMPTS | TARRY_POLICY_BACKOFF | TARRY_POLICY_BACKOFF_MIN |
                   TARRY_POLICY_BACKOFF_MAX | TARRY_POLICY_BACKOFF_JITTER | TARRY_POLICY_RATE | TARRY_POLICY_BURST |
                   TARRY_POLICY_MAX_IN_FLIGHT;
    if (policy.rate_period_ms != 0) all |= TARRY_POLICY_RATE_PERIOD;
    sender_note(&in->sender, tarry_commit_queue_set(in->sender.commit, route->name, &policy, all), &op, 256);
    if (put->paused == route->paused && !put->paused) return;
    uint64_t for_ms = 0;
    if (put->paused && put->paused_until_ms != 0) {
        for_ms = delay_of(in, entry->header, put->paused_until_ms);
        for_ms += for_ms == 0; /* a duration of 0 would pause without end */
    }
    route->paused = put->paused;
    int code = tarry_commit_queue_pause(in->sender.commit, route->name, put->paused, for_ms);
    sender_note(&in->sender, code, &op, 128);
}

/* ---- frames */

static void begin(struct into *in, const struct frame_header *header) {
    uint64_t from_ns = in->options->from_ms * NS_PER_MS;
    in->origin_ns = in->options->from_ms != 0 && in->options->from_position == 0 ? from_ns : header->steady_ns;
    in->origin_steady_ms = in->origin_ns / NS_PER_MS;
    in->origin_wall_ms = in->origin_steady_ms + header->wall_ns / NS_PER_MS - header->steady_ns / NS_PER_MS;
}

/* Returns true if the replay must not continue. */
static bool begin_frame(struct into *in, const struct entry *entry) {
    const struct frame_header *header = entry->header;
    if (in->frame == 0) begin(in, header);
    sender_end_frame(&in->sender);
    if (in->options->settle) settle_again(in);
    bool go_on = !in->stopped && !signals_ended() && sender_failure(&in->sender) == TARRY_OK;
    if (go_on) go_on = wait_for(in, header->steady_ns);
    in->frame = header->position;
    if (!go_on) {
        if (in->resume == 0) in->resume = header->position;
        return true;
    }
    in->frames++;
    sender_begin_frame(&in->sender, header->position, entry->body->atomic && entry->body->producer != 0);
    return false;
}

/* Handles an interrupted wait. A later replay continues with the present frame, because its operations may be repeated.
 * After a frame that has scheduled tasks, a later replay continues with the next frame, because a repetition would
 * schedule the tasks twice. */
static int after_record(struct into *in) {
    if (!in->stopped || (in->sender.frame_schedules > 0 && in->sender.commit != in->sender.atomic)) return 0;
    if (in->resume == 0) in->resume = in->frame;
    sender_abandon_frame(&in->sender);
    return 1;
}

static int take_record(void *argument, const struct entry *entry) {
    struct into *in = argument;
    if (entry->header->position < in->options->from_position) return 0;
    if (entry->header->position != in->frame && begin_frame(in, entry)) return 1;
    struct route *route = entry->queue != NULL ? routes_find(&in->routes, entry->queue) : NULL;
    if (route == NULL || !route->taken) return 0;
    enum entry_kind kind = entry_kind(entry);
    const Tarry__Task *task = entry_task(entry);
    in->records++;
    if (kind == ENTRY_SCHEDULED) {
        schedule(in, entry, route);
        return after_record(in);
    }
    if (kind == ENTRY_QUEUE && in->options->policies) set_queue(in, entry, route);
    if (task == NULL) return 0;
    struct image *image = sender_image(&in->sender, task->id);
    if (image == NULL) image = adopt(in, entry, route);
    in->before += image == NULL;
    if (image == NULL) return 0;
    if (!image->left_out) act(in, entry, image);
    if (entry->record->fact_case == TARRY__RECORD__FACT_END) sender_image_end(&in->sender, image);
    return after_record(in);
}

/* ---- the end */

static void json_summary(const struct into *in, struct text *out, const char *result) {
    const uint64_t *done = in->sender.done;
    out_begin(out, '{');
    out_text(out, "result", result);
    out_number(out, "frames", in->frames);
    out_number(out, "records", in->records);
    out_number(out, "scheduled", done[OP_SCHEDULE]);
    out_number(out, "moved", done[OP_MOVE]);
    out_number(out, "cancelled", done[OP_CANCEL]);
    out_number(out, "acked", done[OP_ACK]);
    out_number(out, "nacked", done[OP_NACK]);
    out_number(out, "released", done[OP_RELEASE]);
    out_number(out, "requeued", done[OP_REQUEUE]);
    out_number(out, "dropped", done[OP_DROP]);
    out_number(out, "policies", done[OP_QUEUE]);
    out_number(out, "refused", in->sender.refused);
    out_number(out, "from_before", in->before);
    out_number(out, "content_missing", in->skipped + in->emptied);
    if (in->resume != 0) out_number(out, "from_position", in->resume);
    out_number(out, "took_ms", steady_ms() - in->start_ms);
    out_line_end(out);
}

static void words_summary(const struct into *in, struct text *out) {
    static const struct {
        enum op_kind kind;
        const char *name;
    } rows[] = {{OP_SCHEDULE, "scheduled"}, {OP_MOVE, "moved"},   {OP_CANCEL, "cancelled"},
                {OP_ACK, "acked"},          {OP_NACK, "nacked"},  {OP_RELEASE, "released"},
                {OP_REQUEUE, "requeued"},   {OP_DROP, "dropped"}, {OP_QUEUE, "policies and pauses set"}};
    text_printf(out, "%" PRIu64 " records in %" PRIu64 " frames replayed\n", in->records, in->frames);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (in->sender.done[rows[i].kind] > 0)
            text_printf(out, "%12" PRIu64 "  %s\n", in->sender.done[rows[i].kind], rows[i].name);
}

static void say_what_fell_short(const struct into *in) {
    if (in->skipped > 0)
        tool_say("%" PRIu64 " tasks were skipped, because their contents were redacted, or retired without an archive "
                 "(--missing empty schedules them)",
                 in->skipped);
    if (in->emptied > 0)
        tool_say("%" PRIu64 " tasks were scheduled with an empty payload, because their contents no longer exist",
                 in->emptied);
    if (in->before > 0)
        tool_say("%" PRIu64 " records were skipped, because their tasks were scheduled before the replayed range",
                 in->before);
    for (size_t i = 0; i < SENDER_EXAMPLES_MAX && in->sender.examples[i] != NULL; i++)
        tool_say("%s", in->sender.examples[i]);
    if (in->sender.refused > SENDER_EXAMPLES_MAX)
        tool_say("… and %" PRIu64 " more differences", in->sender.refused - SENDER_EXAMPLES_MAX);
}

static int conclude(struct into *in, int status) {
    struct text out = {0};
    int failure = in->sender.failure;
    if (failure != TARRY_OK && (in->resume == 0 || in->sender.failed_at < in->resume))
        in->resume = in->sender.failed_at;
    bool is_broken = failure != TARRY_OK || status != 0 || in->store->message[0] != 0;
    const char *result = is_broken ? "error" : in->resume != 0 ? "interrupted" : "replayed";
    if (in->tool->json)
        json_summary(in, &out, result);
    else
        words_summary(in, &out);
    say_what_fell_short(in);
    if (in->resume != 0)
        tool_say("stopped before the end; continue with --from-position %" PRIu64 "%s", in->resume,
                 failure != TARRY_OK
                     ? " (the target refuses tasks that are already scheduled, because their keys are live)"
                     : "");
    if (failure != TARRY_OK) status = tool_refused(in->tool, failure, NULL);
    if (status == 0 && (in->resume != 0 || in->sender.refused > 0)) status = EXIT_REFUSED;
    return store_finish(in->store, &out, status);
}

/* Refuses the replayed directory itself, or a plain copy of it, as the target. A copy made by tarry restore is another
 * member, and allowed. */
static int check_member(struct into *in, const char *target) {
    char message[IDENTITY_MESSAGE_SIZE] = "", own[MEMBER_TEXT_SIZE];
    struct member member;
    int error = member_read(in->store->directory, &member, message);
    if (error == -ENOENT) return 0; /* the directory was written by a version without member ids */
    if (error != 0)
        return store_damaged(in->store, "%s: %s", in->store->directory, error > 0 ? message : strerror(-error));
    member_format(member.id, own);
    if (strcmp(own, target) != 0) return 0;
    return store_damaged(in->store,
                         "broker %s wrote the log in %s, and a log is never replayed into its own broker: make a copy "
                         "for tests with 'tarry backup' and 'tarry restore'",
                         in->tool->broker, in->store->directory);
}

static int connect_to_target(struct into *in) {
    struct tarry_stats_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE] = "";
    int status = tool_connect(in->tool);
    if (status != 0) return status;
    int code = tarry_stats(in->tool->client, NULL, NULL, &view, message);
    if (code != TARRY_OK) return tool_failed(in->tool, code, message);
    in->target_ms = view->broker->now_ms;
    in->start_ms = steady_ms();
    status = check_member(in, view->broker->member);
    tarry_stats_free(view);
    if (status != 0) {
        tool_say("%s", in->store->message);
        return status;
    }
    code = sender_init(&in->sender, in->tool->client);
    return code == TARRY_OK ? 0 : tool_refused(in->tool, code, NULL);
}

int replay_into(struct tool *tool, const struct replay_options *options, struct store *store) {
    struct into *in = tool_alloc(sizeof *in);
    *in = (struct into){.tool = tool, .options = options, .store = store};
    struct scan_filter filter = {.from_ms = options->from_ms, .to_ms = options->to_ms};
    int status = routes_init(&in->routes, options->args);
    if (status == 0) status = connect_to_target(in);
    if (status != 0) {
        store_close(store);
        free(in);
        return status;
    }
    in->holder = (struct holder){.sender = &in->sender, .timeout_ms = tool->timeout_ms};
    content_init(&in->content);
    signals_graceful();
    status = scan(store, &filter, take_record, in);
    /* If take_record stopped the scan, it has already reported the reason. */
    if (status == 1 && store->message[0] == 0) status = 0;
    sender_end_frame(&in->sender);
    sender_settle(&in->sender);
    if (options->settle) settle_again(in);
    holder_close(&in->holder, &in->routes);
    status = conclude(in, status);
    content_deinit(&in->content);
    sender_deinit(&in->sender);
    routes_deinit(&in->routes);
    free(in);
    return status;
}
