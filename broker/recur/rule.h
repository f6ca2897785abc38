/* rule.h: when a recurrence fires. Pure: the result depends on the arguments and on tzdata (zone.h) only.
 *
 *   text of a cron expression or RRULE ──► rule_make ──► rule_next(after) ──► the next instant
 *
 * A rule names local times of a zone. An interval (`every_ms`) counts elapsed time. All instants are whole seconds for
 * cron and RRULE. A call looks at RULE_LOOKS_MAX days and times at most, so a text that never matches ends too
 * (CALM-1). */
#ifndef TARRY_RECUR_RULE_H
#define TARRY_RECUR_RULE_H

#include "tarry_limits.h"
#include "zone.h"

#define RULE_LOOKS_MAX 20000u     /* maximum number of days, hours, minutes and seconds that one search visits */
#define RULE_EVERY_MIN_MS 1000ull /* shortest interval */
#define RULE_LIST_MAX 64u         /* maximum number of values in BYDAY or BYSETPOS */

enum rule_days { RULE_DAYS_NOT_SAID, RULE_DAYS_AND, RULE_DAYS_OR };
enum rule_fold { RULE_FOLD_DEFAULT, RULE_FOLD_FIRST, RULE_FOLD_BOTH };

struct rule_spec {     /* exactly one of cron, rrule and every_ms is given */
    const char *cron;  /* "": none */
    const char *rrule; /* "": none */
    uint64_t every_ms; /* 0: none */
    const char *zone;  /* "": UTC */
    uint64_t from_ms;  /* no occurrence is before this time. For an RRULE it is DTSTART, for an interval the first
                          occurrence; it must not be 0 for these two kinds */
    uint64_t until_ms; /* no occurrence is after this time; 0: no end */
    bool skip_gap; /* if a local time does not exist: true: no occurrence; false: an occurrence at the end of the gap */
    enum rule_fold fold;
    enum rule_days days;
};

enum rule_freq { FREQ_SECONDLY, FREQ_MINUTELY, FREQ_HOURLY, FREQ_DAILY, FREQ_WEEKLY, FREQ_MONTHLY, FREQ_YEARLY };

struct rule {
    const struct zone *zone;
    uint64_t every_ms; /* time between two occurrences; 0: the rule names local times */
    uint64_t from_ms;
    uint64_t until_ms; /* no occurrence is after this time; 0: no end */
    uint64_t count;    /* COUNT of an RRULE; 0: not given */
    bool skip_gap;
    bool both; /* a local time that exists twice causes two occurrences */
    bool is_rrule;
    /* Times of the day, as bits. */
    uint64_t seconds;
    uint64_t minutes;
    uint32_t hours;
    /* Days */
    uint16_t months; /* bit 1: January … bit 12: December */
    bool has_month_days;
    bool has_week_days;
    uint32_t month_days;     /* days of the month, as bits 1 to 31 */
    uint32_t month_days_end; /* bit 1: the last day of the month, bit 2: the one before, … */
    uint8_t days_of_week;    /* bit 0: Monday … bit 6: Sunday, any of them in the period */
    struct rule_day {
        int16_t nth; /* the nth of this weekday within the month or the year, from 1; negative: counted from the end */
        uint8_t day; /* 0: Monday */
    } nth_days[RULE_LIST_MAX];
    uint32_t nth_day_count;
    bool any_day; /* cron: a day matches by its day of the month or by its day of the week (`--days or`) */
    /* RRULE */
    enum rule_freq freq;
    uint32_t interval;
    int64_t start_days; /* local date of from_ms, in days since 1970-01-01 (civil_days) */
    uint32_t start_of_day_s;
    uint8_t week_start;        /* 0: Monday */
    uint64_t year_days[6];     /* days of the year, as bits 1 to 366 */
    uint64_t year_days_end[6]; /* bit 1: the last day of the year, bit 2: the day before, … */
    bool has_year_days;
    uint64_t weeks;     /* weeks of the year, as bits 1 to 53 */
    uint64_t weeks_end; /* bit 1: the last week of the year, bit 2: the week before, … */
    int16_t set_positions[RULE_LIST_MAX];
    uint32_t set_position_count;
};

struct rule_problem {
    char text[192]; /* one sentence; names the column if the error is in the text */
};

/* Parses and checks. Returns false with a sentence in *out_problem. */
bool rule_make(const struct rule_spec *spec, struct rule *out, struct rule_problem *out_problem);
/* Returns the first occurrence after `after_ms`, in Unix milliseconds. 0: there is none within DUE_AHEAD_MAX_MS or
 * before the rule's end, or the search gave up. *looks: number of days and times that the search may still visit, at
 * most RULE_LOOKS_MAX. The search reduces it, to 0 if it gives up. */
uint64_t rule_next(const struct rule *rule, uint64_t after_ms, uint32_t *looks);

#endif
