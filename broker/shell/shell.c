/* shell.c: connects the modules, and starts and stops them in order; see shell.h.
 *
 * Stop: new work is refused → the core stops and drains → log synced → deliveries sent → index caught up → replies
 * sent. */
#include "shell.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "amqp.h"
#include "beanstalk.h"
#include "clock.h"
#include "config.h"
#include "core.h"
#include "datadir.h"
#include "fatal.h"
#include "gateways.h"
#include "http_server.h"
#include "index.h"
#include "last_shutdown.h"
#include "lifecycle.h"
#include "listen.h"
#include "log.h"
#include "logfmt.h"
#include "pusher.h"
#include "recovery_plan.h"
#include "run.h"
#include "sharer.h"
#include "signer.h"
#include "stats.h"
#include "tls.h"
#include "units.h"
#include "wire.h"

/* ==== recovery */

/* Restores the broker's state from a data directory: the index, then the log after the index's position,
 * applied to the core. */

struct recovery {
    const struct config *config;
    const struct datadir *dir;
    struct disk *disk; /* the log's disk */
    const struct signer *signer;
    const uint8_t *config_digest;
    bool is_pair;

    /* outputs of recovery_run */
    struct clock *clock;
    struct run *run; /* receives the epoch, and how the log ended before this start */
    struct log *log;
    struct index *index;
    struct core *core;
    bool is_damaged; /* index or log is damaged or incomplete: only a copy of the data helps */
};

static int refuse(char *message, size_t message_size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int refuse(char *message, size_t message_size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, message_size, format, arguments);
    va_end(arguments);
    return 1;
}
#define REFUSE(...) refuse(message, message_size, __VA_ARGS__)

/* First size of the index's address space; it grows when full. */
#define INDEX_MAP_SIZE (4ull << 30)

static int open_index(struct recovery *recovery, char *message, size_t message_size) {
    struct index_options options = {
        .directory = recovery->dir->index,
        .memory = MEMORY_SHARE_INDEX(recovery->config->memory),
        .contents_memory = MEMORY_SHARE_CONTENTS(recovery->config->memory),
        .map_size = INDEX_MAP_SIZE,
        .outcomes_max = (uint32_t)recovery->config->outcomes_max,
        .outcome_retention_ms = recovery->config->outcome_retention_ms,
        .read_only = recovery->config->inspect,
        .filters_later = true, /* another thread reads the filters later, so that due tasks need not wait for them */
    };
    memcpy(options.cluster, recovery->dir->cluster, sizeof(options.cluster));
    message[0] = '\0';
    int error = index_open(&recovery->index, &options, message, message_size);
    if (error == 0) return 0;
    recovery->is_damaged = error == INDEX_DAMAGED;
    if (message[0] != '\0') return 1;
    return REFUSE("index %s cannot be opened: %s", recovery->dir->index, storage_error(error));
}

static int open_log(struct recovery *recovery, const struct recovery_plan *plan, struct log_recovery *out,
                    char *message, size_t message_size) {
    struct log_options options = {
        .directory = recovery->dir->log,
        .disk = recovery->disk,
        .segment_size = recovery->config->segment_size,
        .durable_min = plan->durable_min,
        .read_only = recovery->config->inspect,
        .prepare_ahead = !recovery->config->inspect,
    };
    memcpy(options.cluster, recovery->dir->cluster, sizeof(options.cluster));
    message[0] = '\0';
    int error = log_open(&recovery->log, &options, plan->index.position, out, message, message_size);
    if (error == 0) return 0;
    recovery->is_damaged = error == LOG_DAMAGED;
    size_t size = strlen(message);
    char segment[UNITS_TEXT_SIZE];
    if (error == -ENOSPC)
        snprintf(message + size, message_size - size,
                 "; a log segment needs %s (--segment-size), and some space must stay free besides",
                 size_format(options.segment_size, segment));
    if (size > 0) return 1;
    return REFUSE("log %s cannot be opened: %s", recovery->dir->log, storage_error(error));
}

