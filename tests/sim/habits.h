/* habits.h: the behaviour of clients in a random history, drawn from the seed (swarm testing: each history has a
 * subset of the habits). */
#ifndef TARRY_TESTS_SIM_HABITS_H
#define TARRY_TESTS_SIM_HABITS_H

#include "client.h"
#include "world.h"

#define HABIT_QUEUES 3
#define LONE_QUEUES 6

struct habits {
    uint32_t think_us;     /* maximum time between two actions of a client, in µs */
    uint32_t delay_bits;   /* delays are up to 2^delay_bits ms, and every order of magnitude is equally likely */
    uint32_t work_ms;      /* maximum time that a consumer works on a task */
    uint32_t open_max;     /* maximum number of open commits per client */
    uint32_t keys;         /* number of different keys */
    uint32_t actions_left; /* number of actions that all clients together may still do */
    bool wall_times, priorities, expiries, conflicts, atomics, batches, moves, cancels, admin, dead_letters, purges;
    bool nacks, extends, releases, lapses; /* actions that consumers do besides acks */
    bool redacts;
    bool deletes; /* true: clients also use queues without consumers: they schedule to them, purge them, delete them and
                     replace them by others */
    bool early;   /* true: one queue has lease_before_due, and a mover (a session that gets its due tasks) exists */
    bool early_set; /* a client has sent the request that sets lease_before_due */
    bool groups; /* true: the queue topic_queue has groups, and a sharer exists, which leases its due tasks and has them
                    shared */
    bool groups_set; /* a client has sent the request that makes the groups */
    bool defines;    /* true: clients set and delete definitions */
    bool herds;      /* true: clients set the spread of queues, and the policy for overdue tasks after an outage */
    bool serials;    /* true: half of the tasks have one of two serial names */
    bool owns;       /* true: tasks have attempts, backoff and lease of their own */
    bool recurs;     /* true: clients set, pause, trigger and delete recurrences */
    bool looks, repeats, leaves, crashes, short_leases, long_leases, half_dead;
    bool pools;    /* true: some sessions are pools of several consumers */
    bool one_line; /* true: all tasks have the same queue, time base and priority, so they all wait in one line */
    bool over;     /* true: the calm phase has begun, in which clients start nothing new */
};

extern const char *const habit_queues[HABIT_QUEUES + 1];
#define HABIT_GROUPS 3
/* Returns the queues that consumers subscribe to: habit_queues and, if the history has groups, those of the groups. */
const char *const *habits_queues(const struct habits *habits);
/* For the calm phase: gives the groups filters of which at least one matches every task of the topic. */
void habits_calm_groups(struct client *client);

/* Returns the maximum number of queues at a time, which is small so that places are used again; 0: no limit. */
uint32_t habits_places(const struct habits *habits);
/* Returns whether `name` is one of the queues without consumers. */
bool habits_is_lone(const char *queue);
void habits_draw(struct random *random, struct habits *out);
/* Lets a client act by itself from now on. `consumer`: it also subscribes. */
void habits_start(struct client *client, struct habits *habits, bool consumer);
/* Creates the mover and the sharer, if the history has them. */
void habits_start_mover(struct world *world, struct habits *habits);
/* Sends a query that changes nothing. */
void habits_look(struct client *client, const struct habits *habits);
/* For the calm phase: acks every task that the client gets. */
void habits_ack_all(struct client *client);

#endif
