/* world.h: the machine of one broker (or of a pair), its clients and the network, on virtual time. One process, no
 * threads; everything follows from the options and their seed.
 *
 *     client ──► network ──► host: core, log on a virtual disk, model index ──► network ──► client
 *        └──────────────── ledger: the replies, and what must be true after them ────────────┘
 *
 * A story scripts the world step by step (README.md); in `history.h` a seed decides. */
#ifndef TARRY_TESTS_SIM_WORLD_H
#define TARRY_TESTS_SIM_WORLD_H

#include "../random.h"
#include "host.h"
#include "ledger.h"
#include "network.h"
#include "timeline.h"
#include "trace.h"
#include "truth.h"

#define WORLD_CLIENTS_MAX 8
#define WORLD_OUTSIDE 2 /* the place of clients, the network and the operator, outside of both machines */
/* The machine's wall clock at the beginning of a world without faults: some morning in 2026. */
#define WORLD_EPOCH_NS (UINT64_C(1793000000) * 1000000000u)

/* A random duration: `least_us`, plus up to `spread_us`. */
struct span {
    uint32_t least_us;
    uint32_t spread_us;
};

struct registrar;

struct pair_options {
    bool on;          /* two hosts */
    bool by_operator; /* without a coordinator */
    bool is_async;
    uint64_t keep_ms; /* the leader keeps log that a follower lacks for this time; UINT64_MAX: for ever */
    uint64_t failover_after_ms;
    uint64_t solo_after_ms; /* UINT64_MAX: never */
    uint32_t
        presence_ms; /* lifetime of a presence after its node ends, like a ZooKeeper session; 0: the product's own */
};

struct world_options {
    uint64_t seed;
    struct pair_options pair;
    struct core_options core;
    uint64_t segment_size;
    uint64_t retain_size; /* bytes of log kept for audit; retention may delete segments beyond */
    bool archives;        /* segments are deleted only once they are in the archive */
    bool archive_comes_and_goes;
    bool filters;       /* a key that the index never had is not looked up (key filter) */
    uint64_t disk_room; /* size of the disk in bytes; 0: no limit */
    struct span net;    /* delay of the network, one way */
    struct span sync;   /* time from a write to the end of its fdatasync */
    struct span index;  /* time from durable to indexed */
    struct span read;   /* time to read facts from the index */
    struct span wake;   /* delay from thread to thread inside the broker */
    struct span retry;  /* time after which a client without a reply repeats its request */
    bool by_hand;       /* stories: nothing restarts and no client retries by itself */
};

struct world {
    bool has_topic; /* the history has groups (habits.h) */
    struct world_options options;
    struct random random;
    uint64_t now_ns; /* true time since the world's beginning */
    struct timeline timeline;
    struct trace trace;
    struct arena memory; /* memory that lives as long as the history */

    int64_t believable_ns;     /* TIME-2: largest error that a wall clock may be believed to have */
    uint64_t steady_jumped_ns; /* time that starts may have added to steady time beyond the true time */

    struct host hosts[HOSTS_MAX];
    size_t host_count;
    struct host *host; /* host of the current event; outside of both: the host that began to lead last */
    uint32_t place;    /* number of that host, or WORLD_OUTSIDE */
    uint32_t leader;   /* number of the host that began to lead last */
    struct truth truth;
    bool is_steady; /* leader and network are healthy: no node may take the leader for silent, or claim leadership */
    struct registrar *registrar; /* the coordinator of a pair that has one; otherwise NULL */
    struct network network;
    struct client *clients[WORLD_CLIENTS_MAX];
    size_t client_count;
    struct ledger ledger;
};

/* Returns options without faults: round numbers, no random delays (a message takes 1 ms, a sync 10 ms). */
struct world_options world_options_default(void);
/* Allocates a world, which world_begin can use many times. */
struct world *world_new(void);
void world_free(struct world *world);
/* Begins with an empty disk, a broker that is not started, and no clients. */
void world_begin(struct world *world, const struct world_options *options);
void world_end(struct world *world);

/* Runs all events up to that time, and sets the time to it. */
void world_run_until(struct world *world, uint64_t at_ns);
void world_elapse_ms(struct world *world, uint64_t ms);
/* Runs one event. Returns false if there is none. */
bool world_step(struct world *world);

void world_after(struct world *world, const struct span *span, happen *run, void *argument, uint64_t number);
void world_after_ns(struct world *world, uint64_t ns, happen *run, void *argument, uint64_t number);
uint64_t world_span_ns(struct world *world, const struct span *span);
/* Adds an event at another place. */
void world_after_at(struct world *world, uint32_t place, uint64_t ns, happen *run, void *argument, uint64_t number);
/* Makes `place` the current place: its host and clocks are used from now on. */
void world_enter(struct world *world, uint32_t place);
/* SIGSTOP: events of that place wait until the pause ends, while time advances. */
void world_pause(struct world *world, uint32_t place, uint64_t ms);
/* SIGCONT, or the process ends: all events that waited during the pause happen now. */
void world_resume(struct world *world, uint32_t place);
/* Returns true once in n times, at random. */
bool one_in(struct world *world, uint64_t n);

/* Zeroed memory that lives as long as the history. */
void *world_alloc(struct world *world, size_t size);
void *world_copy(struct world *world, const void *data, size_t size);

/* ---- the clocks */
uint64_t world_real_ns(const struct world *world);
uint64_t world_boot_ns(const struct world *world);
/* Sets the wall clock forward or back. */
void world_jump_wall(struct world *world, int64_t ms);
/* The machine sleeps: time and BOOTTIME advance, but no event happens meanwhile. */
void world_suspend(struct world *world, uint64_t ms);

#endif
