/* gateway_bell.c: how another thread makes the door's thread look; and whose requests the broker's own are. */
#include <stdatomic.h>
#include <stdlib.h>

#include "gateway_parts.h"

struct gateway_bell {
    struct gateway *gateway;
    uint64_t id;
    _Atomic bool rings; /* so the door has it in its list once at most (DOOR_INSIDE_ENDS) */
    gateway_timeout *rung;
    void *argument;
};

struct gateway_bell *gateway_bell(struct gateway *gateway, gateway_timeout *rung, void *argument) {
    struct gateway_bell *bell = calloc(1, sizeof(*bell));
    if (bell == NULL) return NULL;
    bell->gateway = gateway;
    bell->rung = rung;
    bell->argument = argument;
    bell->id = handle_new(gateway, HANDLE_BELL, bell);
    if (bell->id != 0) return bell;
    free(bell);
    return NULL;
}

void gateway_ring(struct gateway_bell *bell) {
    if (!atomic_exchange(&bell->rings, true)) door_close(bell->gateway->door, bell->id);
}

void bell_rung(struct gateway_bell *bell) {
    atomic_store(&bell->rings, false);
    bell->rung(bell->argument);
}

void bell_free(struct gateway_bell *bell) {
    free(bell);
}

uint64_t gateway_own(struct gateway *gateway) {
    return gateway->calls.own(gateway->calls.argument);
}

void gateway_disown(struct gateway *gateway, uint64_t principal) {
    gateway->calls.release(gateway->calls.argument, principal);
}
