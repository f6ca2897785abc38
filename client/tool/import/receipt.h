/* receipt.h: what an import had in hand, so that a repeated one after a kill takes nothing twice.
 *
 * Tasks and the receipt that names them are one atomic commit: either both are durable or neither is. What the receipt
 * names is at Tarry, and only to be removed at the server; so it is never scheduled a second time, not even if a
 * consumer has long acked the first. It is a task in the queue RECEIPT_QUEUE, under a key made of the server's
 * address; it is due in a month, to be delivered to no consumer, and expires then.
 *
 * As text: "tarry import 1 <server>\n", then "<id> <stamp> <hash>\n" for each. */
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

/* How a job, or a member, is known again. */
struct mark {
    uint64_t id;    /* beanstalkd: the job's; Redis: 0 */
    uint64_t stamp; /* beanstalkd: Unix seconds when it was put; Redis: hash of the score */
    uint64_t hash;  /* of the payload */
};

struct receipt {
    char server[RECEIPT_SERVER_SIZE]; /* beanstalkd: the id of its process; no spaces */
    struct mark *marks;               /* owned */
    size_t count;
};

void receipt_begin(struct text *out, const char *server);
void receipt_add(struct text *out, const struct mark *mark);
/* False: it is none. `out` goes to receipt_deinit in any case. */
bool receipt_parse(struct receipt *out, const char *text, size_t size);
void receipt_deinit(struct receipt *receipt);
/* Whether it names it; stamps may differ by `slack`. */
bool receipt_has(const struct receipt *receipt, const struct mark *mark, uint64_t slack);

#endif
