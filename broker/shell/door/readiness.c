/* readiness.c: see readiness.h. */
#include "readiness.h"

#include <stdatomic.h>
#include <stdio.h>

#include "config.h"
#include "disk_hang.h"
#include "disk_space.h"
#include "node.h"
#include "run.h"

static const char *of_node(const struct node *node, char buffer[READINESS_TEXT_SIZE]) {
    if (!atomic_load(&node->leads)) {
        char primary[CONFIG_TEXT_SIZE];
        if (!atomic_load(&node->follows))
            return "undecided: no node of the pair leads, or this node does not know the leader yet";
        node_primary((struct node *)node, primary); /* locks a mutex of `node`, but changes no state */
        snprintf(buffer, READINESS_TEXT_SIZE, "follower: the primary is %.900s",
                 primary[0] != '\0' ? primary : "unknown");
        return buffer;
    }
    if (atomic_load(&node->paused)) return "handing-over: the other node of the pair is becoming the primary";
    if (atomic_load(&node->stalled_ns) != 0) return "stalled: this node waits for its follower, which does not confirm";
    return NULL;
}

const char *readiness_problem(const struct readiness *readiness, char buffer[READINESS_TEXT_SIZE]) {
    char hangs[DISK_HANG_PROBLEM_SIZE];
    if (atomic_load(&readiness->run->stopping)) return "stopping: this broker is stopping";
    if (readiness->config->inspect) return "inspecting: this broker only answers queries (--inspect)";
    const char *problem = readiness->node->on ? of_node(readiness->node, buffer) : NULL;
    if (problem != NULL) return problem;
    if ((problem = disk_hang_problem(readiness->hang, hangs)) != NULL) {
        snprintf(buffer, READINESS_TEXT_SIZE, "disk-hangs: %.900s", problem);
        return buffer;
    }
    uint64_t free, size;
    disk_space_look(readiness->disk_space, &free, &size);
    if (disk_reserve_admits_segment(&readiness->disk_space->reserve, free, 0)) return NULL;
    snprintf(buffer, READINESS_TEXT_SIZE, "disk-full: %llu bytes are free, and the broker refuses new tasks",
             (unsigned long long)free);
    return buffer;
}
