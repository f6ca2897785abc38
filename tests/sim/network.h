/* network.h: the network between clients and the broker. Requests and replies may be lost, doubled or late, and so
 * overtake each other; a link may be cut in one direction or in both. A delivery uses a connection: it arrives or does
 * not. The broker may not learn that a connection broke. */
#ifndef TARRY_TESTS_SIM_NETWORK_H
#define TARRY_TESTS_SIM_NETWORK_H

#include "core.h"

#define HOSTS_MAX 2 /* number of hosts: one broker, or a pair */

struct world;
struct client;
struct request;

struct network { /* the current state of the network */
    uint32_t drop_permille;
    uint32_t double_permille;
    uint32_t late_permille; /* per mille of the messages that are late, by up to late_ms */
    uint32_t late_ms;
    uint64_t dropped, doubled; /* numbers of lost and doubled messages */
    bool cut_from[HOSTS_MAX];  /* for a pair: messages of that node do not reach the other */
};

struct link {      /* state of a client's link */
    bool cut_up;   /* messages to the broker are lost */
    bool cut_down; /* messages from the broker are lost */
};

struct answer { /* reply to a query or to a commit; the unused member is NULL */
    const Tarry__Reply *reply;
    const Tarry__CommitReply *commit;
    const uint8_t *packed; /* packed reply to a commit */
    size_t packed_size;
    uint32_t node;                      /* node that decided the reply */
    const struct core_content *content; /* content of the task of a Get, as it was sent */
};

struct delivered { /* a delivery as a consumer receives it */
    uint64_t session;
    struct core_delivered *tasks;
    ProtobufCBinaryData *contents; /* one packed Content per task */
    size_t count;
};

#define NETWORK_ANY_LIFE UINT64_MAX
/* Sends a message to the other node of a pair. `run` receives it in that node's thread (node_post). The message is lost
 * if the receiving host's life number is no longer `life`, because the host was restarted. */
void network_between(struct world *world, uint32_t to, void (*run)(struct world *world, void *argument), void *message,
                     uint64_t life);
void network_request(struct world *world, struct client *client, struct request *request);
void network_answer(struct world *world, struct client *client, struct request *request, const struct answer *answer);
void network_deliver(struct world *world, struct client *client, const struct delivered *delivered);
/* Tells the broker that the consumer has connected to its lane. */
void network_lane_up(struct world *world, struct client *client, uint32_t lane, uint64_t session);
/* Tells the broker, within its process, how many tasks a delivery to the pooled session may have. */
void network_credit(struct world *world, struct client *client, uint64_t session, uint32_t credit);
/* Breaks the connection of a session; the broker and the client notice it if they can be reached. */
void network_break_pipe(struct world *world, struct client *client, uint64_t session);

#endif
