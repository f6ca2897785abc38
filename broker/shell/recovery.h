/* recovery.h: restores the broker's state from a data directory: the index, then the log after the index's position,
 * applied to the core. */
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
    struct disk *disk; /* the log's disk */
    const struct signer *signer;
    const uint8_t *config_digest;
    bool is_pair;

    /* outputs of recovery_run */
    struct clock *clock;
    struct run *run; /* receives the epoch and how the log ended before */
    struct log *log;
    struct index *index;
    struct core *core;
    bool is_damaged; /* index or log is damaged or incomplete: only a copy of the data helps */
};

/* Opens index and log and refuses them if they do not match (LOG-3). Returns 0, or 1 with an error message. Called
 * before the broker starts its threads. */
int recovery_run(struct recovery *recovery, char *message, size_t message_size);

#endif
