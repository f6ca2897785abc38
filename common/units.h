/* units.h: parses and formats durations ("1h30m") and sizes ("64MiB").
 *
 * A duration is one or more numbers with a unit, the larger unit first, each unit at most once: "250ms", "30s", "30m",
 * "1h30m", "2d". A size is one number with an optional unit: "4096", "64KiB", "64MiB", "1GiB". Spaces, signs, fractions
 * and durations without a unit (except "0") are errors. Pure functions, independent of the locale. */
#ifndef TARRY_PROTO_UNITS_H
#define TARRY_PROTO_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Buffer size for every result of the format functions, including the terminating zero. */
#define UNITS_TEXT_SIZE 48

/* Parses a duration. False: `text` is not a duration or exceeds 64 bits of milliseconds; `*out_ms` is unchanged. */
bool duration_parse(const char *text, uint64_t *out_ms);
/* Formats a duration such as "1h30m", "250ms" or "0ms"; duration_parse returns the same value. Returns `out`. */
const char *duration_format(uint64_t ms, char out[UNITS_TEXT_SIZE]);

/* Parses a rate: a number, "/", and a second, minute or hour (s, min, h), or a duration: "600/min", "5/10s". False:
 * `text` is not a rate, or the period is 0; the outputs are unchanged. */
bool rate_parse(const char *text, uint32_t *out_count, uint64_t *out_period_ms);
/* Formats a rate such as "600/min"; rate_parse returns the same values. A period of 0 is one second. Returns `out`. */
const char *rate_format(uint32_t count, uint64_t period_ms, char out[UNITS_TEXT_SIZE]);

/* Parses a size. False: `text` is not a size or exceeds 64 bits; `*out_bytes` is unchanged. KB, MB and GB are refused,
 * because each has two common meanings. The unit "B" is allowed. */
bool size_parse(const char *text, uint64_t *out_bytes);
/* Formats a size with the largest unit that divides it: "64MiB", "1500B". Returns `out`. */
const char *size_format(uint64_t bytes, char out[UNITS_TEXT_SIZE]);

#endif