static int make_core(struct recovery *recovery) {
    const struct config *config = recovery->config;
    struct core_options options = {
        .ahead_ms = LEASE_AHEAD_MS,
        .memory = MEMORY_SHARE_CORE(config->memory),
        .outcomes_max = (uint32_t)config->outcomes_max,
        .outcome_retention_ms = config->outcome_retention_ms,
        .index_lag_max = config->index_lag_max,
        .index_lag_hard = config->index_lag_hard,
        .create_queues = config->create_queues,
        .version = TARRY_VERSION,
        .config_digest = recovery->config_digest,
    };
    randombytes_buf(&options.salt, sizeof(options.salt));
    tarry__policy__init(&options.policy);
#define POLICY_NUMBER(field, ...) options.policy.field = (__typeof__(options.policy.field))config->field;
#define POLICY_LIMIT(field, ...)
#define POLICY_TEXT(field, ...)
#include "policy.def"
    recovery->core = core_new(&options);
    return recovery->core != NULL ? 0 : -ENOMEM;
}

static int each_queue(void *argument, const Tarry__QueuePut *queue) {
    return core_restore_queue(argument, queue);
}
static int each_lease(void *argument, const struct row *row) {
    return core_restore_lease(argument, row);
}
static int each_producer(void *argument, const struct index_producer *producer) {
    return core_restore_producer(argument, producer->producer, producer->used_ms, producer->floor, producer->owner);
}
static int each_result(void *argument, uint64_t producer, uint64_t sequence, uint64_t position) {
    return core_restore_result(argument, producer, sequence, position);
}
static int each_job(void *argument, const Tarry__JobPut *job) {
    return core_restore_job(argument, job);
}
static int each_definition(void *argument, const Tarry__DefinitionPut *definition) {
    return core_restore_definition(argument, definition);
}

static int each_recur(void *argument, const Tarry__RecurPut *put, const struct row *next, size_t open_live) {
    return core_restore_recur(argument, put, next, open_live);
}
static int each_outcome(void *argument, const struct outcome *outcome) {
    return core_restore_outcome(argument, outcome);
}

static int restore(struct recovery *recovery, enum recovery_part part, const struct index_meta *meta) {
    struct core_base base = {.position = meta->position,
                             .tally = &meta->tally,
                             .known_since_ms = meta->known_since_ms,
                             .then = {.steady_ns = meta->steady_ns, .wall_ns = meta->wall_ns}};
    struct core *core = recovery->core;
    switch (part) {
    case RECOVERY_BASE:
        core_restore(core, &base);
        return 0;
    case RECOVERY_QUEUES:
        return index_each_queue(recovery->index, each_queue, core);
    case RECOVERY_LEASES:
        return index_each_lease(recovery->index, each_lease, core);
    case RECOVERY_PRODUCERS:
        return index_each_producer(recovery->index, each_producer, core);
    case RECOVERY_RESULTS:
        return index_each_result(recovery->index, each_result, core);
    case RECOVERY_JOBS:
        return index_each_job(recovery->index, each_job, core);
    case RECOVERY_DEFINITIONS:
        return index_each_definition(recovery->index, each_definition, core);
    case RECOVERY_RECURRENCES:
        return index_each_recur(recovery->index, each_recur, core);
    case RECOVERY_OUTCOMES:
        return index_each_outcome(recovery->index, each_outcome, core);
    case RECOVERY_PARTS:
        break;
    }
    return 0;
}

/* Replays all frames of the plan, or stops at the first frame that fails. */
static void replay(struct recovery *recovery, struct recovery_plan *plan) {
    struct log_cursor *cursor;
    struct arena arena;
    int error = log_cursor_open(&cursor, recovery->log, plan->replayed, false);
    if (error != 0) {
        recovery_frame_read(plan, recovery->core, error, NULL, NULL);
        return;
    }
    fatal_arena_init(&arena);
    while (plan->effect == RECOVERY_REPLAY) {
        struct log_view view;
        Tarry__FrameBody *body = NULL;
        error = log_cursor_next(cursor, plan->replay_to, &view);
        if (error == 0) body = frame_body_unpack(&arena, view.header.body_size, view.body);
        recovery_frame_read(plan, recovery->core, error, &view.header, body);
        arena_reset(&arena);
    }
    arena_deinit(&arena);
    log_cursor_close(cursor);
}

