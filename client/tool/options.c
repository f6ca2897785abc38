/* options.c: options that several commands share, in their own types. Each says what is wrong in a sentence. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rfc3339.h"
#include "tool.h"
#include "units.h"

/* Parses a number: digits only, without sign, space or overflow. */
static bool number_parse(const char *text, uint64_t *out) {
    if (text[0] == 0 || strspn(text, "0123456789") != strlen(text)) return false;
    errno = 0;
    unsigned long long number = strtoull(text, NULL, 10);
    if (errno != 0) return false;
    *out = number;
    return true;
}

int option_duration(const struct args *args, const char *name, uint64_t *out_ms) {
    const char *text = args_get(args, name);
    if (text == NULL || duration_parse(text, out_ms)) return 0;
    return tool_usage(args, "--%s: '%s' is not a duration such as 250ms, 30s, 1h30m or 2d", name, text);
}

int option_duration_positive(const struct args *args, const char *name, uint64_t *out_ms) {
    uint64_t ms = 1;
    int status = option_duration(args, name, &ms);
    if (status == 0 && ms == 0) return tool_usage(args, "--%s: the duration must be longer than zero", name);
    if (status == 0 && args_has(args, name)) *out_ms = ms;
    return status;
}

int option_number(const struct args *args, const char *name, uint64_t min, uint64_t max, uint64_t *out) {
    const char *text = args_get(args, name);
    uint64_t number;
    if (text == NULL) return 0;
    if (!number_parse(text, &number)) return tool_usage(args, "--%s: '%s' is not a whole number", name, text);
    if (number < min || number > max)
        return tool_usage(args, "--%s: %s is not between %llu and %llu", name, text, (unsigned long long)min,
                          (unsigned long long)max);
    *out = number;
    return 0;
}

int option_id(const struct args *args, const char *text, uint64_t *out_id) {
    uint64_t id;
    if (!number_parse(text, &id) || id == 0) return tool_usage(args, "'%s' is not an id: a whole number from 1", text);
    *out_id = id;
    return 0;
}

/* Parses "09:00" or "09:00:30"; an empty text is midnight. */
static bool time_of_day_parse(const char *text, struct tm *out) {
    unsigned hour = 0, minute = 0, second = 0;
    int end = 0;
    if (text[0] == 0) return true;
    if (sscanf(text, "%2u:%2u%n", &hour, &minute, &end) != 2 || end != 5) return false;
    if (text[5] != 0 && (sscanf(text + 5, ":%2u%n", &second, &end) != 1 || end != 3 || text[8] != 0)) return false;
    if (hour > 23 || minute > 59 || second > 59) return false;
    out->tm_hour = (int)hour;
    out->tm_min = (int)minute;
    out->tm_sec = (int)second;
    return true;
}

/* Parses a day in this time zone, "today", "tomorrow" or "2026-12-01", with or without a time of day. */
static bool local_time_parse(const char *text, uint64_t *out_ms) {
    time_t now = (time_t)(wall_ms() / 1000);
    struct tm when = {0}, given;
    unsigned year = 0, month = 0, day = 0;
    int size = 0;
    if (localtime_r(&now, &when) == NULL) return false;
    when.tm_hour = when.tm_min = when.tm_sec = 0;
    when.tm_isdst = -1;
    if (strncmp(text, "today", 5) == 0) {
        size = 5;
    } else if (strncmp(text, "tomorrow", 8) == 0) {
        size = 8;
        when.tm_mday++;
    } else if (sscanf(text, "%4u-%2u-%2u%n", &year, &month, &day, &size) == 3 && size == 10 && year >= 1970) {
        when.tm_year = (int)year - 1900;
        when.tm_mon = (int)month - 1;
        when.tm_mday = (int)day;
    } else {
        return false;
    }
    if (text[size] != 0 && text[size] != ' ' && text[size] != 'T') return false;
    if (!time_of_day_parse(text[size] != 0 ? text + size + 1 : "", &when)) return false;
    given = when;
    time_t seconds = mktime(&when);
    if (seconds < 0 || (year != 0 && (when.tm_mday != given.tm_mday || when.tm_mon != given.tm_mon))) return false;
    *out_ms = (uint64_t)seconds * 1000;
    return true;
}

