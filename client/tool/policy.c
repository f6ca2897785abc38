/* policy.c: see policy.h. */
#include "policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "tarry_limits.h"
#include "tool.h"
#include "units.h"

/* A duration; for a name with _ms, as in JSON, a number of milliseconds. */
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

/* rate=N, or rate=N/s, N/min, N/h, N/DUR, which sets the period too. */
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
}

const char *policy_push(const char *value) {
    return strcmp(value, "none") == 0 ? "" : value;
}

/* Reports an unknown field, with the list of the known ones. */
static int policy_unknown(const struct args *args, const char *name, const char *const *names, size_t count) {
    struct text known = {0};
    for (size_t i = 0; i < count; i++)
        text_printf(&known, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " and ", names[i]);
    int status = tool_usage(args, "unknown policy field '%s': the fields are %s", name, text_str(&known));
    text_deinit(&known);
    return status;
}

int policy_field(const struct args *args, const char *text, struct tarry_policy *policy, uint32_t *fields) {
    enum { FIELDS = QUEUE_POLICY_FIELDS };
    /* In the order of enum tarry_policy_field. */
    static const char *const names[FIELDS] = {"lease",       "max_attempts",   "backoff", "backoff_min",
                                              "backoff_max", "backoff_jitter", "rate",    "rate_period",
                                              "burst",       "max_in_flight",  "push"};
    /* NULL: the field is not a duration. */
    static const char *const names_ms[FIELDS] = {
        [0] = "lease_ms", [3] = "backoff_min_ms", [4] = "backoff_max_ms", [7] = "rate_period_ms"};
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) return tool_usage(args, "'%s' is not name=value", text);
    char *name = tool_strdup(text);
    name[equals - text] = 0;
    const char *value = equals + 1;
    int place = 0, status = 0;
    while (place < FIELDS && strcmp(name, names[place]) != 0 &&
           (names_ms[place] == NULL || strcmp(name, names_ms[place]) != 0))
        place++;
    const char *near = place == FIELDS ? nearest(name, names, FIELDS) : NULL;
    if (place < FIELDS && (*fields & 1u << place) != 0) {
        status = tool_usage(args, "%s is given twice", names[place]);
    } else
        switch (place) {
        case 0:
            status = policy_duration(args, name, value, &policy->lease_ms);
            break;
        case 1:
            status = policy_number(args, name, value, &policy->max_attempts);
            break;
        case 2:
            policy->backoff_exponential = strcmp(value, "exponential") == 0;
            if (!policy->backoff_exponential && strcmp(value, "fixed") != 0)
                status = tool_usage(args, "backoff: '%s' is not fixed or exponential", value);
            break;
        case 3:
            status = policy_duration(args, name, value, &policy->backoff_min_ms);
            break;
        case 4:
            status = policy_duration(args, name, value, &policy->backoff_max_ms);
            break;
        case 5:
            status = policy_number(args, name, value, &policy->backoff_jitter);
            break;
        case 6:
            status = policy_rate(args, value, policy, fields);
            break;
        case 7:
            status = policy_duration(args, name, value, &policy->rate_period_ms);
            break;
        case 8:
            status = policy_number(args, name, value, &policy->burst);
            break;
        case 9:
            status = policy_number(args, name, value, &policy->max_in_flight);
            break;
        case 10:
            policy->push = policy_push(value);
            break;
        default:
            status = near != NULL ? tool_usage(args, "unknown policy field '%s' (did you mean '%s'?)", name, near)
                                  : policy_unknown(args, name, names, FIELDS);
        }
    if (place < FIELDS) *fields |= 1u << place;
    free(name);
    return status;
}