static void start_clock(struct recovery *recovery, struct instant last) {
    clock_init(recovery->clock, (struct clock_origin){.last = last,
                                                      .boot_steady_ns = boot_recall(recovery->dir->path),
                                                      .accept_jump = recovery->config->accept_clock_jump});
    (void)datadir_note_boot(recovery->dir, clock_boot_steady(recovery->clock));
    if (recovery->clock->state.accepted)
        logfmt("clock_accepted", "wall_ms=%" PRIu64 " last_ms=%" PRIu64, recovery->clock->state.now.wall_ns / NS_PER_MS,
               last.wall_ns / NS_PER_MS);
}

static bool means_damage(const struct recovery_plan *plan) {
    switch (plan->refusal) {
    case RECOVERY_INDEX_AHEAD:
    case RECOVERY_CONTENTS_MISSING:
    case RECOVERY_FRAMES_MISSING:
    case RECOVERY_HISTORIES_DIFFER:
    case RECOVERY_INDEX_SENSELESS:
    case RECOVERY_REPLAY_IMPOSSIBLE:
        return true;
    default:
        return plan->error == LOG_DAMAGED || plan->error == INDEX_DAMAGED;
    }
}

static int refuse_as_planned(const struct recovery *recovery, const struct recovery_plan *plan, char *message,
                             size_t message_size) {
    const struct recovery_index *index = &plan->index;
    const char *in_index = recovery->dir->index, *in_log = recovery->dir->log;
    switch (plan->refusal) {
    case RECOVERY_INDEX_AHEAD:
        return REFUSE("index %s is ahead of the log (position %" PRIu64 " > %" PRIu64 "): the end of the log is lost",
                      in_index, index->position, plan->log.end);
    case RECOVERY_CONTENTS_MISSING:
        return REFUSE("log %s starts at position %" PRIu64 ", but the index refers to contents from position %" PRIu64
                      " on: segments are missing",
                      in_log, plan->log.start, index->log_start);
    case RECOVERY_FRAMES_MISSING:
        return REFUSE("log %s starts at position %" PRIu64 ", after the index's position %" PRIu64
                      ": segments are missing",
                      in_log, plan->log.start, index->position);
    case RECOVERY_HISTORIES_DIFFER:
        return REFUSE("index %s and log %s do not belong together (their chain hashes at position %" PRIu64 " differ)",
                      in_index, in_log, index->position);
    case RECOVERY_HEAD_DIFFERS:
        return REFUSE("log %s differs from the signed head at position %" PRIu64
                      ": somebody changed it; 'tarry verify --key' shows where",
                      in_log, index->position);
    case RECOVERY_CORE_TOO_LARGE:
        return REFUSE("the broker's state needs more memory: start with a larger --memory");
    case RECOVERY_INDEX_TOO_LARGE:
        return REFUSE("the leases in index %s do not fit into the broker's memory: start with a larger --memory",
                      in_index);
    case RECOVERY_INDEX_SENSELESS:
        return REFUSE("index %s is inconsistent (%s)", in_index,
                      plan->error == CORE_NONSENSE
                          ? "its rows about leases, producers, jobs or queues contradict each other"
                          : storage_error(plan->error));
    case RECOVERY_REPLAY_TOO_LARGE:
        return REFUSE("replaying log %s needs more memory than the broker has: start with a larger --memory", in_log);
    case RECOVERY_REPLAY_IMPOSSIBLE:
        return REFUSE("log %s cannot be replayed at position %" PRIu64 ": %s", in_log, plan->replayed,
                      storage_error(plan->error));
    case RECOVERY_LAST_STOP_UNREADABLE:
        break;
    }
    return REFUSE("log %s cannot be read: %s", in_log, storage_error(plan->error));
}

