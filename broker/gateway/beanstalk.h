/* beanstalk.h: beanstalkd's protocol (protocol.txt 1.12) at the broker's door; docs/BEANSTALKD.md says how its words
 * map to Tarry's.
 *
 *   door_stream ── bytes ──► parser ──► a connection's command ──► gateway_ask, gateway_commit, gateway_lease
 *        ▲                                                                     │
 *        └────────────── lines, bodies, YAML ◄── replies, leased tasks ◄───────┘
 *
 * A connection does one command after the other, as beanstalkd does. Everything is the door's thread's own. */
#ifndef TARRY_GATEWAY_BEANSTALK_H
#define TARRY_GATEWAY_BEANSTALK_H

#include "door_stream.h"
#include "gateway.h"

/* Jobs that one connection has reserved, and tubes that it watches, at most; beyond it: OUT_OF_MEMORY. */
#define BEANSTALK_RESERVED_MAX 8192u
#define BEANSTALK_WATCHED_MAX 256u

struct beanstalk;

/* NULL: no memory. */
struct beanstalk *beanstalk_new(struct gateway *gateway);
/* Before the door starts. */
void beanstalk_serve(struct beanstalk *beanstalk, struct door *door);
/* For door_add; valid until beanstalk_free. */
const struct door_stream_calls *beanstalk_calls(const struct beanstalk *beanstalk);
/* The door has stopped, and its connections are gone. NULL is fine. */
void beanstalk_free(struct beanstalk *beanstalk);

#endif
