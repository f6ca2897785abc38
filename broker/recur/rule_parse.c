/* rule_parse.c: reads cron expressions and RRULEs (RFC 5545). rule_next.c computes from what is read here. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rule.h"

struct reader {
    const char *what; /* "cron" or "rrule", for messages */
    const char *text;
    const char *at;
    struct rule_problem *problem;
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct reader *reader, const char *format, ...) {
    char said[140];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof(said), format, arguments);
    va_end(arguments);
    snprintf(reader->problem->text, sizeof(reader->problem->text), "%s, column %zu: %s", reader->what,
             (size_t)(reader->at - reader->text) + 1, said);
    return false;
}

static bool is_end(const struct reader *reader, char separator) {
    return *reader->at == '\0' || *reader->at == separator;
}

/* Reads an unsigned number of at most 9 digits. */
static bool read_number(struct reader *reader, int32_t *out) {
    if (!isdigit((unsigned char)*reader->at)) return refuse(reader, "expected a number");
    int32_t value = 0;
    const char *first = reader->at;
    for (; isdigit((unsigned char)*reader->at); reader->at++) {
        if (reader->at - first == 9) return refuse(reader, "the number has too many digits");
        value = value * 10 + (*reader->at - '0');
    }
    *out = value;
    return true;
}

/* ---- cron */

static const char *const month_names[] = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                          "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
static const char *const cron_day_names[] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

struct cron_field {
    const char *name;
    int32_t least, most;
    const char *const *names; /* names of the values from `least` on; NULL: the field has only numbers */
    int32_t name_count;
};

enum cron_place { CRON_SECOND, CRON_MINUTE, CRON_HOUR, CRON_MONTH_DAY, CRON_MONTH, CRON_WEEK_DAY, CRON_FIELDS };
static const struct cron_field cron_fields[CRON_FIELDS] = {
    [CRON_SECOND] = {"second", 0, 59, NULL, 0},       [CRON_MINUTE] = {"minute", 0, 59, NULL, 0},
    [CRON_HOUR] = {"hour", 0, 23, NULL, 0},           [CRON_MONTH_DAY] = {"day of month", 1, 31, NULL, 0},
    [CRON_MONTH] = {"month", 1, 12, month_names, 12}, [CRON_WEEK_DAY] = {"day of week", 0, 7, cron_day_names, 7},
};

static bool read_cron_value(struct reader *reader, const struct cron_field *field, int32_t *out) {
    for (int32_t i = 0; i < field->name_count; i++) {
        if (strncasecmp(reader->at, field->names[i], 3) != 0) continue;
        const bool is_last = field->most == 7 && toupper((unsigned char)reader->at[3]) == 'L'; /* FRIL */
        if (isalnum((unsigned char)reader->at[is_last ? 4 : 3])) continue;
        reader->at += 3;
        *out = field->least + i;
        return true;
    }
    const char *first = reader->at;
    if (!isdigit((unsigned char)*first)) return refuse(reader, "expected a value for %s", field->name);
    if (!read_number(reader, out)) return false;
    if (*out >= field->least && *out <= field->most) return true;
    reader->at = first;
    return refuse(reader, "%d is out of range for %s (%d to %d)", *out, field->name, field->least, field->most);
}

/* Adds a day of the week to the rule. Cron counts from Sunday (0 and 7), the rule from Monday. */
static uint8_t from_monday(int32_t cron_day) {
    return (uint8_t)((cron_day + 6) % 7);
}

/* Reads `L` in the day of the month, or `MON#2` and `FRIL` in the day of the week, after the value. */
static bool read_cron_nth(struct reader *reader, int32_t day, struct rule *rule, bool *out_read) {
    *out_read = false;
    int32_t nth = -1;
    if (*reader->at == '#') {
        reader->at++;
        const char *first = reader->at;
        if (!read_number(reader, &nth)) return false;
        if (nth < 1 || nth > 5) {
            reader->at = first;
            return refuse(reader, "#%d is out of range (1 to 5)", nth);
        }
    } else if (*reader->at == 'L' || *reader->at == 'l') {
        reader->at++;
    } else {
        return true;
    }
    if (rule->nth_day_count == RULE_LIST_MAX) return refuse(reader, "too many days (at most %u)", RULE_LIST_MAX);
    rule->nth_days[rule->nth_day_count++] = (struct rule_day){(int16_t)nth, from_monday(day)};
    *out_read = true;
    return true;
}