static int find_index(struct recovery *recovery, struct recovery_plan *plan, struct index_meta *meta, char *message,
                      size_t message_size) {
    if (open_index(recovery, message, message_size) != 0) return 1;
    index_meta(recovery->index, meta);
    struct recovery_index found = {
        .position = meta->position,
        .log_start = meta->log_start,
        .steady_ns = meta->steady_ns,
        .wall_ns = meta->wall_ns,
        .epoch = meta->tally.epoch,
    };
    memcpy(found.chain, meta->chain, sizeof(found.chain));
    recovery_index_opened(plan, &found);
    return 0;
}

static int find_log(struct recovery *recovery, struct recovery_plan *plan, char *message, size_t message_size) {
    struct log_recovery found;
    if (open_log(recovery, plan, &found, message, message_size) != 0) return 1;
    recovery_log_opened(plan, &found);
    if (plan->effect != RECOVERY_REFUSED && found.cut_bytes > 0)
        logfmt("torn_tail", "offset=%" PRIu64 " bytes=%" PRIu64 " action=%s", found.cut_at, found.cut_bytes,
               recovery->config->inspect ? "ignored" : "cut");
    return 0;
}

/* Carries out one effect. Returns 1 with an error message if index or log cannot be opened. */
static int execute(struct recovery *recovery, struct recovery_plan *plan, struct index_meta *meta, char *message,
                   size_t message_size) {
    switch (plan->effect) {
    case RECOVERY_OPEN_INDEX:
        return find_index(recovery, plan, meta, message, message_size);
    case RECOVERY_OPEN_LOG:
        return find_log(recovery, plan, message, message_size);
    case RECOVERY_MAKE_CORE:
        recovery_executed(plan, make_core(recovery));
        break;
    case RECOVERY_RESTORE:
        recovery_executed(plan, restore(recovery, plan->part, meta));
        break;
    case RECOVERY_REPLAY:
        replay(recovery, plan);
        break;
    case RECOVERY_FIND_LAST_STOP:
        recovery_executed(plan, last_shutdown(recovery->log, &plan->log, &recovery->run->before));
        break;
    case RECOVERY_START_CLOCK:
        start_clock(recovery, plan->last);
        recovery_executed(plan, 0);
        break;
    case RECOVERY_STOP_CLOCK:
        clock_init_stopped(recovery->clock, plan->last);
        recovery_executed(plan, 0);
        break;
    case RECOVERY_DONE:
    case RECOVERY_REFUSED:
        break;
    }
    return 0;
}

/* Opens index and log and refuses them if they do not match (LOG-3). Returns 0, or 1 with an error message. Called
 * before the broker starts its threads. */
static int recovery_run(struct recovery *recovery, char *message, size_t message_size) {
    struct index_meta meta;
    struct recovery_plan plan;
    struct recovery_options options = {
        .inspects = recovery->config->inspect,
        .is_pair = recovery->is_pair,
        .epoch_min = recovery->dir->member.epoch_min,
        .signed_position = signer_known(recovery->signer),
        .signed_chain = recovery->signer->last.chain,
    };
    recovery_begin(&plan, &options);
    while (plan.effect != RECOVERY_DONE && plan.effect != RECOVERY_REFUSED)
        if (execute(recovery, &plan, &meta, message, message_size) != 0) return 1;
    atomic_store(&recovery->run->epoch, plan.epoch);
    if (plan.effect == RECOVERY_DONE) return 0;
    recovery->is_damaged = means_damage(&plan);
    return refuse_as_planned(recovery, &plan, message, message_size);
}

/* ==== the broker */

/* Time limit for sending replies that are already packed. */
#define FLUSH_MAX_MS 1000

/* ---- callbacks of the pair's thread */

static void on_follower_durable(void *context, uint64_t position) {
    struct shell *shell = context;
    delivery_sender_durable(&shell->delivery_sender, position);
}

static void on_confirmed_audit(void *context, struct call *call) {
    struct shell *shell = context;
    auditor_post(&shell->auditor, call);
}

static void on_fresh_enough(void *context, struct call *call) {
    struct shell *shell = context;
    rpc_go_on(&shell->rpc, call);
}

static const char *other_problem(void *context, char *buffer, size_t size) {
    struct shell *shell = context;
    struct authorizer_numbers access;
    authorizer_numbers(&shell->authorizer, &access);
    snprintf(buffer, size, "%s", access.problem);
    return buffer[0] != '\0' ? buffer : NULL;
}

