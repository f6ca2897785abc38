/* ledger.h: the independent book of the demonstration. It knows what the shop did and what it was told, and judges:
 *
 *   - early: closed before its limit had passed since it was placed
 *   - broken: closed although its payment had been accepted (a cancel answered "cancelled, deliveries 0")
 *   - lost: neither paid nor closed in the end
 *   - duplicate: closed more than once, which at-least-once delivery allows (a consumer died between work and ack)
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
    size_t placed; /* their closing is scheduled, durably */
    size_t paid;   /* accepted */
    size_t late;   /* payments refused because the closing had won */
    size_t closed; /* orders, each once */
    size_t duplicates;
    size_t early;
    size_t broken;
    size_t lost;    /* not settled (yet) */
    size_t refused; /* answers that should not be */
    double lateness_p50_ms;
    double lateness_p99_ms;
    double lateness_max_ms;
};

/* `limit_us`: from placing to closing, in real time. NULL: out of memory, or two orders of one id (said on standard
 * error). */
struct ledger *ledger_new(const struct orders *orders, uint64_t limit_us);
void ledger_free(struct ledger *ledger);

/* The shop is about to schedule the closing. */
void ledger_submitted(struct ledger *ledger, size_t order, uint64_t now_us);
/* It is scheduled. */
void ledger_placed(struct ledger *ledger, size_t order);
/* The payment was accepted; `deliveries`: how often the closing had been handed out before. */
void ledger_paid(struct ledger *ledger, size_t order, uint32_t deliveries);
/* The payment came too late. */
void ledger_late(struct ledger *ledger, size_t order);
/* An answer that should not be, with its sentence. */
void ledger_refused(struct ledger *ledger, const char *what, size_t order, const char *message);
/* A consumer says that it closed this order. */
void ledger_closed(struct ledger *ledger, const char *id, uint64_t received_us, double lateness_ms);

bool ledger_is_settled(struct ledger *ledger);
void ledger_totals(struct ledger *ledger, struct ledger_totals *out);

#endif
