/* tails.h: quarantined tails of a log (storage/log/quarantine.h). When a broker came back and its leader did not have
 * its last frames, these frames were cut off and put aside. */
#ifndef TARRY_TOOL_TAILS_H
#define TARRY_TOOL_TAILS_H

#include "quarantine.h"
#include "store.h"

struct tail {
    struct quarantine_tail file;
    uint64_t frames; /* correct frames */
    uint32_t epoch;  /* epoch of the tail's last frame */
    char why[QUARANTINE_WHY_SIZE];
};

struct tails {
    char directory[STORE_PATH_SIZE];
    struct tail *items;
    size_t count;
};

/* Lists the tails and checks every frame of each. Call after the identity. 0, or EXIT_REFUSED with an error message
 * in the store; then `out` has the tails before the damaged one. */
int tails_check(struct tails *out, struct store *store);
void tails_deinit(struct tails *tails);
/* Append the tails as a JSON member, or as lines for people. */
void tails_json(const struct tails *tails, struct text *out);
void tails_words(const struct tails *tails, const struct store *store, struct text *out);

/* Makes the open store read this tail instead of log and archive. `name` is as in tails_words. 0, or EXIT_REFUSED
 * with an error message in the store. */
int tails_enter(struct store *store, const char *name);

#endif
