/* readiness.h: may this broker serve, and if not, why not (the page /readyz). That it answers at all says that it is
 * alive (/healthz). */
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

/* NULL: changes are taken and tasks delivered here. Otherwise a sentence that begins with one word for machines:
 * stopping, inspecting, follower, undecided, handing-over, stalled, disk-hangs, disk-full. It lies in `buffer`. Any
 * thread. */
const char *readiness_problem(const struct readiness *readiness, char buffer[READINESS_TEXT_SIZE]);

#endif
