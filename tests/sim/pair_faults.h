/* pair_faults.h: the faults of a random history of a pair, and their repair. The seed draws the kinds and their
 * frequency (swarm testing).
 *
 *     F-10, F-1   a node is killed, or loses power; both nodes, in either order
 *     F-13        a node is stopped (SIGSTOP) and goes on
 *     F-15, F-16  the link between the nodes is cut, in one direction or both; messages are lost, late, doubled
 *     F-24        a node is cut off from the other and the coordinator, and does not know that it is deposed
 *     F-28        the follower's disk is full for a while
 *     F-29        the follower gets a new, empty disk
 *     F-30        one or both nodes cannot reach the coordinator; requests and replies are lost or late
 *     F-31a       the disk of a node's log hangs
 *     F-31b       the coordinator's record is lost, or set back to an earlier epoch, until an operator repairs it
 *     F-32        a wall clock jumps, and the two differ
 *     F-25 … F-27 follow from all of these */
#ifndef TARRY_TESTS_SIM_PAIR_FAULTS_H
#define TARRY_TESTS_SIM_PAIR_FAULTS_H

#include "world.h" /* HOSTS_MAX nodes */

enum pair_fault {
    PAIR_FAULT_KILL,
    PAIR_FAULT_POWER,
    PAIR_FAULT_BOTH, /* both nodes lose power */
    PAIR_FAULT_STOP, /* SIGTERM: an orderly stop */
    PAIR_FAULT_PAUSE,
    PAIR_FAULT_CALL, /* one call of the disk fails */
    PAIR_FAULT_LINK,
    PAIR_FAULT_COORDINATOR,
    PAIR_FAULT_ISLAND, /* one node reaches neither the other node nor the coordinator, but clients reach it */
    PAIR_FAULT_FULL,
    PAIR_FAULT_WIPE,
    PAIR_FAULT_JUMP,
    PAIR_FAULT_HAND_OVER,
    PAIR_FAULT_CLIENT, /* a client's link is cut */
    PAIR_FAULT_LAG,    /* the index absorbs nothing for a while */
    PAIR_FAULTS_DRAWN, /* number of kinds that the first draw covers; later kinds are drawn separately, so that old
                          seeds give the same histories */
    PAIR_FAULT_RECORD = PAIR_FAULTS_DRAWN,
    PAIR_FAULT_HANG,
    PAIR_FAULTS
};

struct pair_faults {
    uint32_t mask;
    uint64_t every_ms;
    uint64_t down_ms; /* maximum time in ms until a node is started again */
    bool over;
    bool held[2]; /* by node: true if the operator keeps the node down */
    uint64_t counts[PAIR_FAULTS];
};

void pair_faults_draw(struct random *random, struct pair_faults *out);
void pair_faults_start(struct world *world, struct pair_faults *faults);
/* Repairs everything, prevents further faults, and makes sure that both nodes run. */
void pair_faults_end(struct world *world, struct pair_faults *faults);

#endif
