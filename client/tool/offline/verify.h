/* verify.h: checks a data directory as `tarry verify` does, for commands that make one. */
#ifndef TARRY_TOOL_VERIFY_H
#define TARRY_TOOL_VERIFY_H

#include "store.h"

/* What is known of a directory that was found to be right. */
struct verified {
    uint64_t digest;
    uint64_t live;
    uint64_t log_end;
    uint64_t torn_bytes; /* behind log_end: a torn tail, which the next start cuts (LOG-5) */
    uint32_t epoch;      /* the last one in the log or the index */
};

/* Checks everything; `store` is initialised, and left open to be closed by the caller. 0, or EXIT_REFUSED after a
 * sentence in store->message. */
int verify_store(struct store *store, struct verified *out);

#endif
