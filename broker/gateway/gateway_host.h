/* gateway_host.h: what the gateway is to its broker: made once, with what it calls; what the door tells it (door.h). */
#ifndef TARRY_GATEWAY_GATEWAY_HOST_H
#define TARRY_GATEWAY_GATEWAY_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway.h"
#include "message.h"

struct door;

/* On the door's thread. */
struct gateway_calls {
    void *argument;
    /* As door_calls.request: false: there is no room; it is offered again after gateway_resumed. */
    bool (*request)(void *argument, uint64_t from, uint64_t principal, const char *peer, struct message *request);
    /* One reference more to a principal, or one fewer. */
    uint64_t (*hold)(void *argument, uint64_t principal);
    void (*release)(void *argument, uint64_t principal);
    /* Its name, as in records; "": a local client. */
    const char *(*name)(void *argument, uint64_t principal);
    /* What is known of it. */
    void (*who)(void *argument, uint64_t principal, struct gateway_who *out);
    /* The broker's own principal, one reference more: for the receipts of gateway_once. */
    uint64_t (*own)(void *argument);
    /* May it have this commit remembered under a key, which is durable before the commit is judged? As may_lease. */
    Tarry__Code (*may_key)(void *argument, uint64_t principal, const Tarry__Commit *commit,
                           char sentence[GATEWAY_SENTENCE_SIZE]);
    /* May it do any of this, and does its rate allow one operation more, which is taken? As may_lease. */
    Tarry__Code (*pay)(void *argument, uint64_t principal, const struct gateway_deed *deed,
                       char sentence[GATEWAY_SENTENCE_SIZE]);
    /* That operation is given back. */
    void (*unpay)(void *argument, uint64_t principal);
    /* May it lease from these queues now? OK, or the code and a sentence. */
    Tarry__Code (*may_lease)(void *argument, uint64_t principal, const char *const *queues, size_t queue_count,
                             char sentence[GATEWAY_SENTENCE_SIZE]);
    /* Of the lane of a session that was subscribed from inside (lanes.h). */
    bool (*lane_up)(void *argument, uint32_t lane, uint64_t session, uint64_t id);
    void (*lane_sent)(void *argument, uint32_t lane, uint64_t turn, bool left, uint64_t stamp);
    void (*lane_credit)(void *argument, uint32_t lane, uint64_t session, uint32_t credit);
};

/* NULL: no memory. */
struct gateway *gateway_new(const struct gateway_calls *calls);
/* The door's, before it starts. */
void gateway_serve(struct gateway *gateway, struct door *door);
/* The door has stopped; nothing is called back. */
void gateway_free(struct gateway *gateway);

/* What the door calls. */
void gateway_inside(struct gateway *gateway, uint64_t id, const struct message *message, bool is_delivery);
void gateway_resumed(struct gateway *gateway);
void gateway_alarm(struct gateway *gateway);

#endif
