/* rfc3339.h: times as people write them. */
#ifndef TARRY_PROTO_RFC3339_H
#define TARRY_PROTO_RFC3339_H

#include <stdint.h>

/* Enough for every result, terminator included. */
#define RFC3339_TEXT_SIZE 40

/* NULL if fine, else a sentence that says what is wrong, and *out_ms is untouched. Fractions beyond a millisecond are
 * rounded up (TIME-1: never early). The offset is required: a time without one means something else elsewhere.
 * Second 60 (a leap second) is the first of the next minute. Pure. */
const char *rfc3339_parse(const char *text, uint64_t *out_ms);

/* "2026-11-21T04:00:00.123+01:00": local time with its offset, milliseconds always. Uses $TZ. Returns `out`. */
char *rfc3339_format(uint64_t ms, char out[RFC3339_TEXT_SIZE]);

#endif
