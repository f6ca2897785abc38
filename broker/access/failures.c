/* failures.c: see failures.h. */
#include "failures.h"

#include <string.h>

void failures_address(const char *peer, char out[FAILURES_ADDRESS_SIZE]) {
    const char *end = strrchr(peer, strncmp(peer, "unix:", 5) == 0 ? ',' : ':');
    size_t size = end != NULL ? (size_t)(end - peer) : strlen(peer);
    if (size >= FAILURES_ADDRESS_SIZE) size = FAILURES_ADDRESS_SIZE - 1;
    memset(out, 0, FAILURES_ADDRESS_SIZE);
    memcpy(out, peer, size);
    if (size == 0) out[0] = '?';
}

/* Returns the address's entry, or the least recently used one for it. A free entry has the last use 0. */
static struct failures_of *place_of(struct failures *failures, const char address[FAILURES_ADDRESS_SIZE]) {
    struct failures_of *oldest = &failures->of[0];
    for (size_t i = 0; i < FAILURES_ADDRESSES; i++) {
        struct failures_of *of = &failures->of[i];
        if (strcmp(of->address, address) == 0) return of;
        if (of->last_s < oldest->last_s) oldest = of;
    }
    *oldest = (struct failures_of){0};
    memcpy(oldest->address, address, FAILURES_ADDRESS_SIZE);
    return oldest;
}

bool failures_add(struct failures *failures, const char *peer, uint64_t now_s) {
    char address[FAILURES_ADDRESS_SIZE];
    failures_address(peer, address);
    struct failures_of *of = place_of(failures, address);
    if (of->count == 0 || now_s - of->since_s >= FAILURES_WINDOW_S) {
        of->since_s = now_s;
        of->count = 0;
    }
    of->count++;
    of->last_s = now_s;
    failures->total++;
    failures->limited += of->count > FAILURES_MAX;
    return of->count > FAILURES_MAX;
}
