/* gateway_wakeup.c: lets another thread wake the door's thread; and references to the broker's own principal. */
#include <stdatomic.h>
#include <stdlib.h>

#include "gateway_parts.h"

struct gateway_wakeup {
    struct gateway *gateway;
    uint64_t id;
    _Atomic bool is_posted; /* true: the wakeup is in the door's list, where it is at most once (DOOR_INSIDE_ENDS) */
    gateway_timeout *arrived;
    void *argument;
};

struct gateway_wakeup *gateway_wakeup(struct gateway *gateway, gateway_timeout *arrived, void *argument) {
    struct gateway_wakeup *wakeup = calloc(1, sizeof(*wakeup));
    if (wakeup == NULL) return NULL;
    wakeup->gateway = gateway;
    wakeup->arrived = arrived;
    wakeup->argument = argument;
    wakeup->id = handle_new(gateway, HANDLE_WAKEUP, wakeup);
    if (wakeup->id != 0) return wakeup;
    free(wakeup);
    return NULL;
}

void gateway_wake(struct gateway_wakeup *wakeup) {
    if (!atomic_exchange(&wakeup->is_posted, true)) door_close(wakeup->gateway->door, wakeup->id);
}

void wakeup_arrived(struct gateway_wakeup *wakeup) {
    atomic_store(&wakeup->is_posted, false);
    wakeup->arrived(wakeup->argument);
}

void wakeup_free(struct gateway_wakeup *wakeup) {
    free(wakeup);
}

uint64_t gateway_own(struct gateway *gateway) {
    return gateway->calls.own(gateway->calls.argument);
}

void gateway_disown(struct gateway *gateway, uint64_t principal) {
    gateway->calls.release(gateway->calls.argument, principal);
}
