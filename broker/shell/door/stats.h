/* stats.h: collects the broker's part of the reply to Stats from the modules. */
#ifndef TARRY_SHELL_STATS_H
#define TARRY_SHELL_STATS_H

#include <stdbool.h>

#include "arena.h"
#include "tarry.pb-c.h"

struct amqp_counts;
struct archivist;
struct authorizer;
struct clock;
struct datadir;
struct index;
struct latency;
struct log;
struct push;
struct disk_space;
struct run;
struct signer;

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
