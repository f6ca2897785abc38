/* hard_state.h: the durable state of a node of a pair, in DIR/pair (FORMAT.md has the bytes). broker/pair/pair.h has
 * the rules that need this state; this file only stores it.
 *
 * The state belongs to one directory, like DIR/member. A copy of the directory has no DIR/pair, because a copy is a new
 * member, which has accepted no epoch yet.
 *
 * *Rule:* a state is durable before any action depends on it, and a damaged file is an error, never treated as missing.
 * *Reason:* if a node forgets which epochs it has promised to refuse, two nodes may acknowledge requests at the same
 * time. */
#ifndef TARRY_STORAGE_HARD_STATE_H
#define TARRY_STORAGE_HARD_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "disk.h"
#include "identity.h"

#define HARD_STATE_NAME "pair"
#define HARD_STATE_SIZE 64

struct hard_state {
    uint8_t node;      /* number of the node: 0 founded the cluster, 1 joined it */
    uint32_t floor;    /* the node takes part in no epoch below this one (R2, R6, R7) */
    uint32_t recorded; /* the newest epoch that this node has seen in the coordinator's record, has promised, or has
                          led; 0: no such epoch, or unknown (F-31b) */
    uint32_t led;      /* the last epoch that the node claimed by an operator's command; 0: no such epoch */
    bool in_sync;      /* true: the node had all acknowledged frames when it last learned the state of the pair */
    bool alone;        /* true: the node may have acknowledged frames that the other node lacks */
    uint64_t runs;     /* number of processes that have run on this directory; each run has its own number (R6) */
    uint8_t peer[MEMBER_ID_SIZE]; /* member id of the peer's disk that this node last counted as in sync, or last
                                     followed; zeros: no peer yet. A wiped disk gets a new id (F-29) */
};

/* Returns true if this node has ever counted a peer as in sync or followed one. Pure. */
bool hard_state_has_peer(const struct hard_state *hard_state);
/* Returns true if there is a peer and `member` is not its id (F-29). Pure. */
bool hard_state_is_another(const struct hard_state *hard_state, const uint8_t member[MEMBER_ID_SIZE]);

void hard_state_encode(const struct hard_state *hard_state, uint8_t out[HARD_STATE_SIZE]);
/* Decodes a file's bytes. 0, or 1 with a message that names `path` and the remedy. */
int hard_state_decode(const uint8_t *bytes, size_t size, const char *path, struct hard_state *out,
                      char message[IDENTITY_MESSAGE_SIZE]);

/* Reads the file in `directory`. 0; negative errno (-ENOENT: the directory was never part of a pair); 1: the file is
 * damaged, and `message` says how. */
int hard_state_read(const struct disk *disk, const char *directory, struct hard_state *out,
                    char message[IDENTITY_MESSAGE_SIZE]);
/* Replaces the file, durably. 0 or a negative errno. After an error the file has the old or the new state; the caller
 * must write the same state again, or exit. */
int hard_state_write(const struct disk *disk, const char *directory, const struct hard_state *hard_state);

#endif
