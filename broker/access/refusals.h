/* refusals.h: counts refusals for the audit log: clients that were not admitted, and clients that were denied an
 * operation of the role admin or peer (tarry.proto, AccessRefused). A table of fixed size counts them by address,
 * principal and reason.
 *
 * Records are limited: one per row in REFUSALS_AGAIN_MS, and REFUSALS_TOLD_MAX in that time for all rows, about 10 MB
 * of log a day. The first refusal of an address is recorded at once. When the table is full, further ones share one row
 * without an address. One thread. */
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
    char address[FAILURES_ADDRESS_SIZE]; /* from failures_address; "": several addresses */
    char principal[PRINCIPAL_SIZE_MAX + 1];
    Tarry__AccessRefused__Why why;
    const char *what;  /* ROLE_LACKS: name of the rule, static; otherwise "" */
    uint64_t count;    /* refusals since the last record; 0: none */
    uint64_t first_ms; /* time of the first refusal in `count` */
    uint64_t last_ms;
    uint64_t told_ms; /* time of the last record; 0: never */
};

struct refusals {
    struct refusal rows[REFUSALS_ROWS];
    struct refusal others;
    size_t turn; /* index of the row that is recorded next, if its count is not 0 */
    uint64_t window_ms;
    unsigned told; /* number of records since window_ms */
};

/* Counts `count` more refusals of the client `peer` (net/caller.h). `principal`: "" if unknown. `now_ms`: a monotonic
 * clock, not 0. True: record it at once. */
bool refusals_add(struct refusals *refusals, Tarry__AccessRefused__Why why, const char *peer, const char *principal,
                  const char *what, uint64_t count, uint64_t now_ms);
/* Returns the number of refusals to record, which it writes to `out`. `all`: ignore REFUSALS_AGAIN_MS, but not the
 * total limit. */
size_t refusals_take(struct refusals *refusals, uint64_t now_ms, bool all, struct refusal out[REFUSALS_TOLD_MAX]);

#endif
