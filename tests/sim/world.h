/* world.h: the machine of one broker (or the machines of a pair), its clients and the network, on virtual time. One
 * process, no threads; everything follows from the options and their seed.
 *
 * A client sends requests through the network to a host: a core, a log on a virtual disk, and a model index. The
 * replies and deliveries return through the network. A ledger stores the replies, and what must be true after them.
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
#define WORLD_OUTSIDE 2 /* place of the clients, the network and the operator, which are on no machine */
/* Wall time at which a world without faults begins, in ns: a morning in 2026. */
#define WORLD_EPOCH_NS (UINT64_C(1793000000) * 1000000000u)

/* A random duration: `least_us`, plus at most `spread_us`. */
struct span {
    uint32_t least_us;
    uint32_t spread_us;
};

struct registrar;

struct pair_options {
    bool on;          /* two hosts */
    bool by_operator; /* true: the pair has no coordinator */
    bool is_async;
    uint64_t
        keep_ms; /* time in ms for which the leader keeps log segments that a follower lacks; UINT64_MAX: no limit */
    uint64_t failover_after_ms;
    uint64_t solo_after_ms; /* UINT64_MAX: never */
    uint32_t presence_ms;   /* time in ms for which a presence outlives its node, like a ZooKeeper session; 0: the
                               product's default */
};

struct world_options {
    uint64_t seed;
    struct pair_options pair;
    struct core_options core;
    uint64_t segment_size;
    uint64_t retain_size; /* size in bytes of the log that is kept for audit; retention may delete older segments */
    bool archives;        /* true: segments are deleted only after they are in the archive */
    bool archive_comes_and_goes;
    bool filters;            /* true: the index has a key filter, so a key that it never had is not looked up */
    uint64_t disk_room;      /* size of the disk in bytes; 0: no limit */
    struct span net;         /* delay of a message in the network, one way */
    struct span sync;        /* duration of a sync, from a write to the end of its fdatasync */
    struct span index;       /* time after which the index absorbs a durable frame */
    struct span read;        /* duration of a read of the index */
    struct span wake;        /* time until a thread of the broker reacts to another one */
    struct span retry;       /* time after which a client repeats a request without a reply */
    uint64_t lease_least_ms; /* the shortest lease that clients ask for */
    bool by_hand;            /* set by stories: no broker restarts and no client retries by itself */
};

struct world {
    bool has_topic; /* true: the history has groups (habits.h) */
    struct world_options options;
    struct random random;
    uint64_t now_ns; /* true time since the beginning of the world, in ns */
    struct timeline timeline;
    struct trace trace;
    struct arena memory; /* memory that lives as long as the history */

    int64_t believable_ns; /* TIME-2: largest error that a wall clock may be believed to have */
    uint64_t
        steady_jumped_ns; /* largest time in ns by which starts may have moved steady time ahead of the true time */

    struct host hosts[HOSTS_MAX];
    size_t host_count;
    struct host *host; /* host of the current event; for an event at WORLD_OUTSIDE, the host that began to lead last */
    uint32_t place;    /* number of the current host, or WORLD_OUTSIDE */
    uint32_t leader;   /* number of the host that began to lead last */
    struct truth truth;
    bool is_steady; /* true: leader and network are healthy, so no node may consider the leader silent or claim
                       leadership */
    struct registrar *registrar; /* the coordinator of a pair; NULL: there is none */
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
/* Adds an event that happens at `place` after `ns`. */
void world_after_at(struct world *world, uint32_t place, uint64_t ns, happen *run, void *argument, uint64_t number);
/* Makes `place` the current place. Until the next world_enter, all functions use its host and its clocks. */
void world_enter(struct world *world, uint32_t place);
/* Stops a process (SIGSTOP): events at that place wait until the pause ends, while time advances. */
void world_pause(struct world *world, uint32_t place, uint64_t ms);
/* Continues a stopped process (SIGCONT), or ends its pause because the process ends: all events that waited happen now.
 */
void world_resume(struct world *world, uint32_t place);
/* Returns true once in n times, at random. */
bool one_in(struct world *world, uint64_t n);

/* Allocates zeroed memory that lives as long as the history. */
void *world_alloc(struct world *world, size_t size);
void *world_copy(struct world *world, const void *data, size_t size);

/* ---- the clocks */
uint64_t world_real_ns(const struct world *world);
uint64_t world_boot_ns(const struct world *world);
/* Sets the wall clock forward or back. */
void world_jump_wall(struct world *world, int64_t ms);
/* Lets the machine sleep: time and BOOTTIME advance, but no event happens meanwhile. */
void world_suspend(struct world *world, uint64_t ms);

#endif
