/* recovery.c: see recovery.h. */
#include "recovery.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "boot.h"
#include "logfmt.h"
#include "lookback.h"
#include "shell.h"
#include "units.h"

static int refuse(char *message, size_t message_size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int refuse(char *message, size_t message_size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, message_size, format, arguments);
    va_end(arguments);
    return 1;
}
#define REFUSE(...) refuse(message, message_size, __VA_ARGS__)

/* Address space of the index at first; it grows when it is full. */
#define INDEX_MAP_SIZE (4ull << 30)

static int open_index(struct shell *shell, char *message, size_t message_size) {
    struct index_options options = {
        .directory = shell->dir.index,
        .memory = MEMORY_SHARE_INDEX(shell->config.memory),
        .map_size = INDEX_MAP_SIZE,
        .outcomes_max = (uint32_t)shell->config.outcomes_max,
        .outcome_retention_ms = shell->config.outcome_retention_ms,
        .read_only = shell->config.inspect,
    };
    memcpy(options.cluster, shell->dir.cluster, sizeof(options.cluster));
    message[0] = '\0';
    int error = index_open(&shell->index, &options, message, message_size);
    if (error == 0) return 0;
    if (message[0] != '\0') return 1;
    return REFUSE("index %s cannot be opened: %s", shell->dir.index, storage_error(error));
}

static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static int open_log(struct shell *shell, const struct index_meta *meta, struct log_recovery *out, char *message,
                    size_t message_size) {
    struct log_options options = {
        .directory = shell->dir.log,
        .disk = &shell->disk,
        .segment_size = shell->config.segment_size,
        .durable_min = max_u64(meta->position, signer_known(&shell->signer)),
        .read_only = shell->config.inspect,
        .prepare_ahead = !shell->config.inspect,
    };
    memcpy(options.cluster, shell->dir.cluster, sizeof(options.cluster));
    message[0] = '\0';
    int error = log_open(&shell->log, &options, meta->position, out, message, message_size);
    if (error != 0) {
        size_t size = strlen(message);
        char segment[UNITS_TEXT_SIZE];
        if (error == -ENOSPC)
            snprintf(message + size, message_size - size,
                     "; a segment of the log takes %s (--segment-size), and some room must stay free beside it",
                     size_format(options.segment_size, segment));
        if (size > 0) return 1;
        return REFUSE("log %s cannot be opened: %s", shell->dir.log, storage_error(error));
    }
    /* LOG-3: the index never leads the log, and both tell the same history. */
    if (out->end < meta->position)
        return REFUSE("index %s is ahead of the log (%" PRIu64 " > %" PRIu64
                      "): the log lost its tail; restore both from the same copy",
                      shell->dir.index, meta->position, out->end);
    if (out->start > meta->log_start)
        return REFUSE("log %s starts at %" PRIu64 ", but contents of tasks lie from %" PRIu64
                      " on: segments are missing; restore both from the same copy",
                      shell->dir.log, out->start, meta->log_start);
    if (out->start > meta->position)
        return REFUSE("log %s starts at %" PRIu64 ", behind the index's position %" PRIu64
                      ": segments are missing; restore both from the same copy",
                      shell->dir.log, out->start, meta->position);
    if (memcmp(out->scan_chain, meta->chain, FRAME_CHAIN_SIZE) != 0 && meta->position > LOG_POSITION_FIRST)
        return REFUSE("index %s and log %s tell different histories (chain hash at %" PRIu64
                      " differs); restore both from the same copy",
                      shell->dir.index, shell->dir.log, meta->position);
    if (!signer_agrees(&shell->signer, meta->position, out->scan_chain))
        return REFUSE("log %s differs from what was signed at position %" PRIu64
                      ": it was changed; tarry verify --key says where",
                      shell->dir.log, meta->position);
    if (out->cut_bytes > 0)
        logfmt("torn_tail", "offset=%" PRIu64 " bytes=%" PRIu64 " action=%s", out->cut_at, out->cut_bytes,
               shell->config.inspect ? "ignored" : "cut");
    return 0;
}