void shell_open_node(struct shell *shell) {
    char message[DATADIR_MESSAGE_SIZE];
    const struct node_needs needs = {.config = &shell->config,
                                     .dir = &shell->dir,
                                     .run = &shell->run,
                                     .clock = &shell->clock,
                                     .disk = &shell->disk,
                                     .hang = &shell->sync.hang,
                                     .fsync_us = &shell->fsync_us,
                                     .inbox = &shell->inbox,
                                     .releaser = &shell->releaser,
                                     .endpoints = &shell->endpoints,
                                     .tls = shell->tls,
                                     .peer_key = &shell->peer_key,
                                     .credentials = &shell->credentials,
                                     .signed_to = &shell->signer.told_position,
                                     .calls = {.context = shell,
                                               .durable = on_follower_durable,
                                               .audit = on_confirmed_audit,
                                               .go_on = on_fresh_enough,
                                               .problem = other_problem}};
    if (node_open(&shell->node, &needs, message) != 0) refuse_to_start("refused", message);
}

/* ---- subscribers of the durable position, in this order */

static void tell_sender(void *context, uint64_t position) {
    delivery_sender_durable(context, position);
}

static void tell_inbox(void *context, uint64_t position) {
    inbox_durable(context, position);
}

static void tell_indexer(void *context, uint64_t position) {
    indexer_durable(context, position);
}

static void tell_auditor(void *context, uint64_t position) {
    auditor_durable(context);
}

static void send_late(void *sender, struct batch *batch) {
    delivery_sender_post(sender, batch);
}

static void init_releaser(struct shell *shell) {
    releaser_init(&shell->releaser, &shell->batches, core_position(shell->core));
    releaser_send_by(&shell->releaser, send_late, &shell->delivery_sender);
    releaser_subscribe(&shell->releaser, tell_sender, &shell->delivery_sender);
    releaser_subscribe(&shell->releaser, tell_inbox, &shell->inbox);
    releaser_subscribe(&shell->releaser, tell_indexer, &shell->indexer);
    releaser_subscribe(&shell->releaser, tell_auditor, &shell->auditor);
}

/* ---- storage */

void shell_prepare_storage(struct shell *shell) {
    disk_space_init(&shell->disk_space, shell->dir.path, shell->config.segment_size, &shell->disk);
    const struct archivist_needs archivist = {.config = &shell->config,
                                              .dir = &shell->dir,
                                              .clock = &shell->clock,
                                              .disk_space = &shell->disk_space,
                                              .archived = indexer_wake,
                                              .context = &shell->indexer};
    if (archivist_init(&shell->archivist, &archivist) != 0)
        refuse_to_start("refused", "the path of the archive directory is too long");
}

void shell_recover(struct shell *shell) {
    char message[DATADIR_MESSAGE_SIZE];
    struct recovery recovery = {.config = &shell->config,
                                .dir = &shell->dir,
                                .disk = &shell->disk,
                                .signer = &shell->signer,
                                .config_digest = shell->config_digest,
                                .is_pair = shell->node.on,
                                .clock = &shell->clock,
                                .run = &shell->run};
    if (recovery_run(&recovery, message, sizeof(message)) != 0) {
        if (recovery.is_damaged) refuse_damaged(shell->dir.path, shell->node.on, message);
        refuse_to_start("refused", message);
    }
    shell->log = recovery.log;
    shell->index = recovery.index;
    shell->core = recovery.core;
}

/* ---- the door */

static void open_rpc(struct shell *shell) {
    shell->pair_status = (struct pair_status){.dir = &shell->dir,
                                              .run = &shell->run,
                                              .clock = &shell->clock,
                                              .endpoints = &shell->endpoints,
                                              .tls = shell->tls,
                                              .hang = &shell->sync.hang,
                                              .log = shell->log,
                                              .node = &shell->node,
                                              .authorizer = &shell->authorizer};
    rpc_init(&shell->rpc, &(struct rpc_needs){.config = &shell->config,
                                              .dir = &shell->dir,
                                              .run = &shell->run,
                                              .peer_key = &shell->peer_key,
                                              .log = shell->log,
                                              .inbox = &shell->inbox,
                                              .lone = &shell->lone,
                                              .node = &shell->node,
                                              .auditor = &shell->auditor,
                                              .backup = &shell->backup,
                                              .authorizer = &shell->authorizer,
                                              .pair_status = &shell->pair_status,
                                              .door = shell->door,
                                              .calls_us = &shell->calls_us});
}

