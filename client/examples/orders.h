/* orders.h: the orders of a day, read from a file or generated. */
#ifndef ORDERS_H
#define ORDERS_H

#include <stddef.h>
#include <stdint.h>

struct order {
    char id[64];
    uint64_t placed_s;  /* second of the day at which the order was placed */
    int64_t paid_after; /* seconds from placing to payment; -1: never paid */
};

struct orders {
    struct order *items;
    size_t count;
    size_t capacity;
};

/* Reads lines `order_id,placed_at,paid_at,status` (Unix seconds; paid_at may be empty). Orders of years become one
 * day: only the time of day and the time to payment are kept. 0, or -1 after a message on standard error with the
 * line number. */
int orders_read(struct orders *orders, const char *path);
/* Generates orders, the same for the same seed. 0, or -1: out of memory. */
int orders_make_up(struct orders *orders, uint64_t seed, size_t count);
void orders_free(struct orders *orders);

#endif
