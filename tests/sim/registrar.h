/* registrar.h: the simulated coordinator: the calls of broker/coordinator/coordinator.h on virtual time, for the real
 * record_client (broker/shell/pair/record_client.c) and the real text of the record (broker/coordinator/record.c).
 *
 *     record_client ─ call ─► request ─► the one value, compare-and-set ─► reply ─► done
 *                          lost, late, cut off                           lost, late, cut off
 *
 * A call ends after its time as PAIR_UNKNOWN, and its request may still be on its way then: it happened, or not, or not
 * yet. Requests of a node that has died are carried out too, if they had left. A watch is a hint that may be lost. */
#ifndef TARRY_TESTS_SIM_REGISTRAR_H
#define TARRY_TESTS_SIM_REGISTRAR_H

#include "ledger.h"
#include "record.h"

struct world;

struct registrar_entry {
    uint64_t version; /* 0: there is none */
    char value[COORDINATOR_VALUE_SIZE_MAX + 1];
    size_t size;
    struct coordinator_record record; /* the same, read */
};

struct registrar {
    struct registrar_entry now;
    struct registrar_entry past;   /* the last one of the epoch before; version 0: none */
    struct registrar_entry newest; /* while it is doubted: what was there before */
    bool is_doubted;               /* it has lost its record, or was put back, and nobody has written it again */
    uint64_t connections;          /* requests of earlier ones went down with the server's past */
    bool cut[HOSTS_MAX];           /* that node does not reach it */
    uint32_t lost_permille;        /* requests, and replies */
    uint32_t late_permille;        /* take up to late_ms */
    uint32_t late_ms;
    struct coordinator *open[HOSTS_MAX];  /* of the node's life; NULL: none */
    uint64_t present_until_ns[HOSTS_MAX]; /* by node: its presence */
    uint64_t present_since_ns[HOSTS_MAX]; /* … without a gap, and as the same */
    uint64_t reached_since_ns[HOSTS_MAX]; /* that node reaches it, since it was last cut off or troubled */
    char present[HOSTS_MAX][COORDINATOR_PRESENCE_SIZE_MAX + 1];
    uint64_t swaps, unknown; /* counted */
};

/* The world's, whose nodes call it from now on. */
void registrar_begin(struct world *world);
/* Who was cut off is not any more, and hears what is new. */
void registrar_heal(struct world *world);
/* Nothing is lost or late any more. */
void registrar_calm(struct world *world);
/* That node ends: it hears nothing more. */
void registrar_forget(struct world *world, uint32_t node);
/* What the pair has agreed on, whatever the coordinator knows of it now. */
const struct registrar_entry *registrar_newest(const struct registrar *registrar);

/* F-31b, while it is not doubted */
void registrar_lose(struct world *world);
/* To the epoch before (`past`): `by_server`, its versions too; else somebody writes the old value. */
void registrar_put_back(struct world *world, bool by_server);
/* An operator has the record written again (tarry pair record --write): what it was. */
void registrar_write_again(struct world *world);

#endif
