/* signer.h: signs heads of the log (--sign-key) and stores them in DIR/heads (storage/history/heads.h). It signs at the
 * end of each segment, and at least once a minute while the log grows. It also signs soon after a start, before a
 * segment is retired, and at a clean stop.
 *
 * The signer runs on the index thread, which reads every frame once it is durable. So no head covers frames that could
 * still be lost, and no commit or delivery waits for a signature. A start trusts the last head: the log was durable up
 * to its position and had its chain hash.
 *
 * A head that cannot be written is logged, and the broker continues. The log is not affected, and the next head covers
 * everything before it. */
#ifndef TARRY_SHELL_SIGNER_H
#define TARRY_SHELL_SIGNER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "heads.h"

struct config;
struct datadir;
struct log;

struct signer {
    const struct datadir *dir;
    struct log *log;            /* the log; set by signer_start */
    struct sign_secret *secret; /* the key, in guarded memory of libsodium; NULL: nothing is signed */
    struct heads heads;
    struct head last;               /* the last signed head; number 0: none */
    struct head next;               /* the head that covers the log read so far; position 0: nothing read */
    uint64_t due_ns;                /* CLOCK_MONOTONIC, when `next` is to be signed; 0: nothing new to sign */
    uint64_t signed_ns;             /* CLOCK_MONOTONIC, time of the last signature; 0: none in this run */
    _Atomic uint64_t told_position; /* position of `last`, for any thread */
    _Atomic uint64_t told_ms;       /* time of `last` by the log's clock, for any thread */
};

/* Reads the last head, and the key if one is configured and the broker may write. Returns 0, or 1 with an error message
 * that says what to do. */
int signer_open(struct signer *signer, const struct config *config, const struct datadir *dir, char *message,
                size_t message_size);
/* Returns the position of the last head: the log was durable up to it; 0: no head. */
uint64_t signer_known(const struct signer *signer);
/* Returns the last head's position and time (Unix milliseconds); 0: no head. Any thread. */
void signer_told(const struct signer *signer, uint64_t *out_position, uint64_t *out_ms);

/* Sets the log, after the log is opened and before the index thread starts. */
void signer_start(struct signer *signer, struct log *log);

/* Only the index thread calls the functions below. signer_take receives the next durable frame and the base of its
 * segment. */
void signer_take(struct signer *signer, uint64_t segment, const struct frame_header *header);
/* Returns the time until there is something to do; UINT64_MAX: wait for the next frame. */
uint64_t signer_wait_ns(const struct signer *signer);
/* Signs the next head if its time has come. */
void signer_step(struct signer *signer);
/* Signs a head that states that the log begins at `kept_from`. Call it before the segments below are deleted. */
void signer_retire(struct signer *signer, uint64_t kept_from);
/* Signs the part of the log that is not signed yet, and wipes the key. */
void signer_stop(struct signer *signer);

#endif