/* Parses a time. Returns NULL, or why the text is not a time. */
static const char *time_parse(const char *text, uint64_t *out_ms) {
    if (local_time_parse(text, out_ms)) return NULL;
    return rfc3339_parse(text, out_ms);
}

int option_when(const struct args *args, enum tarry_when *out_when, uint64_t *out_ms) {
    const char *in = args_get(args, "in"), *at = args_get(args, "at"), *due = args_get(args, "due-ms");
    if ((in != NULL) + (at != NULL) + (due != NULL) != 1)
        return tool_usage(args, "missing due time: give exactly one of --in DUR, --at TIME, --due-ms N");
    *out_when = in != NULL ? TARRY_DELAY : TARRY_AT;
    if (in != NULL) return option_duration(args, "in", out_ms);
    if (due != NULL) return option_number(args, "due-ms", 0, UINT64_MAX, out_ms);
    const char *wrong = time_parse(at, out_ms);
    return wrong == NULL
               ? 0
               : tool_usage(args, "--at: '%s': %s; or 'tomorrow 09:00' or 2026-12-01 in this time zone", at, wrong);
}

int option_ref(const struct args *args, struct tarry_ref *out_ref) {
    const char *id = args_get(args, "id");
    *out_ref = (struct tarry_ref){0};
    if (id != NULL && args->positional_count == 0) return option_id(args, id, &out_ref->id);
    if (id != NULL || args->positional_count != 2)
        return tool_usage(args, "missing task: give QUEUE and KEY, or --id ID");
    out_ref->queue = args->positional[0];
    out_ref->key = args->positional[1];
    if (out_ref->key[0] == 0) return tool_usage(args, "the key is empty; use --id for a task without a key");
    return 0;
}

int option_states(const struct args *args, uint32_t *out_states) {
    /* Names of enum tarry_state, in the order of its bits. */
    static const char *const names[] = {"pending", "ready", "in_flight", "dead"};
    const char *text = args_get(args, "state");
    uint32_t states = 0;
    if (text == NULL) return 0;
    for (const char *at = text;;) {
        size_t size = strcspn(at, ",");
        size_t i = 0;
        while (i < 4 && (strlen(names[i]) != size || memcmp(names[i], at, size) != 0)) i++;
        if (i == 4) return tool_usage(args, "--state: '%.*s' is not pending, ready, in_flight or dead", (int)size, at);
        states |= 1u << i;
        if (at[size] == 0) break;
        at += size + 1;
    }
    *out_states = states;
    return 0;
}

int option_fresh(struct tool *tool, const struct args *args) {
    struct tarry_call *fresh = &tool->fresh;
    tool->follower_reads = args_has(args, "from-follower");
    int status = option_number(args, "at-least", 1, UINT64_MAX, &fresh->at_least);
    if (status == 0) status = option_duration_positive(args, "staleness", &fresh->staleness_ms);
    if (status == 0 && fresh->staleness_ms > INT32_MAX)
        status = tool_usage(args, "--staleness: the maximum is 24 days; omit the option for no limit");
    return status;
}

int option_time(const struct args *args, const char *name, uint64_t *out_ms) {
    const char *text = args_get(args, name);
    uint64_t duration_ms;
    if (text == NULL || number_parse(text, out_ms)) return 0;
    if (text[0] == '+') {
        if (!duration_parse(text + 1, &duration_ms) || duration_ms > UINT64_MAX / 2)
            return tool_usage(args, "--%s: '%s' is not + and a duration such as +1h30m", name, text);
        *out_ms = wall_ms() + duration_ms;
        return 0;
    }
    const char *wrong = time_parse(text, out_ms);
    return wrong == NULL ? 0
                         : tool_usage(args,
                                      "--%s: '%s' is %s, nor Unix milliseconds, nor + and a duration, nor a day such "
                                      "as tomorrow or 2026-12-01",
                                      name, text, wrong);
}
