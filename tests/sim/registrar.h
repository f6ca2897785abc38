/* registrar.h: the simulated coordinator: the calls of broker/coordinator/coordinator.h on virtual time. The real
 * record_client (broker/shell/pair/record_client.c) and the real text of the record (broker/coordinator/record.c) use
 * it. A call sends a request to the registrar and ends with the reply. The registrar reads its one value, or changes it
 * by compare-and-set. Requests and replies may be lost, late or cut off. A call without a reply ends as PAIR_UNKNOWN
 * after its time limit. The registrar may have executed such a request, may execute it later, or may never get it. A
 * request that left before its node died is also executed. A watch is a hint that may be lost. */
#ifndef TARRY_TESTS_SIM_REGISTRAR_H
#define TARRY_TESTS_SIM_REGISTRAR_H

#include "ledger.h"
#include "record.h"

struct world;

struct registrar_entry {
    uint64_t version; /* version of the coordinator's value; 0: no value */
    char value[COORDINATOR_VALUE_SIZE_MAX + 1];
    size_t size;
    struct coordinator_record record; /* the coordinator's value, decoded */
};

struct registrar {
    struct registrar_entry now;
    struct registrar_entry past; /* last value of the epoch before the present one; version 0: none */
    struct registrar_entry
        newest;      /* coordinator's entry before the record was lost or set back; valid while is_doubted is set */
    bool is_doubted; /* true: the record was lost or set back, and no node has written it again */
    uint64_t connections;   /* number of times that the server was restarted from an older state; requests of earlier
                               connections are lost */
    bool cut[HOSTS_MAX];    /* by node: true if the node cannot reach the coordinator */
    uint32_t lost_permille; /* how many of 1,000 requests or replies are lost */
    uint32_t late_permille; /* how many of 1,000 messages are late, by up to late_ms */
    uint32_t late_ms;
    struct coordinator *open[HOSTS_MAX];  /* connection of each node in its present life; NULL: none */
    uint64_t present_until_ns[HOSTS_MAX]; /* by node: time until which its presence lasts */
    uint64_t
        present_since_ns[HOSTS_MAX]; /* by node: time at which its present, unbroken and unchanged presence began */
    uint64_t reached_since_ns[HOSTS_MAX]; /* by node: time at which it last began to reach the coordinator without a cut
                                             or lost messages */
    char present[HOSTS_MAX][COORDINATOR_PRESENCE_SIZE_MAX + 1];
    uint64_t swaps, unknown; /* number of swaps, and number of calls with an unknown outcome */
};

/* Makes the world's coordinator, which its nodes call from now on. */
void registrar_begin(struct world *world);
/* Ends all cuts; the nodes learn the changes. */
void registrar_heal(struct world *world);
/* Ends the loss and the delay of messages. */
void registrar_calm(struct world *world);
/* Ends the connection of the node, whose process has ended: it receives nothing more. */
void registrar_forget(struct world *world, uint32_t node);
/* Returns the newest value that the pair had agreed on, even if the coordinator has lost it. */
const struct registrar_entry *registrar_newest(const struct registrar *registrar);

/* ---- F-31b; call while not is_doubted */
void registrar_lose(struct world *world);
/* Sets the coordinator's record back to the entry in `past`, which has an earlier epoch. `by_server`: the version goes
 * back too, as after a server's restart from an older state. Otherwise the version grows, as if a client had written
 * the old record. */
void registrar_put_back(struct world *world, bool by_server);
/* Writes the newest record again, as an operator does (tarry pair record --write). */
void registrar_write_again(struct world *world);

#endif
