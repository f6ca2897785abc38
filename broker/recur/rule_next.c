/* rule_next.c: the next occurrence of a rule.
 *
 * Time is a sequence of spans with a constant offset (zone.h). Within a span, local time and UTC differ by a constant,
 * so the search runs over local times. A span begins where the offset changes. If the clock was set forward, some local
 * times do not exist (a gap). If the clock was set back, some local times of the former span occur once more (a fold).
 */
#include "rule.h"

#define DAY_S 86400

/* A search, with its remaining work. */
struct search {
    const struct rule *rule;
    uint32_t looks; /* number of days and times that the search may still visit */
};

#define LOCAL_NONE INT64_MAX

static int64_t floor_div(int64_t a, int64_t b) {
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static int64_t modulo(int64_t a, int64_t b) {
    return a - floor_div(a, b) * b;
}

static uint8_t week_day(int64_t days) {
    return (uint8_t)modulo(days + 3, 7); /* 1970-01-01 was a Thursday */
}

static bool has_bit(const uint64_t *bits, unsigned value) {
    return bits[value / 64] >> (value % 64) & 1;
}

/* ---- days */

/* A day with everything that rules ask about it. */
struct day {
    int64_t days;
    struct civil date;
    unsigned of_year; /* from 1 */
    unsigned year_size;
    unsigned month_size;
    uint8_t week_day;
};

static struct day day_of(int64_t days) {
    struct day day = {.days = days, .date = civil_of(days), .week_day = week_day(days)};
    day.of_year = (unsigned)(days - civil_days(day.date.year, 1, 1)) + 1;
    day.year_size = civil_is_leap(day.date.year) ? 366 : 365;
    day.month_size = civil_month_days(day.date.year, day.date.month);
    return day;
}

static bool month_day_matches(const struct rule *rule, const struct day *day) {
    return (rule->month_days >> day->date.day & 1) ||
           (rule->month_days_end >> (day->month_size - day->date.day + 1) & 1);
}

static bool nth_matches(const struct rule *rule, const struct day *day) {
    /* A yearly RRULE that names no month (all months are allowed) counts the n-th weekday within the year. Otherwise it
     * is counted within the month. */
    const bool in_year = rule->is_rrule && rule->freq == FREQ_YEARLY && rule->months == 0x1ffe;
    const unsigned at = in_year ? day->of_year : day->date.day, size = in_year ? day->year_size : day->month_size;
    const int nth = (int)(at - 1) / 7 + 1, nth_from_end = -((int)(size - at) / 7 + 1);
    for (uint32_t i = 0; i < rule->nth_day_count; i++) {
        const struct rule_day *wanted = &rule->nth_days[i];
        if (wanted->day == day->week_day && (wanted->nth == nth || wanted->nth == nth_from_end)) return true;
    }
    return false;
}

static bool week_day_matches(const struct rule *rule, const struct day *day) {
    return (rule->days_of_week >> day->week_day & 1) || nth_matches(rule, day);
}

/* Returns the first day of week 1 of the year: the first week with at least four days in the year. */
static int64_t first_week(int64_t year, uint8_t week_start) {
    const int64_t first = civil_days(year, 1, 1);
    const int64_t into = modulo(week_day(first) - week_start, 7);
    return into <= 3 ? first - into : first - into + 7;
}

static bool week_matches(const struct rule *rule, const struct day *day) {
    int64_t year = day->date.year + 1;
    while (first_week(year, rule->week_start) > day->days) year--;
    const int64_t first = first_week(year, rule->week_start), next = first_week(year + 1, rule->week_start);
    const unsigned week = (unsigned)((day->days - first) / 7) + 1, count = (unsigned)((next - first) / 7);
    return (rule->weeks >> week & 1) || (rule->weeks_end >> (count - week + 1) & 1);
}

static bool is_in_interval(const struct rule *rule, const struct day *day) {
    if (rule->interval == 1) return true;
    const struct civil start = civil_of(rule->start_days);
    switch (rule->freq) {
    case FREQ_YEARLY:
        return modulo(day->date.year - start.year, rule->interval) == 0;
    case FREQ_MONTHLY:
        return modulo((day->date.year - start.year) * 12 + day->date.month - start.month, rule->interval) == 0;
    case FREQ_WEEKLY: {
        const int64_t week = floor_div(day->days + 3 - rule->week_start, 7);
        return modulo(week - floor_div(rule->start_days + 3 - rule->week_start, 7), rule->interval) == 0;
    }
    case FREQ_DAILY:
        return modulo(day->days - rule->start_days, rule->interval) == 0;
    default:
        return true; /* for an interval of hours, minutes or seconds every day matches; time_of_day checks the interval
                      */
    }
}

static bool day_matches(const struct rule *rule, const struct day *day) {
    if (!(rule->months >> day->date.month & 1)) return false;
    if (rule->any_day) return month_day_matches(rule, day) || week_day_matches(rule, day);
    if (rule->has_month_days && !month_day_matches(rule, day)) return false;
    if (rule->has_week_days && !week_day_matches(rule, day)) return false;
    if (!rule->is_rrule) return true;
    if (rule->has_year_days && !has_bit(rule->year_days, day->of_year) &&
        !has_bit(rule->year_days_end, day->year_size - day->of_year + 1))
        return false;
    if ((rule->weeks || rule->weeks_end) && !week_matches(rule, day)) return false;
    return is_in_interval(rule, day);
}

/* ---- times of a day */

/* Returns the lowest set bit that is not below `least`; 64: none. */
static unsigned next_bit(uint64_t bits, unsigned least) {
    if (least >= 64) return 64;
    bits &= ~0ull << least;
    return bits ? (unsigned)__builtin_ctzll(bits) : 64;
}

/* Returns the first second of the day, not before `least`, whose hour, minute and second are set; DAY_S: none. */
static uint32_t next_time(const struct rule *rule, uint32_t least) {
    unsigned hour = next_bit(rule->hours, least / 3600);
    unsigned minute = 0, second = 0;
    if (hour == least / 3600) {
        minute = next_bit(rule->minutes, least / 60 % 60);
        if (minute == least / 60 % 60) {
            second = next_bit(rule->seconds, least % 60);
            if (second < 60) return hour * 3600 + minute * 60 + second;
            minute = next_bit(rule->minutes, minute + 1);
        }
        if (minute < 60) return hour * 3600 + minute * 60 + next_bit(rule->seconds, 0);
        hour = next_bit(rule->hours, hour + 1);
    }
    if (hour >= 24) return DAY_S;
    return hour * 3600 + next_bit(rule->minutes, 0) * 60 + next_bit(rule->seconds, 0);
}

/* Returns the unit of a frequency shorter than a day, in seconds. */
static int64_t unit_s(enum rule_freq freq) {
    return freq == FREQ_HOURLY ? 3600 : freq == FREQ_MINUTELY ? 60 : 1;
}

/* Returns the first time of the day, not before `least`, that the rule names; DAY_S: none. */
static uint32_t time_of_day(struct search *search, const struct day *day, uint32_t least) {
    const struct rule *rule = search->rule;
    uint32_t time = next_time(rule, least);
    if (!rule->is_rrule || rule->freq >= FREQ_DAILY || rule->interval == 1) return time;
    const int64_t unit = unit_s(rule->freq);
    const int64_t start = (rule->start_days * DAY_S + rule->start_of_day_s) / unit;
    while (time < DAY_S && search->looks > 0) {
        search->looks--;
        const int64_t index = (day->days * DAY_S + time) / unit;
        const int64_t past = modulo(index - start, rule->interval);
        if (past == 0) return time;
        const int64_t next = (index + rule->interval - past) * unit - day->days * DAY_S;
        time = next < DAY_S ? next_time(rule, (uint32_t)next) : DAY_S;
    }
    return DAY_S;
}

/* ---- positions in a period (BYSETPOS) */

static int64_t period_start(const struct rule *rule, int64_t days) {
    const struct civil date = civil_of(days);
    switch (rule->freq) {
    case FREQ_YEARLY:
        return civil_days(date.year, 1, 1);
    case FREQ_MONTHLY:
        return civil_days(date.year, date.month, 1);
    case FREQ_WEEKLY:
        return days - modulo(week_day(days) - rule->week_start, 7);
    default:
        return days;
    }
}

static int64_t period_end(const struct rule *rule, int64_t start) {
    const struct civil date = civil_of(start);
    switch (rule->freq) {
    case FREQ_YEARLY:
        return civil_days(date.year + 1, 1, 1);
    case FREQ_MONTHLY:
        return start + civil_month_days(date.year, date.month);
    case FREQ_WEEKLY:
        return start + 7;
    default:
        return start + 1;
    }
}

static uint32_t nth_time(const struct rule *rule, uint32_t nth) {
    uint32_t time = next_time(rule, 0);
    for (; nth > 0; nth--) time = next_time(rule, time + 1);
    return time;
}

/* Returns the first local time, not before `least`, that BYSETPOS selects in the period. */
static int64_t in_period(struct search *search, int64_t start, int64_t end, int64_t least) {
    const struct rule *rule = search->rule;
    int64_t matching[366];
    uint32_t day_count = 0;
    for (int64_t days = start; days < end && search->looks > 0; days++) {
        search->looks--;
        const struct day day = day_of(days);
        if (day_matches(rule, &day)) matching[day_count++] = days;
    }
    const uint32_t times = (uint32_t)(__builtin_popcount(rule->hours) * __builtin_popcountll(rule->minutes) *
                                      __builtin_popcountll(rule->seconds));
    const int64_t count = (int64_t)day_count * times;
    int64_t best = LOCAL_NONE;
    for (uint32_t i = 0; i < rule->set_position_count; i++) {
        const int64_t position = rule->set_positions[i];
        const int64_t at = position > 0 ? position - 1 : count + position;
        if (at < 0 || at >= count) continue;
        const uint32_t nth = (uint32_t)(at % times);
        if (search->looks <= nth) return LOCAL_NONE;
        search->looks -= nth;
        const int64_t local = matching[at / times] * DAY_S + nth_time(rule, nth);
        if (local >= least && local < best) best = local;
    }
    return best;
}

static int64_t next_position(struct search *search, int64_t least, int64_t end) {
    int64_t start = period_start(search->rule, floor_div(least, DAY_S));
    while (start * DAY_S < end && search->looks > 0) {
        const int64_t after = period_end(search->rule, start);
        const int64_t local = in_period(search, start, after, least);
        if (local != LOCAL_NONE) return local;
        start = after;
    }
    return LOCAL_NONE;
}

/* ---- local times */

/* Returns the first local time in [least, end) that the rule names. */
static int64_t next_local(struct search *search, int64_t least, int64_t end) {
    const struct rule *rule = search->rule;
    if (rule->set_position_count) {
        const int64_t local = next_position(search, least, end);
        return local < end ? local : LOCAL_NONE;
    }
    int64_t days = floor_div(least, DAY_S);
    uint32_t time = (uint32_t)(least - days * DAY_S);
    for (; days * DAY_S < end && search->looks > 0; days++, time = 0) {
        search->looks--;
        const struct day day = day_of(days);
        if (!(rule->months >> day.date.month & 1)) { /* continue with the next month */
            days += day.month_size - day.date.day;
            continue;
        }
        if (!day_matches(rule, &day)) continue;
        const uint32_t found = time_of_day(search, &day, time);
        if (found == DAY_S) continue;
        const int64_t local = days * DAY_S + found;
        return local < end ? local : LOCAL_NONE;
    }
    return LOCAL_NONE;
}

/* Returns the first instant of the span, not before `least_s`, at which the rule fires; LOCAL_NONE: none. */
static int64_t next_in_span(struct search *search, const struct zone_span *span, int64_t least_s, int64_t end_s) {
    const struct rule *rule = search->rule;
    const int64_t end = (span->end_s < end_s ? span->end_s : end_s) + span->offset_s;
    int64_t least = least_s + span->offset_s;
    if (span->start_s != INT64_MIN) {
        /* Local time at the start of the span, computed with the offset of the former span. */
        const int64_t before = span->start_s + span->before_s;
        const bool is_gap = before < span->start_s + span->offset_s;
        if (is_gap && !rule->skip_gap && least_s == span->start_s &&
            next_local(search, before, span->start_s + span->offset_s) != LOCAL_NONE)
            return span->start_s;
        /* The clock was set back, so the local times below `before` occur for the second time. The rule fires only at
         * their first occurrence. */
        if (!is_gap && !rule->both && least < before) least = before;
    }
    const int64_t local = next_local(search, least, end);
    return local == LOCAL_NONE ? LOCAL_NONE : local - span->offset_s;
}

static uint64_t next_elapsed(const struct rule *rule, uint64_t after_ms) {
    if (after_ms < rule->from_ms) return rule->from_ms;
    return rule->from_ms + ((after_ms - rule->from_ms) / rule->every_ms + 1) * rule->every_ms;
}

uint64_t rule_next(const struct rule *rule, uint64_t after_ms, uint32_t *looks) {
    uint64_t next_ms = 0;
    if (rule->from_ms > after_ms + 1) after_ms = rule->from_ms - 1;
    if (rule->every_ms != 0) {
        next_ms = next_elapsed(rule, after_ms);
        if (next_ms - after_ms > DUE_AHEAD_MAX_MS) next_ms = 0;
    } else {
        struct search search = {rule, *looks};
        int64_t least_s = (int64_t)(after_ms / 1000) + 1;
        const int64_t end_s = least_s + (int64_t)(DUE_AHEAD_MAX_MS / 1000);
        while (least_s < end_s && search.looks > 0) {
            const struct zone_span span = zone_span_at(rule->zone, least_s);
            const int64_t found_s = next_in_span(&search, &span, least_s, end_s);
            if (found_s != LOCAL_NONE) {
                next_ms = (uint64_t)found_s * 1000;
                break;
            }
            least_s = span.end_s;
        }
        *looks = search.looks;
    }
    return rule->until_ms != 0 && next_ms > rule->until_ms ? 0 : next_ms;
}
