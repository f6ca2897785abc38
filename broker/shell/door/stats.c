/* stats.c: see stats.h. */
#include "stats.h"

#include <stdio.h>
#include <unistd.h>

#include "amqp.h"
#include "archivist.h"
#include "authorizer.h"
#include "clock.h"
#include "datadir.h"
#include "disk_space.h"
#include "index.h"
#include "latency.h"
#include "log.h"
#include "pusher.h"
#include "run.h"
#include "signer.h"

static uint64_t resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long size, resident = 0;
    if (file == NULL) return 0;
    if (fscanf(file, "%llu %llu", &size, &resident) != 2) resident = 0;
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Fills in the numbers of the archive. `numbers` must live as long as `out`. */
static void stats_archive(const struct stats_needs *needs, Tarry__BrokerStats *out, struct archive_numbers *numbers) {
    archive_count_read(&needs->archivist->count, numbers);
    out->archived_segments = numbers->segments;
    out->archive_bytes = numbers->bytes;
    out->archive_oldest_ms = numbers->oldest_ms;
    out->archive_held = numbers->held;
    out->archive_error = numbers->failure;
}

/* Fills in the numbers of tokens and refusals. `numbers` must live as long as `out`. */
static void stats_access(const struct stats_needs *needs, Tarry__BrokerStats *out, struct authorizer_numbers *numbers) {
    authorizer_numbers(needs->authorizer, numbers);
    out->tokens = numbers->tokens;
    out->token_failures = numbers->failures;
    out->denied = numbers->denied;
    out->limited = numbers->limited;
    out->token_problem = numbers->problem;
}

struct stats_durations {
    Tarry__Durations syncs, calls;
    uint64_t counts[2][DURATION_BUCKETS];
};

/* Fills in the histograms. `durations` must live as long as `out`. */
static void stats_durations(const struct stats_needs *needs, Tarry__BrokerStats *out,
                            struct stats_durations *durations) {
    tarry__durations__init(&durations->syncs);
    tarry__durations__init(&durations->calls);
    latency_durations(needs->fsync_us, durations->counts[0], &durations->syncs);
    latency_durations(needs->calls_us, durations->counts[1], &durations->calls);
    out->syncs = &durations->syncs;
    out->calls = &durations->calls;
}

/* Fills in the numbers of AMQP. False: memory is exhausted. */
static bool stats_amqp(const struct stats_needs *needs, struct arena *arena, Tarry__BrokerStats *out) {
    const struct amqp_counts *counts = needs->amqp;
    if (!counts->is_heard) return true;
    Tarry__AmqpStats *amqp = arena_alloc(arena, sizeof(*amqp));
    if (amqp == NULL) return false;
    tarry__amqp_stats__init(amqp);
    amqp->connections = counts->connections;
    amqp->channels = counts->channels;
    amqp->consumers = counts->consumers;
    amqp->blocked = counts->blocked;
    amqp->exchanges = counts->exchanges;
    amqp->queues = counts->queues;
    amqp->bindings = counts->bindings;
    out->amqp = amqp;
    return true;
}

Tarry__BrokerStats *stats_broker(const struct stats_needs *needs, struct arena *arena, bool clock_held) {
    Tarry__BrokerStats *out = arena_alloc(arena, sizeof(*out));
    Tarry__Quantiles *fsync_us = arena_alloc(arena, sizeof(*fsync_us));
    char *member = arena_alloc(arena, MEMBER_TEXT_SIZE);
    struct archive_numbers *numbers = arena_alloc(arena, sizeof(*numbers));
    struct stats_durations *durations = arena_alloc(arena, sizeof(*durations));
    struct authorizer_numbers *access = arena_alloc(arena, sizeof(*access));
    if (out == NULL || fsync_us == NULL || member == NULL || numbers == NULL || access == NULL || durations == NULL)
        return NULL;
    tarry__broker_stats__init(out);
    tarry__quantiles__init(fsync_us);
    latency_quantiles(needs->fsync_us, fsync_us);
    struct log_stats log;
    struct index_stats index;
    log_stats(needs->log, &log);
    index_stats(needs->index, &index);
    uint64_t now_ms = instant_ms(clock_now(needs->clock, NULL));
    out->version = (char *)TARRY_VERSION;
    out->epoch = atomic_load(&needs->run->epoch);
    out->now_ms = now_ms;
    out->host_ms = clock_host_ms();
    /* the uptime is 0 if `now_ms` is smaller, because a pair's clock can be set back */
    out->uptime_ms = now_ms > needs->run->started_ms ? now_ms - needs->run->started_ms : 0;
    out->durable = log_durable(needs->log);
    out->indexed = index_position(needs->index);
    out->erased = index_erased(needs->index);
    out->log_start = log_start(needs->log);
    out->segments = log.segments;
    out->log_bytes = log.bytes;
    out->index_bytes = index.bytes_file;
    out->resident_bytes = resident_bytes();
    out->fsync_us = fsync_us;
    out->clock_held = clock_held;
    stats_durations(needs, out, durations);
    stats_archive(needs, out, numbers);
    disk_space_look(needs->disk_space, &out->disk_free, &out->disk_bytes);
    signer_told(needs->signer, &out->signed_position, &out->signed_ms);
    stats_access(needs, out, access);
    member_format(needs->dir->member.id, member);
    out->member = member;
    return stats_amqp(needs, arena, out) && push_stats(needs->push, arena, out) ? out : NULL;
}
