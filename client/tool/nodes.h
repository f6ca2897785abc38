/* nodes.h: the brokers that --broker names, each asked alone: a primary and its follower. One thread. */
#ifndef TARRY_TOOL_NODES_H
#define TARRY_TOOL_NODES_H

#include "tool.h"

#define NODES_MAX 16u

struct node {
    char *url; /* owned */
    tarry_client *client;
    struct tarry_pair_view *view;     /* of the last answer; NULL: it gave none */
    int code;                         /* of the last question */
    char message[TARRY_MESSAGE_SIZE]; /* with a code that is not TARRY_OK */
};

struct nodes {
    struct node items[NODES_MAX];
    size_t count;
};

/* Connects to each; `timeout_ms` for every question. EXIT_FINE, or an exit status after a sentence. nodes_close in any
 * case. */
int nodes_open(struct nodes *nodes, const struct tool *tool, uint64_t timeout_ms);
void nodes_close(struct nodes *nodes);
/* Asks one, or all of them at the same time, how they are. */
void node_ask(struct node *node);
void nodes_ask(struct nodes *nodes);
/* Keeps what a call on this node's client said. */
void node_take(struct node *node, int code, struct tarry_pair_view *view, const char *message);
/* Leads, if only to hand over. */
bool node_is_primary(const struct node *node);

#endif
