/* stats.c: see stats.h. */
#include "stats.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "amqp.h"
#include "archivist.h"
#include "authorizer.h"
#include "clock.h"
#include "config.h"
#include "datadir.h"
#include "endpoints.h"
#include "index.h"
#include "latency.h"
#include "log.h"
#include "log_disk.h"
#include "node.h"
#include "pusher.h"
#include "run.h"
#include "signer.h"
#include "tls.h"

/* ---- readiness */

static const char *of_node(const struct node *node, char buffer[READINESS_TEXT_SIZE]) {
    if (!atomic_load(&node->leads)) {
        char primary[CONFIG_TEXT_SIZE];
        if (!atomic_load(&node->follows))
            return "undecided: no node of the pair leads, or this node does not know the leader yet";
        /* The cast from const is safe, because node_primary only locks a mutex. */
        node_primary((struct node *)node, primary);
        snprintf(buffer, READINESS_TEXT_SIZE, "follower: the primary is %.900s",
                 primary[0] != '\0' ? primary : "unknown");
        return buffer;
    }
    if (atomic_load(&node->paused)) return "handing-over: the other node of the pair is becoming the primary";
    if (atomic_load(&node->stalled_ns) != 0) return "stalled: this node waits for its follower, which does not confirm";
    return NULL;
}

const char *readiness_problem(const struct readiness *readiness, char buffer[READINESS_TEXT_SIZE]) {
    char hangs[DISK_HANG_PROBLEM_SIZE];
    if (atomic_load(&readiness->run->stopping)) return "stopping: this broker is stopping";
    if (readiness->config->inspect) return "inspecting: this broker only answers queries (--inspect)";
    const char *problem = readiness->node->on ? of_node(readiness->node, buffer) : NULL;
    if (problem != NULL) return problem;
    if ((problem = disk_hang_problem(readiness->hang, hangs)) != NULL) {
        snprintf(buffer, READINESS_TEXT_SIZE, "disk-hangs: %.900s", problem);
        return buffer;
    }
    uint64_t free, size;
    disk_space_look(readiness->disk_space, &free, &size);
    if (disk_reserve_admits_segment(&readiness->disk_space->reserve, free, 0)) return NULL;
    snprintf(buffer, READINESS_TEXT_SIZE, "disk-full: %llu bytes are free, and the broker refuses new tasks",
             (unsigned long long)free);
    return buffer;
}

/* ---- A broker without a peer is always the primary */

static const char no_peer[] =
    "this broker has no peer, so it cannot hand over and has no record; the option --peer makes a pair (tarryd(8))";

void pair_answer(const struct pair_status *here, struct call *call) {
    const Tarry__Pair *request = call->engine_request.event.request.message->pair;
    if (here->node->on && request->what == TARRY__PAIR__WHAT__STATUS) {
        node_status(here->node, call);
        return;
    }
    if (here->node->on) {
        node_word(here->node, call);
        return;
    }
    bool is_status = request->what == TARRY__PAIR__WHAT__STATUS || request->what == TARRY__PAIR__WHAT__PROMOTE;
    if (!is_status) {
        call->answer(call, reply_pack_refusal(TARRY__CODE__NOT_DONE, no_peer));
        return;
    }
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__PairReply status = TARRY__PAIR_REPLY__INIT;
    char member[MEMBER_TEXT_SIZE];
    char hangs[DISK_HANG_PROBLEM_SIZE], about_tls[TLS_SENTENCE_SIZE];
    const char *problem = disk_hang_problem(here->hang, hangs);
    if (problem == NULL) problem = tls_problem(here->tls, about_tls);
    struct authorizer_numbers access;
    authorizer_numbers(here->authorizer, &access);
    status.problem = problem != NULL ? (char *)problem : access.problem;
    member_format(here->dir->member.id, member);
    status.role = TARRY__PAIR_REPLY__ROLE__PRIMARY;
    status.epoch = atomic_load(&here->run->epoch);
    status.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, here->dir->cluster};
    status.member = member;
    status.url = status.primary = here->run->url;
    status.urls = here->endpoints->urls;
    status.n_urls = here->endpoints->count;
    status.since_ms = here->run->started_ms;
    status.now_ms = instant_ms(clock_now(here->clock, NULL));
    status.appended = status.durable = status.committed = status.applied = log_durable(here->log);
    reply.body_case = TARRY__REPLY__BODY_PAIR;
    reply.pair = &status;
    call->answer(call, reply_pack(&reply));
}

/* ---- statistics */

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
    /* the uptime is 0 if the clock was set back to before the start, which may happen in a pair */
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
