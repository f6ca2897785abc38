/* habits.h: what clients of a random history do, drawn from its seed (swarm: each history has a subset of habits). */
#ifndef TARRY_TESTS_SIM_HABITS_H
#define TARRY_TESTS_SIM_HABITS_H

#include "client.h"
#include "world.h"

#define HABIT_QUEUES 3
#define LONE_QUEUES 6

struct habits {
    uint32_t think_us;     /* between two things that a client does, up to */
    uint32_t delay_bits;   /* delays are up to 2^bits ms, every magnitude alike */
    uint32_t work_ms;      /* of a consumer on a task, up to */
    uint32_t open_max;     /* commits without an answer, per client */
    uint32_t keys;         /* how many keys there are */
    uint32_t actions_left; /* of all clients together */
    bool wall_times, priorities, expiries, conflicts, atomics, batches, moves, cancels, admin, dead_letters, purges;
    bool nacks, extends, releases, lapses; /* what consumers do besides ack */
    bool redacts;
    bool deletes; /* queues that no consumer has: scheduled to, purged, deleted, and others made in their places */
    bool looks, repeats, leaves, crashes, short_leases, long_leases, half_dead;
    bool pools;    /* consumers that others stand behind */
    bool one_line; /* all tasks on one queue, base and priority: what is near and far is theirs alone */
    bool over;     /* calm: nothing new */
};

extern const char *const habit_queues[HABIT_QUEUES + 1];

/* How many queues there may be at once, so that places are taken again; 0: any number. */
uint32_t habits_places(const struct habits *habits);
/* Is it one of the queues that no consumer has? */
bool habits_is_lone(const char *queue);
void habits_draw(struct random *random, struct habits *out);
/* Each client begins to do things by itself. `consumer`: it subscribes too. */
void habits_start(struct client *client, struct habits *habits, bool consumer);
/* Asks something that changes nothing. */
void habits_look(struct client *client, const struct habits *habits);
/* In the calm: acks whatever it gets. */
void habits_ack_all(struct client *client);

#endif
