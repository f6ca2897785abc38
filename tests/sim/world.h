/* world.h: one broker's machine, its clients and the network between them, on virtual time. One process, no threads;
 * everything follows from the options and their seed.
 *
 *     client ──► network ──► host: core, log on a virtual disk, model index ──► network ──► client
 *        └──────────────── ledger: what was answered, what must therefore hold ──────────────┘
 *
 * A story scripts it step by step (README.md); `history.h` lets a seed decide. */
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
#define WORLD_OUTSIDE 2 /* a place: with clients, on the network, with whoever pulls a plug */
/* The machine's wall clock at the beginning, when everything is right: some morning in 2026. */
#define WORLD_EPOCH_NS (UINT64_C(1793000000) * 1000000000u)

/* How long something takes: `least` and up to `spread` more. */
struct span {
    uint32_t least_us;
    uint32_t spread_us;
};

struct registrar;

struct pair_options {
    bool on;          /* two hosts */
    bool by_operator; /* without a coordinator */
    bool is_async;
    uint64_t keep_ms; /* what a follower lacks stays in its leader's log for so long; UINT64_MAX: for ever */
    uint64_t failover_after_ms;
    uint64_t solo_after_ms; /* UINT64_MAX: never */
    uint32_t presence_ms;   /* outlives its node by so long, as a session of ZooKeeper's does; 0: as the product asks */
};

struct world_options {
    uint64_t seed;
    struct pair_options pair;
    struct core_options core;
    uint64_t segment_size;
    uint64_t retain_size; /* bytes of log kept for audit; segments beyond may go */
    bool archives;        /* … once they are in the archive */
    bool archive_comes_and_goes;
    bool filters;       /* a key that the index never had is not looked up */
    uint64_t disk_room; /* bytes of the disk; 0: no limit */
    struct span net;    /* one way */
    struct span sync;   /* a write until its fdatasync is done */
    struct span index;  /* durable until the index has it */
    struct span read;   /* facts: asked, read, handed in */
    struct span wake;   /* inside the broker: from thread to thread */
    struct span retry;  /* a client that got no answer asks again */
    bool by_hand;       /* nothing restarts and nobody retries by itself: a story says when */
};

struct world {
    struct world_options options;
    struct random random;
    uint64_t now_ns; /* since the beginning; the truth */
    struct timeline timeline;
    struct trace trace;
    struct arena memory; /* lives as long as the history */

    int64_t believable_ns;     /* TIME-2: as far ahead as a wall clock may be believed to be */
    uint64_t steady_jumped_ns; /* what starts may have added to steady time beyond the time that passed */

    struct host hosts[HOSTS_MAX];
    size_t host_count;
    struct host *host; /* on whose machine things happen now; outside of both: the one that began to lead last */
    uint32_t place;    /* … its number, or WORLD_OUTSIDE */
    uint32_t leader;   /* the number of the host that began to lead last */
    struct truth truth;
    bool is_steady;              /* the leader and the network are healthy: nobody takes it for silent, or claims */
    struct registrar *registrar; /* of a pair with a coordinator; NULL: there is none */
    struct network network;
    struct client *clients[WORLD_CLIENTS_MAX];
    size_t client_count;
    struct ledger ledger;
};

/* Options of a calm world: round figures, no randomness in delays (a message takes 1 ms, a sync 10 ms). */
struct world_options world_options_default(void);
/* Allocates once; to be used again and again by world_begin. */
struct world *world_new(void);
void world_free(struct world *world);
/* An empty disk, a broker that has not been started, nobody there. */
void world_begin(struct world *world, const struct world_options *options);
void world_end(struct world *world);

/* Lets everything happen up to that moment, and be it. */
void world_run_until(struct world *world, uint64_t at_ns);
void world_elapse_ms(struct world *world, uint64_t ms);
/* Lets one thing happen; false: nothing will. */
bool world_step(struct world *world);

void world_after(struct world *world, const struct span *span, happen *run, void *argument, uint64_t number);
void world_after_ns(struct world *world, uint64_t ns, happen *run, void *argument, uint64_t number);
uint64_t world_span_ns(struct world *world, const struct span *span);
/* The same at another place. */
void world_after_at(struct world *world, uint32_t place, uint64_t ns, happen *run, void *argument, uint64_t number);
/* What happens from here on happens there: host and clocks are that machine's. */
void world_enter(struct world *world, uint32_t place);
/* SIGSTOP: nothing happens there until then, and time goes on. */
void world_pause(struct world *world, uint32_t place, uint64_t ms);
/* SIGCONT, or the process ends: all that would have happened there meanwhile happens now. */
void world_resume(struct world *world, uint32_t place);
/* True once in n times. */
bool one_in(struct world *world, uint64_t n);

/* Zeroed; lives as long as the history. */
void *world_alloc(struct world *world, size_t size);
void *world_copy(struct world *world, const void *data, size_t size);

/* ---- the clocks */
uint64_t world_real_ns(const struct world *world);
uint64_t world_boot_ns(const struct world *world);
/* The wall clock is set forward or back. */
void world_jump_wall(struct world *world, int64_t ms);
/* The machine sleeps: time passes, BOOTTIME counts it, nothing happens meanwhile. */
void world_suspend(struct world *world, uint64_t ms);

#endif
