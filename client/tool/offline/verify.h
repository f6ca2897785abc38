/* verify.h: the check of `tarry verify`, for commands that make a data directory. */
#ifndef TARRY_TOOL_VERIFY_H
#define TARRY_TOOL_VERIFY_H

#include "store.h"

/* Facts of a directory that has passed the check. */
struct verified {
    uint64_t digest;
    uint64_t live;
    uint64_t log_end;
    uint64_t torn_bytes; /* bytes of a torn tail after log_end, which the next start cuts (LOG-5) */
    uint32_t epoch;      /* last epoch in the log or the index */
};

/* Checks everything. `store` is initialised; the caller closes it. 0, or EXIT_REFUSED after an error message in
 * store->message. */
int verify_store(struct store *store, struct verified *out);

#endif
