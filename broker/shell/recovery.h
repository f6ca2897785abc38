/* recovery.h: from a data directory to a state: the index, the log's tail on top, and a core that has applied it. */
#ifndef TARRY_SHELL_RECOVERY_H
#define TARRY_SHELL_RECOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clock;
struct config;
struct core;
struct datadir;
struct disk;
struct index;
struct log;
struct run;
struct signer;

struct recovery {
    const struct config *config;
    const struct datadir *dir;
    struct disk *disk; /* the log's */
    const struct signer *signer;
    const uint8_t *config_digest;
    bool is_pair;

    /* what it fills in */
    struct clock *clock;
    struct run *run; /* its epoch, and how the log ended before */
    struct log *log;
    struct index *index;
    struct core *core;
};

/* Opens index and log and refuses what does not fit together (LOG-3). 0, or 1 with a sentence. No thread of ours runs
 * yet. */
int recovery_run(struct recovery *recovery, char *message, size_t message_size);

#endif