/* Sets the door's callbacks. */
static void furnish_door(struct shell *shell) {
    shell->gateways_needs = (struct gateways_needs){.run = &shell->run,
                                                    .rpc = &shell->rpc,
                                                    .authorizer = &shell->authorizer,
                                                    .lanes = &shell->lanes};
    shell->http_needs = (struct http_needs){.run = &shell->run,
                                            .inbox = &shell->inbox,
                                            .rpc = &shell->rpc,
                                            .authorizer = &shell->authorizer,
                                            .lanes = &shell->lanes,
                                            .lone = &shell->lone,
                                            .readiness = {.config = &shell->config,
                                                          .run = &shell->run,
                                                          .disk_space = &shell->disk_space,
                                                          .hang = &shell->sync.hang,
                                                          .node = &shell->node}};
}

static void add_listener(struct shell *shell, unsigned i) {
    enum listen_scheme scheme = shell->endpoints.addresses[i].scheme;
    const struct door_stream_calls *speaks = NULL;
    if (scheme == LISTEN_BEANSTALK) {
        speaks = beanstalk_calls(shell->beanstalk);
    } else if (scheme == LISTEN_AMQP || scheme == LISTEN_AMQPS) {
        speaks = amqp_calls(shell->amqp);
        amqp_is_heard(shell->amqp);
    } else if (!listen_is_for_clients(scheme)) {
        speaks = door_sp_calls(shell->door);
    }
    door_add(shell->door, shell->endpoints.sockets[i].fd, listen_is_tls(scheme), speaks);
}

void shell_open_door(struct shell *shell, unsigned connections_max) {
    char message[ENDPOINTS_MESSAGE_SIZE], urls[ENDPOINTS_TEXT_SIZE];
    if (endpoints_open(&shell->endpoints, message) != 0) refuse_to_start("listen_failed", message);
    endpoints_format(&shell->endpoints, urls);
    restart_remember_urls(urls);
    listen_format(endpoints_main(&shell->endpoints), shell->run.url, sizeof(shell->run.url));
    furnish_door(shell);
    const struct door_calls calls = http_calls(&shell->http_needs);
    struct door_limits limits = {.request_max = REQUEST_SIZE_MAX,
                                 .held_max = MEMORY_SHARE_REQUESTS(shell->config.memory),
                                 .connections_max = connections_max,
                                 .origins = shell->config.allow_origin,
                                 .tls = shell->tls};
    shell->gateway = gateways_new(&shell->gateways_needs);
    shell->http = shell->gateway != NULL ? http_server_new(shell->gateway) : NULL;
    if (shell->http != NULL) limits.http = http_server_calls(shell->http);
    shell->door = shell->http != NULL ? door_new(&calls, &limits) : NULL;
    if (shell->door == NULL) refuse_to_start("listen_failed", "out of memory");
    shell->http_needs.door = shell->door;
    shell->http_needs.gateway = shell->gateway;
    lanes_init(&shell->lanes, &shell->dir, &shell->inbox, shell->door);
    lone_init(&shell->lone, &shell->inbox, &shell->core_thread, &shell->sync, shell->door);
    open_rpc(shell);
    gateway_serve(shell->gateway, shell->door);
    http_server_serve(shell->http, shell->door);
    http_server_count_minutes(shell->http);
    shell->beanstalk = beanstalk_new(shell->gateway);
    if (shell->beanstalk == NULL) refuse_to_start("listen_failed", "out of memory");
    beanstalk_serve(shell->beanstalk, shell->door);
    shell->amqp = amqp_new(shell->gateway);
    if (shell->amqp == NULL) refuse_to_start("listen_failed", "out of memory");
    amqp_serve(shell->amqp, shell->door);
    shell->push = pushes_new(&shell->config, &shell->dir, shell->gateway, message, sizeof(message));
    if (shell->push == NULL) refuse_to_start("refused", message);
    shell->sharer = sharer_new(shell->gateway);
    if (shell->sharer == NULL) refuse_to_start("listen_failed", "out of memory");
    for (unsigned i = 0; i < shell->endpoints.count; i++) add_listener(shell, i);
}

