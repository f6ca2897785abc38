/* hard_state.h: what one of a pair must not forget, in DIR/pair (FORMAT.md has the bytes). The rules that need it are
 * in broker/pair/pair.h; here it is only kept.
 *
 * It belongs to the directory, as DIR/member does: a copy of the directory has none, for it has promised nothing.
 *
 * *Rule:* it is durable before anything rests on it, and a damaged one is refused, never taken for none. *Reason:* a
 * node that forgets a promise may acknowledge, or confirm, for two. */
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
    uint8_t node;                 /* 0: founded the cluster, 1: joined it */
    uint32_t floor;               /* it takes part in no epoch below (R2, R6, R7) */
    uint32_t recorded;            /* the newest epoch that it has seen in the coordinator's record, or promised, or led;
                                     0: none, or it is unknown (F-31b) */
    uint32_t led;                 /* the last epoch that it claimed by an operator's word; 0: none */
    bool in_sync;                 /* when it last heard of it, it had whatever is acknowledged */
    bool alone;                   /* it may have acknowledged what the other lacks */
    uint64_t runs;                /* how often a process has run on it: no two runs have the same number (R6) */
    uint8_t peer[MEMBER_ID_SIZE]; /* the member id of the other's disk that was last counted or followed here; zeros:
                                     none yet. A wiped disk has another (F-29) */
};

/* Has another disk been counted or followed here? Pure, as the next one. */
bool hard_state_has_peer(const struct hard_state *hard_state);
/* … and is `member` another one than that (F-29)? If there was none, no disk is another. */
bool hard_state_is_another(const struct hard_state *hard_state, const uint8_t member[MEMBER_ID_SIZE]);

void hard_state_encode(const struct hard_state *hard_state, uint8_t out[HARD_STATE_SIZE]);
/* 0, or 1 with a sentence that names `path` and what to do. */
int hard_state_decode(const uint8_t *bytes, size_t size, const char *path, struct hard_state *out,
                      char message[IDENTITY_MESSAGE_SIZE]);

/* The file of `directory`. 0, or a negative errno (-ENOENT: it was never one of a pair); 1 with a sentence: it is
 * there, and not right. */
int hard_state_read(const struct disk *disk, const char *directory, struct hard_state *out,
                    char message[IDENTITY_MESSAGE_SIZE]);
/* Replaces the file, durably. 0 or a negative errno: then either content may be there, and the same must be written
 * again, or the process end. */
int hard_state_write(const struct disk *disk, const char *directory, const struct hard_state *hard_state);

#endif
