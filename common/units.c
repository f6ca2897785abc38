/* units.c: see units.h. Overflow is an error; values never wrap around. */
#include "units.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

/* Largest first: a duration names its units in this order. */
static const struct unit duration_units[] = {
    {"d", 24ull * 3600 * 1000}, {"h", 3600ull * 1000}, {"m", 60ull * 1000}, {"s", 1000}, {"ms", 1},
};
#define DURATION_UNITS (sizeof(duration_units) / sizeof(duration_units[0]))

static const struct unit size_units[] = {
    {"TiB", 1ull << 40}, {"GiB", 1ull << 30}, {"MiB", 1ull << 20}, {"KiB", 1ull << 10}, {"B", 1},
};
#define SIZE_UNITS (sizeof(size_units) / sizeof(size_units[0]))

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Parses digits and moves `*text` behind them. */
static bool number_parse(const char **text, uint64_t *out) {
    const char *at = *text;
    if (!is_digit(*at)) return false;
    uint64_t value = 0;
    for (; is_digit(*at); at++) {
        if (__builtin_mul_overflow(value, 10u, &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) return false;
    }
    *text = at;
    *out = value;
    return true;
}

/* Returns the number of consecutive letters at `text`. */
static size_t unit_size(const char *text) {
    size_t size = 0;
    while ((text[size] >= 'a' && text[size] <= 'z') || (text[size] >= 'A' && text[size] <= 'Z')) size++;
    return size;
}

static const struct unit *unit_find(const struct unit *units, size_t count, const char *text, size_t size) {
    for (size_t i = 0; i < count; i++) {
        if (strlen(units[i].name) == size && memcmp(units[i].name, text, size) == 0) return &units[i];
    }
    return NULL;
}

bool duration_parse(const char *text, uint64_t *out_ms) {
    if (strcmp(text, "0") == 0) {
        *out_ms = 0;
        return true;
    }
    if (*text == '\0') return false;
    uint64_t total = 0;
    const struct unit *previous = NULL;
    while (*text != '\0') {
        uint64_t value = 0;
        if (!number_parse(&text, &value)) return false;
        size_t size = unit_size(text);
        bool is_min = size == 3 && memcmp(text, "min", 3) == 0; /* "min" is another name of the unit "m" */
        const struct unit *unit = unit_find(duration_units, DURATION_UNITS, is_min ? "m" : text, is_min ? 1 : size);
        if (unit == NULL || (previous != NULL && unit <= previous)) return false;
        if (__builtin_mul_overflow(value, unit->factor, &value)) return false;
        if (__builtin_add_overflow(total, value, &total)) return false;
        previous = unit;
        text += size;
    }
    *out_ms = total;
    return true;
}

static const struct {
    const char *name;
    uint64_t ms;
} rate_periods[] = {{"s", 1000}, {"min", 60000}, {"h", 3600000}};
#define RATE_PERIODS (sizeof rate_periods / sizeof rate_periods[0])

bool rate_parse(const char *text, uint32_t *out_count, uint64_t *out_period_ms) {
    uint64_t count = 0, period_ms = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && count <= UINT32_MAX; at++) count = count * 10 + (uint64_t)(*at - '0');
    if (at == text || *at != '/' || count > UINT32_MAX) return false;
    at++;
    size_t i = 0;
    while (i < RATE_PERIODS && strcmp(at, rate_periods[i].name) != 0) i++;
    if (i < RATE_PERIODS)
        period_ms = rate_periods[i].ms;
    else if (!duration_parse(at, &period_ms) || period_ms == 0)
        return false;
    *out_count = (uint32_t)count;
    *out_period_ms = period_ms;
    return true;
}

const char *duration_format(uint64_t ms, char out[UNITS_TEXT_SIZE]) {
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < DURATION_UNITS; i++) {
        uint64_t value = ms / duration_units[i].factor;
        if (value == 0) continue;
        ms %= duration_units[i].factor;
        used += (size_t)snprintf(out + used, UNITS_TEXT_SIZE - used, "%" PRIu64 "%s", value, duration_units[i].name);
    }
    if (used == 0) snprintf(out, UNITS_TEXT_SIZE, "0ms");
    return out;
}

const char *rate_format(uint32_t count, uint64_t period_ms, char out[UNITS_TEXT_SIZE]) {
    char duration[UNITS_TEXT_SIZE];
    size_t i = 0;
    if (period_ms == 0) period_ms = 1000;
    while (i < RATE_PERIODS && period_ms != rate_periods[i].ms) i++;
    const char *period = i < RATE_PERIODS ? rate_periods[i].name : duration_format(period_ms, duration);
    int size = snprintf(out, UNITS_TEXT_SIZE, "%u/%s", count, period);
    assert(size > 0 && size < UNITS_TEXT_SIZE);
    return out;
}

bool size_parse(const char *text, uint64_t *out_bytes) {
    uint64_t value = 0;
    if (!number_parse(&text, &value)) return false;
    if (*text != '\0') {
        const struct unit *unit = unit_find(size_units, SIZE_UNITS, text, strlen(text));
        if (unit == NULL) return false;
        if (__builtin_mul_overflow(value, unit->factor, &value)) return false;
    }
    *out_bytes = value;
    return true;
}

const char *size_format(uint64_t bytes, char out[UNITS_TEXT_SIZE]) {
    const struct unit *unit = &size_units[SIZE_UNITS - 1];
    for (size_t i = 0; i < SIZE_UNITS && bytes != 0; i++) {
        if (bytes % size_units[i].factor == 0) {
            unit = &size_units[i];
            break;
        }
    }
    snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64 "%s", bytes / unit->factor, unit->name);
    return out;
}
