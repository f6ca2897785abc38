/* pair_status.h: answers requests about the pair: the status of this node (tarry status), and which node is to lead.
 * This file makes no decision. */
#ifndef TARRY_SHELL_PAIR_STATUS_H
#define TARRY_SHELL_PAIR_STATUS_H

#include "call.h"

struct authorizer;
struct clock;
struct datadir;
struct disk_hang;
struct endpoints;
struct log;
struct node;
struct run;
struct tls;

struct pair_status {
    struct datadir *dir;
    struct run *run;
    struct clock *clock;
    struct endpoints *endpoints;
    struct tls *tls; /* this broker's certificates; NULL: no TLS */
    const struct disk_hang *hang;
    struct log *log;
    struct node *node;
    struct authorizer *authorizer;
};

/* Answers a call whose request is a checked Pair. Any thread. */
void pair_answer(const struct pair_status *here, struct call *call);

#endif