/* Reads one item of a list: *, 5, 5-9, each with /step. Sets bits in *mask. */
static bool read_cron_item(struct reader *reader, enum cron_place place, struct rule *rule, uint64_t *mask) {
    const struct cron_field *field = &cron_fields[place];
    const char *first = reader->at;
    int32_t low = field->least, high = place == CRON_WEEK_DAY ? 6 : field->most, step = 1;
    const bool is_any = *reader->at == '*' || *reader->at == '?';
    if (is_any) {
        if (*reader->at == '?' && place != CRON_MONTH_DAY && place != CRON_WEEK_DAY)
            return refuse(reader, "\"?\" is allowed only for day of month and day of week");
        reader->at++;
    } else if (place == CRON_MONTH_DAY && (*reader->at == 'L' || *reader->at == 'l')) {
        reader->at++;
        rule->month_days_end |= 1u << 1;
        return true;
    } else {
        if (!read_cron_value(reader, field, &low)) return false;
        high = low;
        bool is_nth = false;
        if (place == CRON_WEEK_DAY && !read_cron_nth(reader, low, rule, &is_nth)) return false;
        if (is_nth) return true;
        if (*reader->at == '-') {
            reader->at++;
            if (!read_cron_value(reader, field, &high)) return false;
            if (place == CRON_WEEK_DAY && high == 0 && low > 0) high = 7; /* MON-SUN */
            if (high < low) {
                reader->at = first;
                return refuse(reader, "the range runs backwards; write it as two ranges");
            }
        } else if (*reader->at == '/') {
            high = place == CRON_WEEK_DAY ? 6 : field->most;
        }
    }
    if (*reader->at == '/') {
        reader->at++;
        const char *number = reader->at;
        if (!read_number(reader, &step)) return false;
        if (step < 1 || step > field->most) {
            reader->at = number;
            return refuse(reader, "the step %d is out of range for %s (1 to %d)", step, field->name, field->most);
        }
    }
    for (int32_t value = low; value <= high; value += step) *mask |= 1ull << value;
    return true;
}

static void skip_spaces(struct reader *reader) {
    while (*reader->at == ' ' || *reader->at == '\t') reader->at++;
}

/* Reads a field. *out_any: it is "*" or "?". */
static bool read_cron_field(struct reader *reader, enum cron_place place, struct rule *rule, uint64_t *mask,
                            bool *out_any) {
    const char *first = reader->at;
    *mask = 0;
    for (;;) {
        if (!read_cron_item(reader, place, rule, mask)) return false;
        if (*reader->at != ',') break;
        reader->at++;
    }
    if (*reader->at != ' ' && *reader->at != '\t' && *reader->at != '\0') {
        if (toupper((unsigned char)*reader->at) == 'W')
            return refuse(reader, "\"W\" (nearest weekday) is not supported");
        return refuse(reader, "unexpected \"%c\" in %s", isprint((unsigned char)*reader->at) ? *reader->at : '.',
                      cron_fields[place].name);
    }
    *out_any = reader->at - first == 1 && (*first == '*' || *first == '?');
    return true;
}

