/* rfc3339.h: parses and formats times such as "2026-11-21T04:00:00.123+01:00" (RFC 3339). */
#ifndef TARRY_PROTO_RFC3339_H
#define TARRY_PROTO_RFC3339_H

#include <stdint.h>

/* Buffer size for every formatted time, including the terminating zero. */
#define RFC3339_TEXT_SIZE 40

/* Parses a time into Unix milliseconds. Returns NULL on success; otherwise an error sentence, and leaves *out_ms
 * unchanged. Rounds fractions of a millisecond up (TIME-1: never early). The offset is required, because a time without
 * offset is ambiguous. Second 60 (a leap second) is the first second of the next minute. */
const char *rfc3339_parse(const char *text, uint64_t *out_ms);

/* Formats local time (from $TZ) with its offset, always with milliseconds: "2026-11-21T04:00:00.123+01:00". Returns
 * `out`. */
char *rfc3339_format(uint64_t ms, char out[RFC3339_TEXT_SIZE]);

#endif
