/* amqp_link.h: a connection to a broker that speaks AMQP 0-9-1, with one channel, for declarations. One thread. */
#ifndef TARRY_TOOL_AMQP_LINK_H
#define TARRY_TOOL_AMQP_LINK_H

#include "amqp_codec.h"
#include "server_link.h"

#define AMQP_LINK_TEXT_SIZE 256u

struct amqp_link {
    struct server_link link;
    struct amqp_out out;               /* buffer with the method to send next */
    char refusal[AMQP_LINK_TEXT_SIZE]; /* the broker's error message; valid after AMQP_LINK_REFUSED */
};

enum amqp_link_result {
    AMQP_LINK_DONE,
    AMQP_LINK_REFUSED, /* the broker refused, and closed the channel; a new channel is open */
    AMQP_LINK_LOST     /* the connection has failed: see link.error */
};

/* Connects and opens a channel. Returns false after a failure: see link.error. */
bool amqp_link_open(struct amqp_link *link, const char *address, const char *user, const char *password,
                    uint64_t timeout_ms);
/* Sends `out`, which has one method, and waits for its answer. */
enum amqp_link_result amqp_link_ask(struct amqp_link *link, enum amqp_method_kind answer);
void amqp_link_close(struct amqp_link *link);

#endif
