/* ledger.h: independent record of the demonstration. It records what the shop did and which replies it got. It finds
 * these faults of an order:
 *
 *   - early: the order was closed before its time limit had passed
 *   - broken: the order was closed although its payment had been accepted. The shop accepts a payment if the reply to
 *     the cancel says "cancelled" with 0 deliveries.
 *   - lost: the order was neither paid nor closed in the end
 *   - duplicate: the order was closed more than once. At-least-once delivery allows this: a consumer may die after its
 *     work and before the ack.
 *
 * Times are CLOCK_MONOTONIC in microseconds, which all processes of a machine share. Thread-safe. */
#ifndef LEDGER_H
#define LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "orders.h"

struct ledger;

struct ledger_totals {
    size_t orders;
    size_t placed; /* orders whose closing is durably scheduled */
    size_t paid;   /* accepted payments */
    size_t late;   /* payments refused because the order was already closed */
    size_t closed; /* closed orders, each counted once */
    size_t duplicates;
    size_t early;
    size_t broken;
    size_t lost;    /* number of orders that are not paid and not closed (yet) */
    size_t refused; /* number of replies that must not occur */
    double lateness_p50_ms;
    double lateness_p99_ms;
    double lateness_max_ms;
};

/* Makes a ledger. `limit_us`: real time from placing to closing. NULL: out of memory, or two orders have the same id
 * (reported on standard error). */
struct ledger *ledger_new(const struct orders *orders, uint64_t limit_us);
void ledger_free(struct ledger *ledger);

/* Notes that the shop will schedule the closing. */
void ledger_submitted(struct ledger *ledger, size_t order, uint64_t now_us);
/* Notes that the closing is scheduled. */
void ledger_placed(struct ledger *ledger, size_t order);
/* Notes an accepted payment. `deliveries`: how often the closing had been delivered before. */
void ledger_paid(struct ledger *ledger, size_t order, uint32_t deliveries);
/* Notes a payment that came too late. */
void ledger_late(struct ledger *ledger, size_t order);
/* Notes a reply that must not occur, with its message. */
void ledger_refused(struct ledger *ledger, const char *what, size_t order, const char *message);
/* Notes that a consumer closed this order. */
void ledger_closed(struct ledger *ledger, const char *id, uint64_t received_us, double lateness_ms);

bool ledger_is_settled(struct ledger *ledger);
void ledger_totals(struct ledger *ledger, struct ledger_totals *out);

#endif
