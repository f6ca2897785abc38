/* gateway_host.h: the gateway's interface to the broker that creates it, and to the door (door.h). */
#ifndef TARRY_GATEWAY_GATEWAY_HOST_H
#define TARRY_GATEWAY_GATEWAY_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway.h"
#include "message.h"

struct door;

/* Functions of the broker, called on the door's thread. */
struct gateway_calls {
    void *argument;
    /* Like door_calls.request. Returns false if there is no capacity; the gateway offers the request again after
     * gateway_resumed. */
    bool (*request)(void *argument, uint64_t from, uint64_t principal, const char *peer, struct message *request);
    /* Returns whether most of the broker's capacity for requests is free, and the principal's limit allows another
     * request of `size` bytes. */
    bool (*has_spare)(void *argument, uint64_t principal, size_t size);
    /* Adds a reference to a principal, or removes one. */
    uint64_t (*hold)(void *argument, uint64_t principal);
    void (*release)(void *argument, uint64_t principal);
    /* Returns the principal's name as records contain it; "" for a local client. */
    const char *(*name)(void *argument, uint64_t principal);
    /* Describes the principal. */
    void (*who)(void *argument, uint64_t principal, struct gateway_who *out);
    /* Returns a new reference to the broker's own principal, for the receipts of gateway_once. */
    uint64_t (*own)(void *argument);
    /* Checks whether the principal may store this commit under an idempotency key, before the key is made durable.
     * Returns OK, or a code and a sentence. */
    Tarry__Code (*may_key)(void *argument, uint64_t principal, const Tarry__Commit *commit,
                           char sentence[GATEWAY_SENTENCE_SIZE]);
    /* Takes one operation from the principal's rate, if the principal may do at least one operation of `deed` (the
     * operations of a request, struct gateway_deed). Returns OK, or a code and a sentence. */
    Tarry__Code (*pay)(void *argument, uint64_t principal, const struct gateway_deed *deed,
                       char sentence[GATEWAY_SENTENCE_SIZE]);
    /* Undoes the callback `pay`: returns one operation to the principal's rate. */
    void (*unpay)(void *argument, uint64_t principal);
    /* Checks whether the principal may lease from these queues now. Returns OK, or a code and a sentence. */
    Tarry__Code (*may_lease)(void *argument, uint64_t principal, const char *const *queues, size_t queue_count,
                             char sentence[GATEWAY_SENTENCE_SIZE]);
    /* Checks whether the principal may do this operation in this queue. */
    bool (*may)(void *argument, uint64_t principal, Tarry__Op__OpCase operation, const char *queue,
                char sentence[GATEWAY_SENTENCE_SIZE]);
    /* Returns the broker's epoch. */
    uint32_t (*epoch)(void *argument);
    /* Callbacks for the lane of a session to which the gateway has subscribed (lanes.h). */
    bool (*lane_up)(void *argument, uint32_t lane, uint64_t session, uint64_t id);
    void (*lane_sent)(void *argument, uint32_t lane, uint64_t turn, bool left, uint64_t stamp);
    void (*lane_credit)(void *argument, uint32_t lane, uint64_t session, uint32_t credit);
};

/* Returns NULL when out of memory. */
struct gateway *gateway_new(const struct gateway_calls *calls);
/* Sets the door. Call it before the door starts. */
void gateway_serve(struct gateway *gateway, struct door *door);
/* Frees the gateway after the door has stopped; calls no callback. */
void gateway_free(struct gateway *gateway);

/* Functions that the door calls. */
void gateway_inside(struct gateway *gateway, uint64_t id, const struct message *message, bool is_delivery);
void gateway_resumed(struct gateway *gateway);
void gateway_alarm(struct gateway *gateway);

#endif
