/* orders.c: see orders.h. */
#include "orders.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_S 86400

static struct order *orders_add(struct orders *orders) {
    if (orders->count == orders->capacity) {
        size_t capacity = orders->capacity == 0 ? 1024 : orders->capacity * 2;
        struct order *items = realloc(orders->items, capacity * sizeof(*items));
        if (items == NULL) {
            fprintf(stderr, "order_timeout: out of memory\n");
            return NULL;
        }
        orders->items = items;
        orders->capacity = capacity;
    }
    struct order *order = &orders->items[orders->count++];
    memset(order, 0, sizeof(*order));
    return order;
}

/* Parses Unix seconds; the whole text must be a number. */
static int parse_seconds(const char *text, int64_t *out_seconds) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || value < 0) return -1;
    *out_seconds = value;
    return 0;
}

/* Parses one line. Returns NULL, or the error. */
static const char *parse_line(char *line, struct order *out) {
    char *rest = line, *id = strsep(&rest, ","), *placed = strsep(&rest, ","), *paid = strsep(&rest, ",");
    if (paid == NULL) return "fewer than three columns";
    if (id[0] == 0 || strlen(id) >= sizeof(out->id)) return "the order's id is empty or too long";
    int64_t placed_at, paid_at;
    if (parse_seconds(placed, &placed_at) != 0) return "placed_at is not a number of seconds";
    out->paid_after = -1;
    if (paid[0] != 0) {
        if (parse_seconds(paid, &paid_at) != 0) return "paid_at is not a number of seconds";
        out->paid_after = paid_at > placed_at ? paid_at - placed_at : 0;
    }
    snprintf(out->id, sizeof(out->id), "%s", id);
    out->placed_s = (uint64_t)(placed_at % DAY_S);
    return NULL;
}

int orders_read(struct orders *orders, const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "order_timeout: %s: %s\n", path, strerror(errno));
        return -1;
    }
    char *line = NULL;
    size_t size = 0, number = 0;
    int rv = 0;
    while (rv == 0 && getline(&line, &size, file) > 0) {
        line[strcspn(line, "\r\n")] = 0;
        if (number++ == 0 || line[0] == 0) continue; /* the line with the column names */
        struct order *order = orders_add(orders);
        const char *problem = order == NULL ? "out of memory" : parse_line(line, order);
        if (problem == NULL) continue;
        fprintf(stderr, "order_timeout: %s:%zu: %s\n", path, number, problem);
        rv = -1;
    }
    if (rv == 0 && orders->count == 0) {
        fprintf(stderr, "order_timeout: %s: no orders\n", path);
        rv = -1;
    }
    free(line);
    fclose(file);
    return rv;
}

/* splitmix64 */
static uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

static double random_unit(uint64_t *state) {
    return (double)(random_next(state) >> 11) / 9007199254740992.0;
}

/* Returns a random time from order to payment in seconds, or -1: 1.8 % of the orders are never paid. The distribution
 * is that of a real shop: a table of quantiles, with linear interpolation. */
static int64_t pay_time_s(uint64_t *state) {
    static const struct {
        double share, seconds;
    } quantiles[] = {{0.0, 20},    {0.1, 600},    {0.5, 1241},    {0.6, 2488},
                     {0.7, 31368}, {0.9, 129323}, {0.99, 360827}, {1.0, 900000}};
    if (random_unit(state) < 0.018) return -1;
    double share = random_unit(state);
    size_t i = 1;
    while (share > quantiles[i].share) i++;
    double part = (share - quantiles[i - 1].share) / (quantiles[i].share - quantiles[i - 1].share);
    return (int64_t)(quantiles[i - 1].seconds + part * (quantiles[i].seconds - quantiles[i - 1].seconds));
}

int orders_make_up(struct orders *orders, uint64_t seed, size_t count) {
    uint64_t state = seed;
    for (size_t i = 0; i < count; i++) {
        struct order *order = orders_add(orders);
        if (order == NULL) return -1;
        snprintf(order->id, sizeof(order->id), "order-%" PRIu64 "-%zu", seed, i + 1);
        /* More orders are placed in the evening than in the morning. The later of two random times has such a
         * distribution. */
        uint64_t a = random_next(&state) % DAY_S, b = random_next(&state) % DAY_S;
        order->placed_s = a > b ? a : b;
        order->paid_after = pay_time_s(&state);
    }
    return 0;
}

void orders_free(struct orders *orders) {
    free(orders->items);
    *orders = (struct orders){NULL, 0, 0};
}