static int make_core(struct shell *shell, char *message, size_t message_size) {
    const struct config *config = &shell->config;
    struct core_options options = {
        .memory = MEMORY_SHARE_CORE(config->memory),
        .outcomes_max = (uint32_t)config->outcomes_max,
        .outcome_retention_ms = config->outcome_retention_ms,
        .index_lag_max = config->index_lag_max,
        .index_lag_hard = config->index_lag_hard,
        .create_queues = config->create_queues,
        .version = TARRY_VERSION,
        .config_digest = shell->config_digest,
    };
    tarry__policy__init(&options.policy);
    options.policy.lease_ms = config->lease_ms;
    options.policy.max_attempts = (uint32_t)config->max_attempts;
    options.policy.backoff = (Tarry__Policy__Backoff)config->backoff;
    options.policy.backoff_min_ms = config->backoff_min_ms;
    options.policy.backoff_max_ms = config->backoff_max_ms;
    options.policy.backoff_jitter = (uint32_t)config->backoff_jitter;
    shell->core = core_new(&options);
    if (shell->core == NULL) return REFUSE("there is not enough memory for the broker's state (--memory)");
    return 0;
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
static int each_outcome(void *argument, const struct outcome *outcome) {
    return core_restore_outcome(argument, outcome);
}

static const char *restore_error(int error) {
    if (error == CORE_NO_MEMORY) return "it has more than fits into the broker's memory: start with a larger --memory";
    return error == CORE_NONSENSE ? "what it says of leases, producers, jobs or queues contradicts itself"
                                  : storage_error(error);
}

static int restore(struct shell *shell, const struct index_meta *meta, char *message, size_t message_size) {
    struct core_base base = {.position = meta->position, .tally = &meta->tally, .known_since_ms = meta->known_since_ms};
    struct core *core = shell->core;
    core_restore(core, &base);
    int error = index_each_queue(shell->index, each_queue, core);
    if (error == 0) error = index_each_lease(shell->index, each_lease, core);
    if (error == 0) error = index_each_producer(shell->index, each_producer, core);
    if (error == 0) error = index_each_result(shell->index, each_result, core);
    if (error == 0) error = index_each_job(shell->index, each_job, core);
    if (error == 0) error = index_each_outcome(shell->index, each_outcome, core);
    if (error == CORE_NO_MEMORY)
        return REFUSE("the leases in index %s do not fit into the broker's memory: start with a larger --memory",
                      shell->dir.index);
    if (error != 0)
        return REFUSE("index %s does not make sense (%s); restore the data directory from a copy", shell->dir.index,
                      restore_error(error));
    return 0;
}

static int replay(struct shell *shell, uint64_t from, uint64_t end, char *message, size_t message_size) {
    struct log_cursor *cursor;
    int error = log_cursor_open(&cursor, shell->log, from, false);
    if (error != 0) return REFUSE("log %s cannot be read: %s", shell->dir.log, storage_error(error));
    struct arena arena;
    shell_arena_init(&arena);
    while (error == 0) {
        struct log_view view;
        uint64_t position = log_cursor_position(cursor);
        error = log_cursor_next(cursor, end, &view);
        if (error == LOG_END && position == end) {
            error = 0;
            break;
        }
        Tarry__FrameBody *body = NULL;
        if (error == 0) body = tarry__frame_body__unpack(&arena.pb, view.header.body_size, view.body);
        if (error == 0) error = body == NULL ? CORE_NONSENSE : core_replay(shell->core, &view.header, body);
        if (error == CORE_NO_MEMORY) {
            REFUSE("log %s has more to replay than fits into the broker's memory: start with a larger --memory",
                   shell->dir.log);
        } else if (error != 0) {
            REFUSE("log %s cannot be replayed at position %" PRIu64 ": %s", shell->dir.log, position,
                   storage_error(error == CORE_NONSENSE ? LOG_DAMAGED : error));
        }
        arena_reset(&arena);
    }
    arena_deinit(&arena);
    log_cursor_close(cursor);
    return error == 0 ? 0 : 1;
}

/* For the record of this start. */
static int look_back(struct shell *shell, const struct log_recovery *log, char *message, size_t message_size) {
    int error = lookback(shell->log, log, &shell->before);
    return error == 0 ? 0 : REFUSE("log %s cannot be read: %s", shell->dir.log, storage_error(error));
}

bool recovery_note_boot(const struct shell *shell, uint64_t steady_ns) {
    static struct logfmt_limit limit;
    int error = boot_note(shell->dir.path, steady_ns);
    if (error != 0 && logfmt_allowed(&limit))
        logfmt("boot_unnoted", "action=\"the next start goes by the wall clock\" reason=\"%s\"", strerror(error));
    return error == 0;
}

static void start_clock(struct shell *shell, struct instant last) {
    clock_init(&shell->clock, (struct clock_origin){.last = last,
                                                    .boot_steady_ns = boot_recall(shell->dir.path),
                                                    .accept_jump = shell->config.accept_clock_jump});
    (void)recovery_note_boot(shell, clock_boot_steady(&shell->clock));
    if (shell->clock.state.accepted)
        logfmt("clock_accepted", "wall_ms=%" PRIu64 " last_ms=%" PRIu64, shell->clock.state.now.wall_ns / NS_PER_MS,
               last.wall_ns / NS_PER_MS);
}

int recovery_run(struct shell *shell, char *message, size_t message_size) {
    struct index_meta meta;
    struct log_recovery log;
    room_init(&shell->room, shell->dir.path, shell->config.segment_size, &shell->disk);
    if (archivist_init(&shell->archivist, shell) != 0) return REFUSE("the name of the archive's directory is too long");
    if (open_index(shell, message, message_size) != 0) return 1;
    index_meta(shell->index, &meta);
    if (open_log(shell, &meta, &log, message, message_size) != 0) return 1;
    if (make_core(shell, message, message_size) != 0) return 1;
    if (restore(shell, &meta, message, message_size) != 0) return 1;
    /* A pair: what is not in the index may not be committed, and is applied once it is known to be (LOG-3). */
    if (!shell->node.on && replay(shell, meta.position, log.end, message, message_size) != 0) return 1;
    if (!shell->node.on && look_back(shell, &log, message, message_size) != 0) return 1;
    /* The tail of the log may hold nothing; then the index knows the latest time. */
    struct instant last = {max_u64(log.steady_ns, meta.steady_ns), max_u64(log.wall_ns, meta.wall_ns)};
    uint32_t epoch = log.epoch > meta.tally.epoch ? log.epoch : meta.tally.epoch;
    atomic_store(&shell->epoch, epoch);
    if (shell->config.inspect) {
        clock_init_stopped(&shell->clock, last);
        return 0;
    }
    start_clock(shell, last);
    if (shell->node.on) return 0; /* the rules say which epoch is next */
    epoch++;
    if (epoch < shell->dir.member.epoch_min) epoch = shell->dir.member.epoch_min; /* a copy's first start */
    atomic_store(&shell->epoch, epoch);
    return 0;
}
