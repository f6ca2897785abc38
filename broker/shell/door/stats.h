/* stats.h: reports about this broker: its readiness, its place in the pair, and its part of the reply to Stats. */
#ifndef TARRY_SHELL_STATS_H
#define TARRY_SHELL_STATS_H

#include <stdbool.h>
#include <stddef.h>

#include "arena.h"
#include "call.h"
#include "tarry.pb-c.h"

struct amqp_counts;
struct archivist;
struct authorizer;
struct clock;
struct config;
struct datadir;
struct disk_hang;
struct disk_space;
struct endpoints;
struct index;
struct latency;
struct log;
struct node;
struct push;
struct run;
struct signer;
struct tls;

/* ---- readiness */

/* Decides whether this broker can serve clients, and if not, why not (the page /readyz). Any answer to
 * /healthz means that the broker is alive. */

#define READINESS_TEXT_SIZE 1024u

struct readiness {
    const struct config *config;
    const struct run *run;
    const struct disk_space *disk_space;
    const struct disk_hang *hang;
    const struct node *node;
};

/* Returns NULL if this broker accepts changes and delivers tasks. Otherwise returns a message that starts with one word
 * for machines: stopping, inspecting, follower, undecided, handing-over, stalled, disk-hangs or disk-full. The message
 * is a constant or is written to `buffer`. Any thread. */
const char *readiness_problem(const struct readiness *readiness, char buffer[READINESS_TEXT_SIZE]);

/* ---- the pair */

/* Answers requests about the pair: the status of this node (tarry status), and which node is to lead.
 * These functions make no decision. */

struct pair_status {
    struct datadir *dir;
    struct run *run;
    struct clock *clock;
    struct endpoints *endpoints;
    struct tls *tls; /* this broker's certificates; NULL: no TLS */
    const struct disk_hang *hang;
    struct log *log;
    struct node *node;
    struct authorizer *authorizer;
};

/* Answers a call whose request is a checked Pair. Any thread. */
void pair_answer(const struct pair_status *here, struct call *call);

/* ---- statistics */

struct stats_needs {
    const struct datadir *dir;
    const struct run *run;
    struct clock *clock;
    const struct disk_space *disk_space;
    struct log *log;
    struct index *index;
    const struct latency *fsync_us;
    const struct latency *calls_us;
    struct archivist *archivist;
    const struct signer *signer;
    struct authorizer *authorizer;
    struct push *push;
    const struct amqp_counts *amqp;
};

/* Returns the statistics in `arena`; NULL if memory is exhausted. The core adds its numbers. Core thread only. */
Tarry__BrokerStats *stats_broker(const struct stats_needs *needs, struct arena *arena, bool clock_held);

#endif
