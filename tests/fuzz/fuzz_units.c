/* fuzz_units.c: durations, sizes and times as users write them, compared with a second parser that uses wider
 * numbers. An accepted text is formatted to a text with the same meaning; every number can be written and read back.
 *
 * The input: 8 bytes of a number, one that selects a time zone, and a text that is tried as each of the three. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fuzz.h"
#include "input.h"
#include "rfc3339.h"
#include "units.h"

typedef unsigned __int128 wide;

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit durations[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
static const struct unit sizes[] = {
    {"TiB", 1ull << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Parses one number and its unit. Stores the value, and the index of the unit, or 5 if there is none. Returns false if
 * there is no number, or if it exceeds 64 bits. */
static bool read_part(const char **at, const struct unit units[5], wide *out, size_t *out_unit) {
    wide number = 0;
    size_t size = 0;
    if (!is_digit(**at)) return false;
    for (; is_digit(**at) && number <= UINT64_MAX; (*at)++) number = number * 10 + (unsigned)(**at - '0');
    while (((*at)[size] | 32) >= 'a' && ((*at)[size] | 32) <= 'z') size++;
    size_t unit = 0;
    while (unit < 5 && (strlen(units[unit].name) != size || strncmp(units[unit].name, *at, size) != 0)) unit++;
    *at += size;
    *out = number * (unit < 5 ? units[unit].factor : 1);
    *out_unit = unit;
    return number <= UINT64_MAX && (unit < 5 || size == 0);
}

static bool read_duration(const char *text, wide *out) {
    wide total = 0, part = 0;
    size_t unit = 0, next = 0;
    if (strcmp(text, "0") == 0) return *out = 0, true;
    if (*text == 0) return false;
    for (; *text != 0; next = unit + 1) {
        if (!read_part(&text, durations, &part, &unit) || unit == 5 || unit < next) return false;
        total += part;
    }
    *out = total;
    return total <= UINT64_MAX;
}

static bool read_size(const char *text, wide *out) {
    size_t unit;
    return read_part(&text, sizes, out, &unit) && *text == 0 && *out <= UINT64_MAX;
}

static void number_survives(uint64_t number) {
    char text[UNITS_TEXT_SIZE];
    uint64_t again = ~number;
    assert(duration_parse(duration_format(number, text), &again) && again == number);
    again = ~number;
    assert(size_parse(size_format(number, text), &again) && again == number);
}

static void try_units(const char *text) {
    const uint64_t untouched = 0x5555;
    uint64_t got = untouched;
    wide wanted = 0;
    bool fine = duration_parse(text, &got);
    bool right = read_duration(text, &wanted);
    assert(fine == right && got == (fine ? (uint64_t)wanted : untouched));
    if (fine) number_survives(got);
    got = untouched;
    fine = size_parse(text, &got);
    right = read_size(text, &wanted);
    assert(fine == right && got == (fine ? (uint64_t)wanted : untouched));
    if (fine) number_survives(got);
}

/* Returns the time in ms, computed with the calendar of the C library. If the text has more than three digits after the
 * point, the time is rounded up. */
static uint64_t calendar_ms(const char *text) {
    struct tm tm = {.tm_year = atoi(text) - 1900, .tm_mon = atoi(text + 5) - 1, .tm_mday = atoi(text + 8)};
    tm.tm_hour = atoi(text + 11), tm.tm_min = atoi(text + 14), tm.tm_sec = atoi(text + 17);
    const char *at = text + 19;
    int64_t ms = 0, scale = 100;
    if (*at == '.') {
        bool more = false;
        for (at++; is_digit(*at); at++, scale /= 10) {
            ms += (*at - '0') * scale;
            more = more || (scale == 0 && *at != '0');
        }
        ms += more;
    }
    int64_t offset_min = *at == '+' || *at == '-' ? atoi(at + 1) * 60 + atoi(at + 4) : 0;
    if (*at == '-') offset_min = -offset_min;
    return (uint64_t)(((int64_t)timegm(&tm) - offset_min * 60) * 1000 + ms);
}

static void time_survives(uint64_t ms) {
    char text[RFC3339_TEXT_SIZE];
    uint64_t again = ~ms;
    rfc3339_format(ms, text);
    assert(strlen(text) < sizeof(text));
    size_t size = strlen(text);
    if (size > 2 && strcmp(text + size - 2, "ms") == 0) return; /* a time after the year 9999 is printed in ms */
    assert(rfc3339_parse(text, &again) == NULL && again == ms);
}

static void try_time(const char *text) {
    uint64_t ms = 0x5555;
    const char *problem = rfc3339_parse(text, &ms);
    if (problem != NULL) {
        assert(ms == 0x5555 && strlen(problem) > 10);
        return;
    }
    assert(ms == calendar_ms(text));
    time_survives(ms);
}

static void set_zone(unsigned number) {
    /* Rules that need no zoneinfo files. The third is 44 min 30 s behind UTC, like Liberia until 1972. */
    static const char *const zones[] = {"UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "LRT0:44:30", "AAA-14", "ZZZ12"};
    static unsigned current = UINT32_MAX;
    number %= sizeof(zones) / sizeof(zones[0]);
    if (number == current) return;
    setenv("TZ", zones[number], 1);
    tzset();
    current = number;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 256) return 0;
    struct input input = {data, size};
    uint64_t number = input_number(&input, 8);
    set_zone(input_byte(&input));
    number_survives(number);
    time_survives(number >> (number & 31)); /* every magnitude */
    char *text = malloc(input.size + 1); /* memory of exactly the right size, so that a read past the end is detected */
    if (text == NULL) abort();
    if (input.size > 0) memcpy(text, input.data, input.size);
    text[input.size] = 0;
    try_units(text);
    try_time(text);
    free(text);
    return 0;
}
