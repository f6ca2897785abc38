/* refusals.h: what an auditor is told of refusals: clients that were not let in, and clients that were denied what
 * takes the role admin or peer (tarry.proto, AccessRefused). Counted by address, principal and reason, in a table that
 * does not grow.
 *
 * However many come, and from wherever: of one row a record is made at most every REFUSALS_AGAIN_MS, and no more than
 * REFUSALS_TOLD_MAX in that time of all, which are some 10 MB of log a day. The first of an address is told at once.
 * What finds no row is counted in one row without an address. One thread. */
#ifndef TARRY_ACCESS_REFUSALS_H
#define TARRY_ACCESS_REFUSALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failures.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

#define REFUSALS_ROWS 256u
#define REFUSALS_AGAIN_MS 60000u
#define REFUSALS_TOLD_MAX 64u

struct refusal {
    char address[FAILURES_ADDRESS_SIZE]; /* failures_address's; "": many */
    char principal[PRINCIPAL_SIZE_MAX + 1];
    Tarry__AccessRefused__Why why;
    const char *what;  /* ROLE_LACKS: the rule's name, static; otherwise "" */
    uint64_t count;    /* since it was told last; 0: nothing */
    uint64_t first_ms; /* of the count */
    uint64_t last_ms;
    uint64_t told_ms; /* 0: never */
};

struct refusals {
    struct refusal rows[REFUSALS_ROWS];
    struct refusal others;
    size_t turn; /* the row that is told next, if it has anything */
    uint64_t window_ms;
    unsigned told; /* since window_ms */
};

/* `count` more of them, from `peer` (net/caller.h). `principal`: "": not known. `now_ms`: a clock that does not go
 * back, and is not 0. True: it is to be told at once. */
bool refusals_add(struct refusals *refusals, Tarry__AccessRefused__Why why, const char *peer, const char *principal,
                  const char *what, uint64_t count, uint64_t now_ms);
/* What is to be told; `all`: however short a time ago a row was told, but never more in all. Returns how many. */
size_t refusals_take(struct refusals *refusals, uint64_t now_ms, bool all, struct refusal out[REFUSALS_TOLD_MAX]);

#endif
