/* pair_faults.h: what goes wrong in a random history of a pair, and how it is put right. Which kinds may happen, and
 * how often, is drawn from the seed (swarm).
 *
 *   F-10, F-1   a node is killed, or loses power; both, in either order
 *   F-13        a node is stopped (SIGSTOP) and goes on
 *   F-15        the link between the two is cut, in one direction or both; messages are lost, late, doubled (F-16)
 *   F-24        a node is cut off from both, and does not know that it is deposed
 *   F-28        the follower's disk is full for a while
 *   F-29        the follower gets a new, empty disk
 *   F-30        the coordinator is not reached by one or both; its requests and replies are lost or late
 *   F-31a       the disk of a node's log hangs
 *   F-31b       the coordinator's record is lost, or put back to an earlier epoch, until an operator has it written
 * again F-32        a wall clock jumps, and the two differ F-25 … F-27 come from all of these */
#ifndef TARRY_TESTS_SIM_PAIR_FAULTS_H
#define TARRY_TESTS_SIM_PAIR_FAULTS_H

#include "world.h" /* HOSTS_MAX nodes */

enum pair_fault {
    PAIR_FAULT_KILL,
    PAIR_FAULT_POWER,
    PAIR_FAULT_BOTH, /* power, for both */
    PAIR_FAULT_STOP, /* in order */
    PAIR_FAULT_PAUSE,
    PAIR_FAULT_CALL, /* one call of the disk fails */
    PAIR_FAULT_LINK,
    PAIR_FAULT_COORDINATOR,
    PAIR_FAULT_ISLAND, /* one node reaches neither the other nor the coordinator; clients reach it */
    PAIR_FAULT_FULL,
    PAIR_FAULT_WIPE,
    PAIR_FAULT_JUMP,
    PAIR_FAULT_HAND_OVER,
    PAIR_FAULT_CLIENT, /* a client's link */
    PAIR_FAULT_LAG,    /* the index stands still for a while */
    PAIR_FAULTS_DRAWN, /* those before by one drawing, those from here on by another: seeds stay what they were */
    PAIR_FAULT_RECORD = PAIR_FAULTS_DRAWN,
    PAIR_FAULT_HANG,
    PAIR_FAULTS
};

struct pair_faults {
    uint32_t mask;
    uint64_t every_ms;
    uint64_t down_ms; /* until a node is started again, up to */
    bool over;
    bool held[2]; /* kept down by the operator */
    uint64_t counts[PAIR_FAULTS];
};

void pair_faults_draw(struct random *random, struct pair_faults *out);
void pair_faults_start(struct world *world, struct pair_faults *faults);
/* Everything is put right, and stays so. Both nodes run. */
void pair_faults_end(struct world *world, struct pair_faults *faults);

#endif
