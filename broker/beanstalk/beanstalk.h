/* beanstalk.h: beanstalkd's protocol (protocol.txt 1.12) at the broker's door. docs/BEANSTALKD.md explains how its
 * commands map to Tarry.
 *
 * The parser turns the bytes of a connection into commands. A command makes requests to the gateway (gateway_ask,
 * gateway_commit, gateway_lease). Their replies and leased tasks become the lines, bodies and YAML that the client
 * gets.
 *
 * A connection runs one command at a time, as beanstalkd does. Door's thread only. */
#ifndef TARRY_BEANSTALK_H
#define TARRY_BEANSTALK_H

#include "door_stream.h"
#include "gateway.h"

/* Maximum number of reserved jobs, and of watched tubes, of one connection; beyond it: OUT_OF_MEMORY. */
#define BEANSTALK_RESERVED_MAX 8192u
#define BEANSTALK_WATCHED_MAX 256u

struct beanstalk;

/* Returns NULL when out of memory. */
struct beanstalk *beanstalk_new(struct gateway *gateway);
/* Sets the door. Call it before the door starts. */
void beanstalk_serve(struct beanstalk *beanstalk, struct door *door);
/* Returns the callbacks for door_add, which are valid until beanstalk_free. */
const struct door_stream_calls *beanstalk_calls(const struct beanstalk *beanstalk);
/* Frees the server after the door has stopped and all connections have ended. NULL is allowed. */
void beanstalk_free(struct beanstalk *beanstalk);

#endif
