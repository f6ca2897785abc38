/* network.h: what lies between clients and the broker. Requests and answers may be lost, doubled, delayed and so
 * overtake each other; a link may be cut in one direction or both. A delivery goes over a pipe: it arrives, or does
 * not, and whether the broker hears of a broken pipe is another matter. */
#ifndef TARRY_TESTS_SIM_NETWORK_H
#define TARRY_TESTS_SIM_NETWORK_H

#include "core.h"

#define HOSTS_MAX 2 /* a broker alone, or a pair */

struct world;
struct client;
struct request;

struct network { /* in force now */
    uint32_t drop_permille;
    uint32_t double_permille;
    uint32_t late_permille; /* takes up to late_ms */
    uint32_t late_ms;
    uint64_t dropped, doubled; /* counted */
    bool cut_from[HOSTS_MAX];  /* of a pair: nothing comes from that node to the other */
};

struct link {      /* a client's */
    bool cut_up;   /* to the broker */
    bool cut_down; /* from it */
};

struct answer { /* one of the two */
    const Tarry__Reply *reply;
    const Tarry__CommitReply *commit;
    const uint8_t *packed; /* of the commit */
    size_t packed_size;
    uint32_t node;                      /* who decided it */
    const struct core_content *content; /* of the task that a Get is about, as it was sent */
};

struct delivered { /* as a consumer gets it */
    uint64_t session;
    struct core_delivered *tasks;
    ProtobufCBinaryData *contents; /* packed Content, one per task */
    size_t count;
};

#define NETWORK_ANY_LIFE UINT64_MAX
/* Between the two of a pair: `run` gets the message on the other's thread (node_post), if `life` is still that of the
 * host there. */
void network_between(struct world *world, uint32_t to, void (*run)(struct world *world, void *argument), void *message,
                     uint64_t life);
void network_request(struct world *world, struct client *client, struct request *request);
void network_answer(struct world *world, struct client *client, struct request *request, const struct answer *answer);
void network_deliver(struct world *world, struct client *client, const struct delivered *delivered);
/* To the broker: the consumer has dialed its lane. */
void network_lane_up(struct world *world, struct client *client, uint32_t lane, uint64_t session);
/* To the broker, within its process: how many tasks a delivery to the pooled session may have. */
void network_credit(struct world *world, struct client *client, uint64_t session, uint32_t credit);
/* The pipe of a session breaks; who can, hears of it. */
void network_break_pipe(struct world *world, struct client *client, uint64_t session);

#endif
