/* zone.h: time zones of the system's tzdata, as tables of transitions.
 *
 * GLib reads the zone's file once per process (DESIGN.md, Dependencies). A zone never changes afterwards, so any thread
 * may use it without a lock. A newer tzdata takes effect with the next start of the process. */
#ifndef TARRY_RECUR_ZONE_H
#define TARRY_RECUR_ZONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zone_span {    /* a time in which the zone's offset does not change */
    int64_t start_s;  /* start in Unix seconds; INT64_MIN: no earlier span */
    int64_t end_s;    /* end in Unix seconds, exclusive; INT64_MAX: no later span */
    int32_t offset_s; /* local time minus UTC */
    int32_t before_s; /* offset of the previous span; equal to offset_s if there is no previous span */
};

struct zone;

/* Returns the zone, for example "Europe/Berlin"; NULL: tzdata has no such zone. The zone is never freed. Thread-safe.
 * The first call for a name reads a file. */
const struct zone *zone_find(const char *name);
const char *zone_name(const struct zone *zone);
/* Returns the span that contains the instant. */
struct zone_span zone_span_at(const struct zone *zone, int64_t unix_s);
/* Version of tzdata, for example "2025b"; "": not known. Read once per process. */
const char *zone_data_version(void);

#define ZONE_TIME_SIZE 32u /* size of a text such as "2026-11-28T09:00:00+08:00", with space for its NUL */
/* Writes an instant as RFC 3339 in the zone's local time. */
void zone_format(const struct zone *zone, int64_t unix_s, char out[ZONE_TIME_SIZE]);

/* Convert a civil date to days since 1970-01-01, and back. `month`: 1 to 12. */
int64_t civil_days(int64_t year, unsigned month, unsigned day);
struct civil {
    int64_t year;
    unsigned month; /* month of the year, 1 to 12 */
    unsigned day;   /* day of the month, 1 to 31 */
};
struct civil civil_of(int64_t days);
bool civil_is_leap(int64_t year);
unsigned civil_month_days(int64_t year, unsigned month);

#endif
