/* receipt.h: list of the items that an import was working on, so that an import that is repeated after a kill imports
 * nothing twice.
 *
 * The tasks and their receipt are one atomic commit: both are durable, or neither is. Items in the receipt are already
 * in Tarry; a repeated import only removes them at the server. It never schedules them again, even if a consumer has
 * acked them long ago. The receipt is stored as a task in queue RECEIPT_QUEUE, with a key made from the server's
 * address. That task is due in a month and expires at once, so no consumer gets it.
 *
 * Text format: "tarry import 1 <server>\n", then "<id> <stamp> <hash>\n" for each item. */
#ifndef TARRY_TOOL_IMPORT_RECEIPT_H
#define TARRY_TOOL_IMPORT_RECEIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

#define RECEIPT_QUEUE "tarry-import"
#define RECEIPT_DUE_MS (30ull * 24 * 3600 * 1000)
#define RECEIPT_SERVER_SIZE 64u
#define RECEIPT_ITEMS_MAX 8192u

/* Data that identify a job of beanstalkd or a member of a Redis sorted set. */
struct mark {
    uint64_t id;    /* beanstalkd: id of the job; Redis: 0 */
    uint64_t stamp; /* beanstalkd: Unix seconds when it was put; Redis: hash of the score */
    uint64_t hash;  /* hash of the payload */
};

struct receipt {
    char server[RECEIPT_SERVER_SIZE]; /* beanstalkd: id of the server's process, without spaces */
    struct mark *marks;               /* owned */
    size_t count;
};

void receipt_begin(struct text *out, const char *server);
void receipt_add(struct text *out, const struct mark *mark);
/* Parses the text of a receipt. Returns false if `text` is not a receipt. The caller passes `out` to receipt_deinit in
 * both cases. */
bool receipt_parse(struct receipt *out, const char *text, size_t size);
void receipt_deinit(struct receipt *receipt);
/* Returns whether the receipt has an item with this id and hash, and a stamp that differs by at most `slack`. */
bool receipt_has(const struct receipt *receipt, const struct mark *mark, uint64_t slack);

#endif