static const struct {
    const char *name, *text;
} cron_macros[] = {
    {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
    {"@daily", "0 0 * * *"},  {"@midnight", "0 0 * * *"}, {"@hourly", "0 * * * *"},
};

static size_t count_fields(const char *text) {
    size_t count = 0;
    for (bool inside = false; *text != '\0'; text++) {
        bool is_space = *text == ' ' || *text == '\t';
        count += !is_space && !inside;
        inside = !is_space;
    }
    return count;
}

static bool combine_days(struct reader *reader, enum rule_days days, struct rule *rule) {
    if (!rule->has_month_days || !rule->has_week_days) return true;
    rule->any_day = days == RULE_DAYS_OR;
    if (days != RULE_DAYS_NOT_SAID) return true;
    snprintf(reader->problem->text, sizeof(reader->problem->text),
             "cron: both day of month and day of week are given: say with days (and, or) whether both must match");
    return false;
}

static bool read_cron(const struct rule_spec *spec, struct rule *rule, struct rule_problem *problem) {
    struct reader reader = {"cron", spec->cron, spec->cron, problem};
    for (size_t i = 0; i < sizeof(cron_macros) / sizeof(cron_macros[0]); i++)
        if (strcasecmp(spec->cron, cron_macros[i].name) == 0) reader.text = reader.at = cron_macros[i].text;
    if (*reader.at == '@') return refuse(&reader, "unknown name; @yearly, @monthly, @weekly, @daily, @hourly exist");
    const size_t fields = count_fields(reader.text);
    if (fields != 5 && fields != 6)
        return refuse(&reader,
                      "the expression has %zu fields; it must have 5 (minute hour day month weekday) or 6 "
                      "(with seconds first)",
                      fields);
    uint64_t masks[CRON_FIELDS] = {[CRON_SECOND] = 1};
    bool any[CRON_FIELDS] = {false};
    for (int place = fields == 6 ? CRON_SECOND : CRON_MINUTE; place < CRON_FIELDS; place++) {
        skip_spaces(&reader);
        if (!read_cron_field(&reader, (enum cron_place)place, rule, &masks[place], &any[place])) return false;
    }
    rule->seconds = masks[CRON_SECOND];
    rule->minutes = masks[CRON_MINUTE];
    rule->hours = (uint32_t)masks[CRON_HOUR];
    rule->months = (uint16_t)masks[CRON_MONTH];
    rule->has_month_days = !any[CRON_MONTH_DAY];
    rule->has_week_days = !any[CRON_WEEK_DAY];
    rule->month_days = (uint32_t)masks[CRON_MONTH_DAY];
    for (int32_t day = 0; day <= 7; day++)
        if (masks[CRON_WEEK_DAY] >> day & 1) rule->days_of_week |= (uint8_t)(1u << from_monday(day));
    /* A rule for every hour fires in both of the equal local hours when clocks are set back. */
    rule->both = any[CRON_HOUR];
    return combine_days(&reader, spec->days, rule);
}

/* ---- RRULE */

static const char *const freq_names[] = {"SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"};
static const char *const rrule_day_names[] = {"MO", "TU", "WE", "TH", "FR", "SA", "SU"};

enum part {
    PART_FREQ,
    PART_INTERVAL,
    PART_COUNT,
    PART_UNTIL,
    PART_WKST,
    PART_BYSECOND,
    PART_BYMINUTE,
    PART_BYHOUR,
    PART_BYDAY,
    PART_BYMONTHDAY,
    PART_BYYEARDAY,
    PART_BYWEEKNO,
    PART_BYMONTH,
    PART_BYSETPOS,
    PARTS
};
static const char *const part_names[PARTS] = {"FREQ",      "INTERVAL", "COUNT",   "UNTIL",   "WKST",
                                              "BYSECOND",  "BYMINUTE", "BYHOUR",  "BYDAY",   "BYMONTHDAY",
                                              "BYYEARDAY", "BYWEEKNO", "BYMONTH", "BYSETPOS"};

struct rrule_reader {
    struct reader base;
    struct rule *rule;
    uint32_t seen; /* parts that were read, as bits 1 << enum part */
};

static bool read_rrule_day(struct reader *reader, uint8_t *out) {
    for (uint8_t day = 0; day < 7; day++) {
        if (strncasecmp(reader->at, rrule_day_names[day], 2) != 0) continue;
        reader->at += 2;
        *out = day;
        return true;
    }
    return refuse(reader, "expected a day (MO, TU, WE, TH, FR, SA, SU)");
}

static bool read_signed(struct reader *reader, int32_t least, int32_t most, bool may_be_negative, int32_t *out) {
    const char *first = reader->at;
    const bool is_negative = *reader->at == '-';
    if (is_negative || *reader->at == '+') reader->at++;
    if (!read_number(reader, out)) return false;
    if (*out < least || *out > most || (is_negative && !may_be_negative)) {
        reader->at = first;
        return refuse(reader, "the value is out of range (%d to %d%s)", least, most,
                      may_be_negative ? ", or negative" : "");
    }
    if (is_negative) *out = -*out;
    return true;
}

static bool read_by_day(struct reader *reader, struct rule *rule) {
    int32_t nth = 0;
    uint8_t day;
    if (*reader->at == '-' || *reader->at == '+' || isdigit((unsigned char)*reader->at))
        if (!read_signed(reader, 1, 53, true, &nth)) return false;
    if (!read_rrule_day(reader, &day)) return false;
    rule->has_week_days = true;
    if (nth == 0) {
        rule->days_of_week |= (uint8_t)(1u << day);
        return true;
    }
    if (rule->nth_day_count == RULE_LIST_MAX) return refuse(reader, "too many days (at most %u)", RULE_LIST_MAX);
    rule->nth_days[rule->nth_day_count++] = (struct rule_day){(int16_t)nth, day};
    return true;
}

static void set_bit(uint64_t *bits, int32_t value) {
    bits[value / 64] |= 1ull << (value % 64);
}

/* Reads one value of a list. */
static bool read_by_value(struct reader *reader, enum part part, struct rule *rule) {
    int32_t value = 0;
    switch (part) {
    case PART_BYSECOND:
        if (!read_signed(reader, 0, 59, false, &value)) return false;
        rule->seconds |= 1ull << value;
        return true;
    case PART_BYMINUTE:
        if (!read_signed(reader, 0, 59, false, &value)) return false;
        rule->minutes |= 1ull << value;
        return true;
    case PART_BYHOUR:
        if (!read_signed(reader, 0, 23, false, &value)) return false;
        rule->hours |= 1u << value;
        return true;
    case PART_BYMONTH:
        if (!read_signed(reader, 1, 12, false, &value)) return false;
        rule->months |= (uint16_t)(1u << value);
        return true;
    case PART_BYMONTHDAY:
        if (!read_signed(reader, 1, 31, true, &value)) return false;
        rule->has_month_days = true;
        if (value > 0)
            rule->month_days |= 1u << value;
        else
            rule->month_days_end |= 1u << -value;
        return true;
    case PART_BYYEARDAY:
        if (!read_signed(reader, 1, 366, true, &value)) return false;
        rule->has_year_days = true;
        set_bit(value > 0 ? rule->year_days : rule->year_days_end, value > 0 ? value : -value);
        return true;
    case PART_BYWEEKNO:
        if (!read_signed(reader, 1, 53, true, &value)) return false;
        set_bit(value > 0 ? &rule->weeks : &rule->weeks_end, value > 0 ? value : -value);
        return true;
    case PART_BYSETPOS:
        if (!read_signed(reader, 1, 366, true, &value)) return false;
        if (rule->set_position_count == RULE_LIST_MAX)
            return refuse(reader, "too many positions (at most %u)", RULE_LIST_MAX);
        rule->set_positions[rule->set_position_count++] = (int16_t)value;
        return true;
    default:
        return read_by_day(reader, rule);
    }
}

/* UNTIL=20271231, 20271231T090000 (local time) or 20271231T090000Z. A date means its whole day. */
static bool read_until(struct reader *reader, struct rule *rule) {
    unsigned year, month, day, hour = 23, minute = 59, second = 59;
    int used = 0;
    const char *first = reader->at;
    for (size_t i = 0; i < 8; i++)
        if (!isdigit((unsigned char)first[i])) return refuse(reader, "expected a date such as 20271231");
    sscanf(first, "%4u%2u%2u", &year, &month, &day);
    used = 8;
    if (first[8] == 'T') {
        for (size_t i = 9; i < 15; i++)
            if (!isdigit((unsigned char)first[i])) return refuse(reader, "expected a time such as 20271231T090000Z");
        sscanf(first + 9, "%2u%2u%2u", &hour, &minute, &second);
        used = 15;
    }
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > civil_month_days(year, month) || hour > 23 ||
        minute > 59 || second > 59)
        return refuse(reader, "the date or time does not exist, or is before 1970");
    const int64_t local = civil_days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    int32_t offset = 0;
    if (first[used] == 'Z')
        used++;
    else
        offset = zone_span_at(rule->zone, local - zone_span_at(rule->zone, local).offset_s).offset_s;
    const int64_t until_ms = (local - offset) * 1000 + 999;
    if (rule->until_ms == 0 || (uint64_t)until_ms < rule->until_ms)
        rule->until_ms = until_ms > 0 ? (uint64_t)until_ms : 1;
    reader->at += used;
    return true;
}

