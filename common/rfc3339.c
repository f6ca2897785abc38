/* rfc3339.c: see rfc3339.h. This file computes the calendar without mktime, so parsing does not depend on the time
 * zone. */
#include "rfc3339.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DAY_S 86400
#define YEAR_9999_END_S 253402300799u

static const char *const sentence = "not a time such as 2026-11-21T04:00:00+01:00 or 2026-11-21T03:00:00Z";

/* Parses exactly `count` digits. */
static bool digits(const char **at, int count, int *out) {
    int number = 0;
    for (int i = 0; i < count; i++) {
        char c = (*at)[i];
        if (c < '0' || c > '9') return false;
        number = number * 10 + (c - '0');
    }
    *at += count;
    *out = number;
    return true;
}

static bool one_of(const char **at, const char *characters) {
    if (**at == 0 || strchr(characters, **at) == NULL) return false;
    (*at)++;
    return true;
}

static bool leap(int year) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int month_days(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && leap(year) ? 29 : days[month - 1];
}

/* Returns the number of days from 1970-01-01; negative for earlier dates. */
static int64_t epoch_days(int year, int month, int day) {
    int64_t y = year - 1;
    int64_t days = y * 365 + y / 4 - y / 100 + y / 400 - 719162;
    if (year == 0) days = -719528; /* the formula is wrong below year 1, because its divisions round towards zero */
    for (int m = 1; m < month; m++) days += month_days(year, m);
    return days + day - 1;
}

/* Parses a fraction such as ".5", ".123" or ".1234567" into milliseconds, rounded up. */
static bool fraction(const char **at, int64_t *out_ms) {
    int64_t ms = 0;
    int count = 0;
    bool rest = false;
    for (; **at >= '0' && **at <= '9'; (*at)++, count++) {
        if (count < 3)
            ms = ms * 10 + (**at - '0');
        else if (**at != '0')
            rest = true;
    }
    if (count == 0) return false;
    for (; count < 3; count++) ms *= 10;
    *out_ms = ms + (rest ? 1 : 0);
    return true;
}

/* Parses an offset, "Z" or "+01:00", into the seconds to subtract from local time. */
static bool offset(const char **at, int64_t *out_s) {
    if (one_of(at, "Zz")) {
        *out_s = 0;
        return true;
    }
    int sign = **at == '-' ? -1 : 1;
    int hour, minute;
    if (!one_of(at, "+-") || !digits(at, 2, &hour) || !one_of(at, ":") || !digits(at, 2, &minute)) return false;
    if (hour > 23 || minute > 59) return false;
    *out_s = sign * (hour * 3600 + minute * 60);
    return true;
}

const char *rfc3339_parse(const char *text, uint64_t *out_ms) {
    const char *at = text;
    int year, month, day, hour, minute, second;
    if (!digits(&at, 4, &year) || !one_of(&at, "-") || !digits(&at, 2, &month) || !one_of(&at, "-") ||
        !digits(&at, 2, &day) || !one_of(&at, "Tt ") || !digits(&at, 2, &hour) || !one_of(&at, ":") ||
        !digits(&at, 2, &minute) || !one_of(&at, ":") || !digits(&at, 2, &second))
        return sentence;
    if (month < 1 || month > 12 || day < 1 || day > month_days(year, month))
        return "the day does not exist in the calendar";
    if (hour > 23 || minute > 59 || second > 60) return "the time of day does not exist";
    int64_t ms = 0;
    if (*at == '.') {
        at++;
        if (!fraction(&at, &ms)) return sentence;
    }
    if (*at == 0) return "the offset from UTC is missing: add Z for UTC, or an offset such as +01:00";
    int64_t offset_s;
    if (!offset(&at, &offset_s) || *at != 0) return sentence;
    int64_t total_s = epoch_days(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second - offset_s;
    if (total_s < 0) return "times before 1970 are not supported";
    *out_ms = (uint64_t)(total_s * 1000 + ms);
    return NULL;
}

static char *put_digits(char *at, unsigned value, int count) {
    for (int i = count - 1; i >= 0; i--, value /= 10) at[i] = (char)('0' + value % 10);
    return at + count;
}

/* Writes `count` digits and the separator `behind`; returns the address after them. */
static char *put_part(char *at, int value, int count, char behind) {
    at = put_digits(at, (unsigned)value, count);
    *at = behind;
    return at + 1;
}

char *rfc3339_format(uint64_t ms, char out[RFC3339_TEXT_SIZE]) {
    time_t seconds = (time_t)(ms / 1000);
    struct tm local;
    long offset_min = 0;
    bool is_known = ms / 1000 <= YEAR_9999_END_S && localtime_r(&seconds, &local) != NULL;
    if (is_known) {
        /* Offsets in RFC 3339 have no seconds, but those of historical time zones do. Cut the offset to whole minutes,
         * and show the time with that offset. */
        offset_min = local.tm_gmtoff / 60;
        seconds += offset_min * 60;
        is_known = gmtime_r(&seconds, &local) != NULL && local.tm_year + 1900 <= 9999;
    }
    if (!is_known) {
        /* No RFC 3339 text exists for years beyond 9999. */
        snprintf(out, RFC3339_TEXT_SIZE, "%llums", (unsigned long long)ms);
        return out;
    }
    long magnitude = offset_min < 0 ? -offset_min : offset_min;
    /* snprintf would be too slow for the millions of times in a long log. */
    char *at = put_part(out, local.tm_year + 1900, 4, '-');
    at = put_part(at, local.tm_mon + 1, 2, '-');
    at = put_part(at, local.tm_mday, 2, 'T');
    at = put_part(at, local.tm_hour, 2, ':');
    at = put_part(at, local.tm_min, 2, ':');
    at = put_part(at, local.tm_sec, 2, '.');
    at = put_part(at, (int)(ms % 1000), 3, offset_min < 0 ? '-' : '+');
    at = put_part(at, (int)(magnitude / 60), 2, ':');
    put_part(at, (int)(magnitude % 60), 2, '\0');
    return out;
}
