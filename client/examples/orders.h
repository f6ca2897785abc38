/* orders.h: the orders of a day, from a file or made up. */
#ifndef ORDERS_H
#define ORDERS_H

#include <stddef.h>
#include <stdint.h>

struct order {
    char id[64];
    uint64_t placed_s;  /* second of the day */
    int64_t paid_after; /* seconds after it was placed; -1: never */
};

struct orders {
    struct order *items;
    size_t count;
    size_t capacity;
};

/* Reads `order_id,placed_at,paid_at,status` (Unix seconds; paid_at may be empty). Years of orders become one day: only
 * the time of day at which an order was placed is kept, and how long its payment took. 0, or -1 after a message on
 * standard error that names the line. */
int orders_read(struct orders *orders, const char *path);
/* The same orders for the same seed. 0, or -1: out of memory. */
int orders_make_up(struct orders *orders, uint64_t seed, size_t count);
void orders_free(struct orders *orders);

#endif
