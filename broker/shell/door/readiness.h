/* readiness.h: decides whether this broker can serve clients, and if not, why not (the page /readyz). Any answer to
 * /healthz means that the broker is alive. */
#ifndef TARRY_SHELL_READINESS_H
#define TARRY_SHELL_READINESS_H

#include <stddef.h>

#define READINESS_TEXT_SIZE 1024u

struct config;
struct disk_hang;
struct node;
struct disk_space;
struct run;

struct readiness {
    const struct config *config;
    const struct run *run;
    const struct disk_space *disk_space;
    const struct disk_hang *hang;
    const struct node *node;
};

/* Returns NULL if this broker accepts changes and delivers tasks. Otherwise returns a message that starts with one word
 * for machines: stopping, inspecting, follower, undecided, handing-over, stalled, disk-hangs or disk-full. The message
 * is a constant or is written to `buffer`. Any thread. */
const char *readiness_problem(const struct readiness *readiness, char buffer[READINESS_TEXT_SIZE]);

#endif