static bool read_freq(struct reader *reader, struct rule *rule) {
    for (int freq = FREQ_SECONDLY; freq <= FREQ_YEARLY; freq++) {
        const size_t size = strlen(freq_names[freq]);
        if (strncasecmp(reader->at, freq_names[freq], size) != 0) continue;
        reader->at += size;
        rule->freq = (enum rule_freq)freq;
        return true;
    }
    return refuse(reader, "unknown frequency; SECONDLY, MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY, YEARLY exist");
}

static bool read_part_value(struct reader *reader, enum part part, struct rule *rule) {
    int32_t number = 0;
    switch (part) {
    case PART_FREQ:
        return read_freq(reader, rule);
    case PART_INTERVAL:
        if (!read_signed(reader, 1, 1000000, false, &number)) return false;
        rule->interval = (uint32_t)number;
        return true;
    case PART_COUNT:
        if (!read_signed(reader, 1, 999999999, false, &number)) return false;
        rule->count = (uint64_t)number;
        return true;
    case PART_UNTIL:
        return read_until(reader, rule);
    case PART_WKST:
        return read_rrule_day(reader, &rule->week_start);
    default:
        for (;;) {
            if (!read_by_value(reader, part, rule)) return false;
            if (*reader->at != ',') return true;
            reader->at++;
        }
    }
}

