/* tails.h: the tails that were cut off a data directory's log and put aside (storage/log/quarantine.h): a broker came
 * back, and its leader had never had these frames. */
#ifndef TARRY_TOOL_TAILS_H
#define TARRY_TOOL_TAILS_H

#include "quarantine.h"
#include "store.h"

struct tail {
    struct quarantine_tail file;
    uint64_t frames; /* that were found right */
    uint32_t epoch;  /* of the last one */
    char why[QUARANTINE_WHY_SIZE];
};

struct tails {
    char directory[STORE_PATH_SIZE];
    struct tail *items;
    size_t count;
};

/* Lists them and checks every frame of each. 0, or EXIT_REFUSED with a sentence in the store's message; then `out` has
 * those before, too. After the identity. */
int tails_check(struct tails *out, struct store *store);
void tails_deinit(struct tails *tails);
/* A member of an object; lines for people. */
void tails_json(const struct tails *tails, struct text *out);
void tails_words(const struct tails *tails, const struct store *store, struct text *out);

/* The store, which is open, is read from this tail instead of log and archive. `name` as tails_words says it. 0, or
 * EXIT_REFUSED with a sentence in the store's message. */
int tails_enter(struct store *store, const char *name);

#endif
