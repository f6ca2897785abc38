/* policy.c: see policy.h. */
#include "policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "queue_policy.h"
#include "tool.h"
#include "units.h"

/* Parses a duration. A field whose name ends in _ms takes a number of milliseconds, as in JSON. */
static int policy_duration(const struct args *args, const char *name, const char *value, uint64_t *out_ms) {
    size_t size = strlen(name);
    bool in_ms = size > 3 && strcmp(name + size - 3, "_ms") == 0;
    char text[UNITS_TEXT_SIZE];
    if (in_ms && snprintf(text, sizeof text, "%sms", value) < (int)sizeof text && duration_parse(text, out_ms))
        return 0;
    if (!in_ms && duration_parse(value, out_ms)) return 0;
    return tool_usage(args, "%s: '%s' is not %s", name, value,
                      in_ms ? "a number of milliseconds" : "a duration such as 250ms, 30s or 1h30m");
}

static int policy_number(const struct args *args, const char *text, const char *value, uint32_t *out) {
    char *end;
    unsigned long long number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != 0 || number > UINT32_MAX)
        return tool_usage(args, "%s: '%s' is not a whole number of 0 or more", text, value);
    *out = (uint32_t)number;
    return 0;
}

/* Parses rate=N, or rate=N/s, N/min, N/h, N/DUR, which also sets the period. */
static int policy_rate(const struct args *args, const char *value, struct tarry_policy *policy, uint32_t *fields) {
    if (strchr(value, '/') == NULL) return policy_number(args, "rate", value, &policy->rate);
    if (!rate_parse(value, &policy->rate, &policy->rate_period_ms))
        return tool_usage(args, "rate: '%s' is not a number, or a rate such as 1000/s, 600/min, 50/h or 5/10s", value);
    if ((*fields & TARRY_POLICY_RATE_PERIOD) != 0)
        return tool_usage(args, "rate=%s sets the period, so rate_period must not be given", value);
    *fields |= TARRY_POLICY_RATE_PERIOD;
    return 0;
}

void policy_limits(struct text *out, const Tarry__Policy *policy) {
    char rate[UNITS_TEXT_SIZE];
    if (policy->rate != 0) {
        text_add_str(out, rate_format(policy->rate, policy->rate_period_ms, rate));
        if (policy->burst != 0) text_printf(out, " (burst %u)", policy->burst);
    }
    if (policy->max_in_flight != 0)
        text_printf(out, "%s%u in flight", policy->rate != 0 ? ", " : "", policy->max_in_flight);
    char spread[UNITS_TEXT_SIZE];
    if (policy->spread_ms == 0) return;
    const bool is_first = policy->rate == 0 && policy->max_in_flight == 0;
    text_printf(out, "%sspread over %s", is_first ? "" : ", ", duration_format(policy->spread_ms, spread));
}

void policy_overdue(struct text *out, const Tarry__Policy *policy) {
    const struct {
        uint64_t ms;
        const char *words;
    } parts[] = {{policy->overdue_expire_ms, "expire if later than "},
                 {policy->overdue_dead_ms, "dead if later than "},
                 {policy->overdue_spread_ms, "spread over "}};
    char duration[UNITS_TEXT_SIZE];
    const char *comma = "";
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].ms == 0) continue;
        text_printf(out, "%s%s%s", comma, parts[i].words, duration_format(parts[i].ms, duration));
        comma = ", ";
    }
}

const char *policy_push(const char *value) {
    return strcmp(value, "none") == 0 ? "" : value;
}

static int policy_backoff(const struct args *args, const char *value, bool *out_exponential) {
    *out_exponential = strcmp(value, "exponential") == 0;
    if (*out_exponential || strcmp(value, "fixed") == 0) return 0;
    return tool_usage(args, "backoff: '%s' is not fixed or exponential", value);
}

static int unknown_field(const struct args *args, const char *name) {
    static const char *const words[] = {
#define POLICY_NUMBER(field, word, ...) #word,
#define POLICY_TEXT(field, ...) #field,
#include "policy.def"
    };
    const char *near = nearest(name, words, POLICY_FIELDS);
#define POLICY_NUMBER(field, word, ...) #word ", "
#define POLICY_TEXT(field, ...) #field ", "
    if (near == NULL)
        return tool_usage(args, "unknown policy field '%s': the fields are %s", name,
#include "policy.def"
                          "and no others");
    return tool_usage(args, "unknown policy field '%s' (did you mean '%s'?)", name, near);
}

/* Parse the value of a policy field, for each kind in policy.def, into the field of struct tarry_policy. */
#define PARSE_DURATION(field) policy_duration(args, name, value, &policy->field)
#define PARSE_COUNT(field) policy_number(args, name, value, &policy->field)
#define PARSE_BACKOFF(field) policy_backoff(args, value, &policy->field##_exponential)
#define PARSE_RATE(field) policy_rate(args, value, policy, fields)

static int take_field(const struct args *args, const char *name, const char *value, struct tarry_policy *policy,
                      uint32_t *fields) {
#define TWICE(field, word)                                                                                             \
    if ((*fields & 1u << POLICY_AT_##field) != 0) return tool_usage(args, "%s is given twice", word);                  \
    *fields |= 1u << POLICY_AT_##field;
#define POLICY_NUMBER(field, word, option, kind, ...)                                                                  \
    if (strcmp(name, #field) == 0 || strcmp(name, #word) == 0) {                                                       \
        TWICE(field, #word)                                                                                            \
        return PARSE_##kind(field);                                                                                    \
    }
#define POLICY_TEXT(field, ...)                                                                                        \
    if (strcmp(name, #field) == 0) {                                                                                   \
        TWICE(field, #field)                                                                                           \
        policy->field = policy_push(value);                                                                            \
        return 0;                                                                                                      \
    }
#include "policy.def"
#undef TWICE
    return unknown_field(args, name);
}

int policy_field(const struct args *args, const char *text, struct tarry_policy *policy, uint32_t *fields) {
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) return tool_usage(args, "'%s' is not name=value", text);
    char *name = tool_strdup(text);
    name[equals - text] = 0;
    int status = take_field(args, name, equals + 1, policy, fields);
    free(name);
    return status;
}

/* ---- help */

#define PRESET_DURATION(preset) duration_format(preset, text)
#define PRESET_COUNT(preset) (snprintf(text, sizeof text, "%u", (unsigned)(preset)), text)
#define PRESET_BACKOFF(preset) ((preset) == TARRY__POLICY__BACKOFF__FIXED ? "fixed" : "exponential")

static void print_field(const char *word, const char *argument, const char *help, const char *preset) {
    char left[UNITS_TEXT_SIZE + 32];
    snprintf(left, sizeof left, "%s=%s", word, argument);
    printf("  %-22s ", left);
    for (const char *line; (line = strchr(help, '\n')) != NULL; help = line + 1)
        printf("%.*s\n%25s", (int)(line - help), help, "");
    printf("%s [%s]\n", help, preset);
}

void policy_print_help(void) {
    char text[UNITS_TEXT_SIZE];
    printf("\n");
#define POLICY_NUMBER(field, word, option, kind, least, most, range, preset, argument, help)                           \
    print_field(#word, argument, help, PRESET_##kind(preset));
#define POLICY_LIMIT(field, word, kind, least, most, range, preset, argument, help)                                    \
    print_field(#word, argument, help, preset);
#define POLICY_TEXT(field, argument, help) print_field(#field, argument, help, "none");
#include "policy.def"
}