/* ---- the threads */

static void start_auditor(struct shell *shell) {
    auditor_start(&shell->auditor, &(struct auditor_needs){.source = {.log = shell->log,
                                                                      .index = shell->index,
                                                                      .archive = &shell->archivist.archive},
                                                           .node = &shell->node,
                                                           .run = &shell->run});
}

static void start_indexer(struct shell *shell) {
    signer_start(&shell->signer, shell->log);
    const struct indexer_needs needs = {.config = &shell->config,
                                        .dir = &shell->dir,
                                        .clock = &shell->clock,
                                        .disk = &shell->disk,
                                        .log = shell->log,
                                        .index = shell->index,
                                        .inbox = &shell->inbox,
                                        .signer = &shell->signer,
                                        .archivist = &shell->archivist,
                                        .node = &shell->node};
    indexer_start(&shell->indexer, &needs, core_position(shell->core));
}

/* Waits until the index includes the records below `position`. A follower's core may have applied records that are not
 * committed yet, which the index must not include (LOG-3). For such records this function does not wait. */
static bool await_index(void *context, uint64_t position, uint64_t wait_ns) {
    struct shell *shell = context;
    if (shell->node.on && !atomic_load(&shell->node.leads)) {
        uint64_t may_index = atomic_load(&shell->node.may_index);
        if (position > may_index) position = may_index;
    }
    return indexer_await(&shell->indexer, position, atomic_load(&shell->run.stopping) ? 0 : wait_ns);
}

static void start_calendar_reader(struct shell *shell) {
    const struct calendar_reader_needs needs = {.index = shell->index,
                                                .inbox = &shell->inbox,
                                                .await = shell->config.inspect ? NULL : await_index,
                                                .context = shell};
    calendar_reader_start(&shell->calendar_reader, &needs);
}

static void start_backup(struct shell *shell) {
    backup_start(&shell->backup, &(struct backup_needs){.config = &shell->config,
                                                        .dir = &shell->dir,
                                                        .run = &shell->run,
                                                        .disk_space = &shell->disk_space,
                                                        .log = shell->log,
                                                        .index = shell->index,
                                                        .archivist = &shell->archivist,
                                                        .node = &shell->node});
}

static void start_sync(struct shell *shell) {
    sync_start(&shell->sync, &(struct sync_needs){.log = shell->log,
                                                  .batches = &shell->batches,
                                                  .releaser = &shell->releaser,
                                                  .delivery_sender = &shell->delivery_sender,
                                                  .locator = &shell->locator,
                                                  .node = &shell->node,
                                                  .door = shell->door,
                                                  .fsync_us = &shell->fsync_us});
}

static void start_delivery_sender(struct shell *shell) {
    delivery_sender_start(&shell->delivery_sender, &(struct delivery_sender_needs){.log = shell->log,
                                                                                   .index = shell->index,
                                                                                   .clock = &shell->clock,
                                                                                   .batches = &shell->batches,
                                                                                   .inbox = &shell->inbox,
                                                                                   .lanes = &shell->lanes,
                                                                                   .door = shell->door,
                                                                                   .node = &shell->node});
}

static Tarry__BrokerStats *on_stats(void *context, struct arena *arena, bool clock_held) {
    struct shell *shell = context;
    const struct stats_needs needs = {.dir = &shell->dir,
                                      .run = &shell->run,
                                      .clock = &shell->clock,
                                      .disk_space = &shell->disk_space,
                                      .log = shell->log,
                                      .index = shell->index,
                                      .fsync_us = &shell->fsync_us,
                                      .calls_us = &shell->calls_us,
                                      .archivist = &shell->archivist,
                                      .signer = &shell->signer,
                                      .authorizer = &shell->authorizer,
                                      .push = shell->push,
                                      .amqp = amqp_counts(shell->amqp)};
    return stats_broker(&needs, arena, clock_held);
}

