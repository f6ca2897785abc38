/* units.h: durations and sizes as people write them.
 *
 * A duration is one or more numbers with a unit, the larger unit first, each unit once: "250ms", "30s", "30m", "1h30m",
 * "2d". A size is one number with an optional unit: "4096", "64KiB", "64MiB", "1GiB". Nothing else is accepted: no
 * spaces, no signs, no fractions, no bare number for a duration save "0". Pure functions, no locale. */
#ifndef TARRY_PROTO_UNITS_H
#define TARRY_PROTO_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for every result of the format functions, terminator included. */
#define UNITS_TEXT_SIZE 48

/* False, `*out_ms` untouched, if `text` is no duration or does not fit into 64 bits of milliseconds. */
bool duration_parse(const char *text, uint64_t *out_ms);
/* "1h30m", "250ms", "0ms"; what duration_parse reads back to the same value. Returns `out`. */
const char *duration_format(uint64_t ms, char out[UNITS_TEXT_SIZE]);

/* False, `*out_bytes` untouched, if `text` is no size or does not fit into 64 bits. KB, MB, GB are refused: people mean
 * two different things by them. "B" alone is fine. */
bool size_parse(const char *text, uint64_t *out_bytes);
/* The largest unit that divides it: "64MiB", "1500B". Returns `out`. */
const char *size_format(uint64_t bytes, char out[UNITS_TEXT_SIZE]);

#endif
