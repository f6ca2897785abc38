/* signer.h: signs heads of the log (--sign-key) and keeps them in DIR/heads (storage/history/heads.h): at the end of
 * each segment, at least once a minute while there is news, soon after a start, before a segment goes, and at a clean
 * stop.
 *
 * It is the index thread's, which reads every frame once it is durable: so nothing is signed that could still be lost,
 * and neither commits nor deliveries ever wait for a signature. A start takes the last head for what it is: the log was
 * durable up to there, and had this chain hash.
 *
 * A head that cannot be written is loud, and no reason to stop: the log is none the worse, and the next head speaks for
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
    struct log *log;            /* from signer_start on */
    struct sign_secret *secret; /* guarded by libsodium; NULL: nothing is signed */
    struct heads heads;
    struct head last;               /* of ours; number 0: there is none */
    struct head next;               /* the log as far as it was taken in; position 0: nothing was */
    uint64_t due_ns;                /* MONOTONIC, when `next` is to be signed; 0: there is no news */
    uint64_t signed_ns;             /* MONOTONIC, when the last one was; 0: not in this run */
    _Atomic uint64_t told_position; /* of `last`, for any thread … */
    _Atomic uint64_t told_ms;       /* … and when that was, by the log's clock */
};

/* Reads the key, if one is configured and the broker may change anything, and the last head. 0, or 1 with a sentence
 * that says what to do. */
int signer_open(struct signer *signer, const struct config *config, const struct datadir *dir, char *message,
                size_t message_size);
/* The log was durable up to here; 0: nothing was signed. */
uint64_t signer_known(const struct signer *signer);
/* The last head's position and time (Unix milliseconds); 0: there is none. Any thread. */
void signer_told(const struct signer *signer, uint64_t *out_position, uint64_t *out_ms);

/* The log is open; before the index thread starts. */
void signer_start(struct signer *signer, struct log *log);

/* The rest: index thread. The next durable frame, and the base of the segment that it lies in. */
void signer_take(struct signer *signer, uint64_t segment, const struct frame_header *header);
/* For how long there is nothing to do; UINT64_MAX: until there is news. */
uint64_t signer_wait_ns(const struct signer *signer);
/* Signs, if it is time. */
void signer_step(struct signer *signer);
/* Says, before it is so, that the log will begin at `kept_from`. */
void signer_retire(struct signer *signer, uint64_t kept_from);
/* Signs what is left, and wipes the key. */
void signer_stop(struct signer *signer);

#endif