static bool read_part(struct rrule_reader *r) {
    struct reader *reader = &r->base;
    const char *first = reader->at;
    const char *equals = strchr(first, '=');
    for (int part = 0; equals != NULL && part < PARTS; part++) {
        const size_t size = strlen(part_names[part]);
        if ((size_t)(equals - first) != size || strncasecmp(first, part_names[part], size) != 0) continue;
        if (r->seen >> part & 1) return refuse(reader, "%s is given twice", part_names[part]);
        r->seen |= 1u << part;
        reader->at = equals + 1;
        if (!read_part_value(reader, (enum part)part, r->rule)) return false;
        return is_end(reader, ';') || refuse(reader, "unexpected text after the value of %s", part_names[part]);
    }
    return refuse(reader, "expected a part of an RRULE, such as FREQ=DAILY or BYDAY=MO");
}

/* Checks which parts may be combined (RFC 5545, 3.3.10). */
static bool check_parts(struct rrule_reader *r) {
    const struct rule *rule = r->rule;
    struct reader *reader = &r->base;
    reader->at = reader->text;
    if (!(r->seen >> PART_FREQ & 1)) return refuse(reader, "FREQ is missing");
    if ((r->seen >> PART_COUNT & 1) && (r->seen >> PART_UNTIL & 1))
        return refuse(reader, "COUNT and UNTIL must not both be given");
    if ((rule->weeks || rule->weeks_end) && rule->freq != FREQ_YEARLY)
        return refuse(reader, "BYWEEKNO needs FREQ=YEARLY");
    if (rule->has_year_days && rule->freq >= FREQ_DAILY && rule->freq <= FREQ_MONTHLY)
        return refuse(reader, "BYYEARDAY cannot stand with FREQ=DAILY, WEEKLY or MONTHLY");
    if (rule->has_month_days && rule->freq == FREQ_WEEKLY)
        return refuse(reader, "BYMONTHDAY cannot stand with FREQ=WEEKLY");
    if (rule->nth_day_count && rule->freq != FREQ_MONTHLY && rule->freq != FREQ_YEARLY)
        return refuse(reader, "a number before a day in BYDAY needs FREQ=MONTHLY or YEARLY");
    if (rule->nth_day_count && (rule->weeks || rule->weeks_end))
        return refuse(reader, "a number before a day in BYDAY cannot stand with BYWEEKNO");
    if (rule->set_position_count && rule->freq < FREQ_DAILY)
        return refuse(reader, "BYSETPOS needs FREQ=DAILY, WEEKLY, MONTHLY or YEARLY");
    return true;
}

