/* nodes.h: the brokers in --broker, each asked separately: a primary and its follower. One thread. */
#ifndef TARRY_TOOL_NODES_H
#define TARRY_TOOL_NODES_H

#include "tool.h"

#define NODES_MAX 16u

struct node {
    char *url; /* owned */
    tarry_client *client;
    struct tarry_pair_view *view;     /* last status of the node; NULL: no answer */
    int code;                         /* result of the last request */
    char message[TARRY_MESSAGE_SIZE]; /* error message, if `code` is not TARRY_OK */
};

struct nodes {
    struct node items[NODES_MAX];
    size_t count;
};

/* Connects to each broker; `timeout_ms` is the timeout of each request. EXIT_FINE, or an exit status after an error
 * message. Call nodes_close in both cases. */
int nodes_open(struct nodes *nodes, const struct tool *tool, uint64_t timeout_ms);
void nodes_close(struct nodes *nodes);
/* Ask one broker, or all of them at the same time, for their status. */
void node_ask(struct node *node);
void nodes_ask(struct nodes *nodes);
/* Stores the result of a call on the client of this node. */
void node_take(struct node *node, int code, struct tarry_pair_view *view, const char *message);
/* Returns whether the node is the primary, also while it hands over. */
bool node_is_primary(const struct node *node);

#endif