static void on_groups(void *context, bool wanted) {
    const struct shell *shell = context;
    sharer_wanted(shell->sharer, wanted);
}

static bool is_busy(void *context) {
    struct shell *shell = context;
    return rpc_busy(&shell->rpc) > 0;
}

static void start_core(struct shell *shell) {
    const struct core_thread_needs needs = {
        .config = &shell->config,
        .dir = &shell->dir,
        .run = &shell->run,
        .clock = &shell->clock,
        .disk_space = &shell->disk_space,
        .log = shell->log,
        .index = shell->index,
        .core = shell->core,
        .inbox = &shell->inbox,
        .batches = &shell->batches,
        .sync = &shell->sync,
        .indexer = &shell->indexer,
        .reader = &shell->reader,
        .calendar_reader = &shell->calendar_reader,
        .locator = &shell->locator,
        .delivery_sender = &shell->delivery_sender,
        .lanes = &shell->lanes,
        .push = shell->push,
        .node = &shell->node,
        .calls = {.context = shell, .stats = on_stats, .is_busy = is_busy, .groups = on_groups}};
    core_thread_start(&shell->core_thread, &needs);
}

void shell_start_threads(struct shell *shell) {
    shell->inbox.durable = core_position(shell->core); /* the durable position starts at the core's position, because a
                                                          follower may not have applied the whole log */
    shell->inbox.indexed = index_position(shell->index);
    shell->inbox.follow_to = core_position(shell->core);
    /* Call this before any thread asks how far it may index or retire. */
    node_recovered(&shell->node, shell->log, shell->index);
    start_auditor(shell);
    init_releaser(shell);
    start_sync(shell);
    start_delivery_sender(shell);
    start_indexer(shell);
    archivist_start(&shell->archivist, shell->log);
    reader_start(&shell->reader, shell->index, &shell->inbox, MEMORY_SHARE_FACTS(shell->config.memory));
    start_calendar_reader(shell);
    start_backup(shell);
    locator_start(&shell->locator, shell->log, shell->index, &shell->archivist.archive, &shell->inbox);
    start_core(shell);
    filter_reader_start(&shell->filter_reader, shell->index); /* last, because no thread waits for it */
    if (shell->node.on) node_start(&shell->node);
}

void shell_stop(struct shell *shell) {
    uint64_t from_ms = monotonic_ns() / NS_PER_MS;
    atomic_store(&shell->run.stopping, true);
    authorizer_tell(&shell->authorizer, true); /* record the refusals before the log's last record is written */
    auditor_stop(&shell->auditor); /* stop the auditor before the core, so that long polls get their reply at once */
    inbox_stop(&shell->inbox);
    batches_stop(&shell->batches);
    core_thread_join(&shell->core_thread);
    sync_stop(&shell->sync);
    node_stop(&shell->node);
    delivery_sender_stop(&shell->delivery_sender);
    reader_stop(&shell->reader);
    calendar_reader_stop(&shell->calendar_reader);
    backup_stop(&shell->backup);
    archivist_stop(&shell->archivist);
    locator_stop(&shell->locator);
    filter_reader_stop(&shell->filter_reader);
    indexer_stop(&shell->indexer);
    signer_stop(&shell->signer);
    authorizer_stop(&shell->authorizer);
    door_stop(shell->door, FLUSH_MAX_MS);
    beanstalk_free(shell->beanstalk);
    amqp_free(shell->amqp);
    push_free(shell->push);
    sharer_free(shell->sharer);
    http_server_free(shell->http); /* before gateway_free, because the worker of the HTTP server wakes the gateway */
    gateway_free(shell->gateway);
    endpoints_remove(&shell->endpoints);
    uint64_t position = index_position(shell->index);
    index_close(shell->index);
    log_close(shell->log);
    logfmt("stopped", "indexed=%" PRIu64 " took_ms=%" PRIu64, position, monotonic_ns() / NS_PER_MS - from_ms);
}