/* Fills in the parts that the rule does not give, from its start (DTSTART). */
static void complete(struct rule *rule) {
    const int64_t start_s = (int64_t)(rule->from_ms / 1000);
    const int64_t local = start_s + zone_span_at(rule->zone, start_s).offset_s;
    rule->start_days = local / 86400;
    rule->start_of_day_s = (uint32_t)(local % 86400);
    const struct civil start = civil_of(rule->start_days);
    const bool has_day =
        rule->has_month_days || rule->has_week_days || rule->has_year_days || rule->weeks || rule->weeks_end;
    if (!has_day && rule->freq == FREQ_YEARLY && !rule->months) rule->months = (uint16_t)(1u << start.month);
    if (!has_day && (rule->freq == FREQ_YEARLY || rule->freq == FREQ_MONTHLY)) {
        rule->has_month_days = true;
        rule->month_days = 1u << start.day;
    }
    if (!has_day && rule->freq == FREQ_WEEKLY) {
        rule->has_week_days = true;
        rule->days_of_week = (uint8_t)(1u << (rule->start_days + 3) % 7);
    }
    if (!rule->months) rule->months = 0x1ffe;
    if (!rule->hours) rule->hours = rule->freq <= FREQ_HOURLY ? 0xffffff : 1u << rule->start_of_day_s / 3600;
    if (!rule->minutes)
        rule->minutes = rule->freq <= FREQ_MINUTELY ? (1ull << 60) - 1 : 1ull << rule->start_of_day_s / 60 % 60;
    if (!rule->seconds)
        rule->seconds = rule->freq == FREQ_SECONDLY ? (1ull << 60) - 1 : 1ull << rule->start_of_day_s % 60;
}

static bool read_rrule(const struct rule_spec *spec, struct rule *rule, struct rule_problem *problem) {
    struct rrule_reader r = {{"rrule", spec->rrule, spec->rrule, problem}, rule, 0};
    struct reader *reader = &r.base;
    if (strncasecmp(reader->at, "RRULE:", 6) == 0) reader->at += 6;
    rule->is_rrule = true;
    rule->interval = 1;
    for (;;) {
        if (!read_part(&r)) return false;
        if (*reader->at == '\0') break;
        reader->at++;
    }
    if (!check_parts(&r)) return false;
    complete(rule);
    rule->both = rule->freq <= FREQ_HOURLY;
    return true;
}

/* ---- the whole rule */

static bool check_every(uint64_t every_ms, struct rule_problem *problem) {
    if (every_ms >= RULE_EVERY_MIN_MS && every_ms <= DUE_AHEAD_MAX_MS) return true;
    snprintf(problem->text, sizeof(problem->text), "every: the interval must be from 1 second to ten years");
    return false;
}

bool rule_make(const struct rule_spec *spec, struct rule *out, struct rule_problem *out_problem) {
    struct rule rule = {.from_ms = spec->from_ms, .until_ms = spec->until_ms, .skip_gap = spec->skip_gap};
    const bool has_cron = spec->cron[0] != '\0', has_rrule = spec->rrule[0] != '\0';
    if (has_cron + has_rrule + (spec->every_ms != 0) != 1) {
        snprintf(out_problem->text, sizeof(out_problem->text), "give exactly one of cron, every and rrule");
        return false;
    }
    if (strlen(spec->cron) > RECUR_TEXT_SIZE_MAX || strlen(spec->rrule) > RECUR_TEXT_SIZE_MAX) {
        snprintf(out_problem->text, sizeof(out_problem->text),
                 "the expression is longer than %u bytes (RECUR_TEXT_SIZE_MAX)", RECUR_TEXT_SIZE_MAX);
        return false;
    }
    rule.zone = zone_find(spec->zone[0] != '\0' ? spec->zone : "UTC");
    if (rule.zone == NULL) {
        snprintf(out_problem->text, sizeof(out_problem->text),
                 "zone: tzdata has no zone \"%.64s\"; names are like Europe/Berlin or UTC", spec->zone);
        return false;
    }
    if (spec->every_ms != 0) {
        if (!check_every(spec->every_ms, out_problem)) return false;
        rule.every_ms = spec->every_ms;
    } else if (has_cron ? !read_cron(spec, &rule, out_problem) : !read_rrule(spec, &rule, out_problem)) {
        return false;
    }
    if (!has_cron && spec->days != RULE_DAYS_NOT_SAID) {
        snprintf(out_problem->text, sizeof(out_problem->text), "days is only for a cron expression");
        return false;
    }
    if (spec->fold != RULE_FOLD_DEFAULT) rule.both = spec->fold == RULE_FOLD_BOTH;
    *out = rule;
    return true;
}
