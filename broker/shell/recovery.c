/* recovery.c: see recovery.h. */
#include "recovery.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "boot.h"
#include "clock.h"
#include "config.h"
#include "core.h"
#include "datadir.h"
#include "fatal.h"
#include "index.h"
#include "last_shutdown.h"
#include "log.h"
#include "logfmt.h"
#include "recovery_plan.h"
#include "run.h"
#include "signer.h"
#include "units.h"
#include "wire.h"

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
        .filters_later = true, /* read the filters in their own thread, later, so that due tasks do not wait for them */
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

int recovery_run(struct recovery *recovery, char *message, size_t message_size) {
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
