/* rule.h: when a recurrence fires. Pure: the result depends on the arguments and on tzdata (zone.h) only.
 *
 *   text of a cron expression or RRULE ──► rule_make ──► rule_next(after) ──► the next instant
 *
 * A rule names local times of a zone. An interval (`every_ms`) counts elapsed time. All instants are whole seconds for
 * cron and RRULE. Each call does a bounded amount of work (RULE_LOOKS_MAX), whatever the text says (CALM-1). */
#ifndef TARRY_RECUR_RULE_H
#define TARRY_RECUR_RULE_H

#include "tarry_limits.h"
#include "zone.h"

#define RULE_LOOKS_MAX 20000u     /* days, hours, minutes or seconds that one search visits */
#define RULE_EVERY_MIN_MS 1000ull /* shortest interval */
#define RULE_LIST_MAX 64u         /* values in BYDAY or BYSETPOS */

enum rule_days { RULE_DAYS_NOT_SAID, RULE_DAYS_AND, RULE_DAYS_OR };
enum rule_fold { RULE_FOLD_DEFAULT, RULE_FOLD_FIRST, RULE_FOLD_BOTH };

struct rule_spec {     /* exactly one of cron, rrule, every_ms */
    const char *cron;  /* "": none */
    const char *rrule; /* "": none */
    uint64_t every_ms; /* 0: none */
    const char *zone;  /* "": UTC */
    uint64_t from_ms;  /* no occurrence before; an RRULE's DTSTART, an interval's first instant. Not 0 for these two */
    uint64_t until_ms; /* no occurrence after; 0: no end */
    bool skip_gap;     /* a local time that does not exist: true: no occurrence; false: at the end of the gap */
    enum rule_fold fold;
    enum rule_days days;
};

enum rule_freq { FREQ_SECONDLY, FREQ_MINUTELY, FREQ_HOURLY, FREQ_DAILY, FREQ_WEEKLY, FREQ_MONTHLY, FREQ_YEARLY };

struct rule {
    const struct zone *zone;
    uint64_t every_ms; /* 0: local times decide */
    uint64_t from_ms;
    uint64_t until_ms; /* 0: no end */
    uint64_t count;    /* COUNT of an RRULE; 0: not given */
    bool skip_gap;
    bool both; /* a local time that occurs twice fires twice */
    bool is_rrule;
    /* Times of the day, as bits. */
    uint64_t seconds;
    uint64_t minutes;
    uint32_t hours;
    /* Days */
    uint16_t months; /* bit 1 to 12 */
    bool has_month_days;
    bool has_week_days;
    uint32_t month_days;     /* bit 1 to 31 */
    uint32_t month_days_end; /* bit 1: the last day of the month, bit 2: the one before, … */
    uint8_t days_of_week;    /* bit 0: Monday … bit 6: Sunday, any of them in the period */
    struct rule_day {
        int16_t nth; /* the nth of the month or year; negative: from the end */
        uint8_t day; /* 0: Monday */
    } nth_days[RULE_LIST_MAX];
    uint32_t nth_day_count;
    bool any_day; /* cron: day of month or day of week suffices (`--days or`) */
    /* RRULE */
    enum rule_freq freq;
    uint32_t interval;
    int64_t start_days; /* local date of from_ms, as civil_days */
    uint32_t start_of_day_s;
    uint8_t week_start;        /* 0: Monday */
    uint64_t year_days[6];     /* bit 1 to 366 */
    uint64_t year_days_end[6]; /* the same from the end of the year */
    bool has_year_days;
    uint64_t weeks;     /* bit 1 to 53 */
    uint64_t weeks_end; /* the same from the end of the year */
    int16_t set_positions[RULE_LIST_MAX];
    uint32_t set_position_count;
};

struct rule_problem {
    char text[192]; /* one sentence; names the column if the text has the error */
};

/* Parses and checks. Returns false with a sentence in *out_problem. */
bool rule_make(const struct rule_spec *spec, struct rule *out, struct rule_problem *out_problem);
/* Returns the first occurrence after `after_ms`, in Unix milliseconds; 0: none within DUE_AHEAD_MAX_MS, before the
 * end, or within the work. *looks: days and times that the search may still visit, RULE_LOOKS_MAX at most; it is
 * reduced, and is 0 if the search gave up. */
uint64_t rule_next(const struct rule *rule, uint64_t after_ms, uint32_t *looks);

#endif
