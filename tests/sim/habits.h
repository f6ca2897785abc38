/* habits.h: the behaviour of clients in a random history, drawn from the seed (swarm testing: each history has a
 * subset of the habits). */
#ifndef TARRY_TESTS_SIM_HABITS_H
#define TARRY_TESTS_SIM_HABITS_H

#include "client.h"
#include "world.h"

#define HABIT_QUEUES 3
#define LONE_QUEUES 6

struct habits {
    uint32_t think_us;     /* maximum time between two actions of a client */
    uint32_t delay_bits;   /* delays are up to 2^bits ms; every order of magnitude is equally likely */
    uint32_t work_ms;      /* maximum time that a consumer works on a task */
    uint32_t open_max;     /* maximum number of open commits per client */
    uint32_t keys;         /* number of different keys */
    uint32_t actions_left; /* remaining actions of all clients together */
    bool wall_times, priorities, expiries, conflicts, atomics, batches, moves, cancels, admin, dead_letters, purges;
    bool nacks, extends, releases, lapses; /* actions of consumers besides ack */
    bool redacts;
    bool deletes;    /* uses queues without consumers: they are scheduled to, purged, deleted and replaced by others */
    bool early;      /* one queue has lease_before_due, and there is a mover */
    bool early_set;  /* a client has sent the request that sets lease_before_due */
    bool groups;     /* one queue, topic_queue, has groups, and there is a sharer */
    bool groups_set; /* a client has sent the request that makes the groups */
    bool defines;    /* sets and deletes definitions */
    bool herds;      /* sets the spread of queues, and what happens to overdue tasks after an outage */
    bool serials;    /* half of the tasks have one of two serial names */
    bool recurs;     /* sets, pauses, triggers and deletes recurrences */
    bool looks, repeats, leaves, crashes, short_leases, long_leases, half_dead;
    bool pools;    /* some sessions are pools of several consumers */
    bool one_line; /* all tasks have the same queue, base and priority, so one line has all near and far tasks */
    bool over;     /* calm phase: the clients start nothing new */
};

extern const char *const habit_queues[HABIT_QUEUES + 1];
#define HABIT_GROUPS 3
/* Returns the queues that consumers subscribe to: habit_queues and, if the history has groups, those of the groups. */
const char *const *habits_queues(const struct habits *habits);
/* Gives the groups such filters that every task of the topic matches one, for the calm phase. */
void habits_calm_groups(struct client *client);

/* Returns how many queues may exist at a time, so that places are used again; 0: no limit. */
uint32_t habits_places(const struct habits *habits);
/* Returns whether `name` is one of the queues without consumers. */
bool habits_is_lone(const char *queue);
void habits_draw(struct random *random, struct habits *out);
/* Lets each client act by itself from now on. `consumer`: the client also subscribes. */
void habits_start(struct client *client, struct habits *habits, bool consumer);
/* Creates the mover and the sharer, if the history has them. */
void habits_start_mover(struct world *world, struct habits *habits);
/* Sends a query that changes nothing. */
void habits_look(struct client *client, const struct habits *habits);
/* In the calm phase: acks every task that the client gets. */
void habits_ack_all(struct client *client);

#endif
