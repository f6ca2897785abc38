/* plan.c: see plan.h. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "policy.h"
#include "queue_policy.h"
#include "say.h"
#include "tarry_limits.h"

static bool is_option(const struct args *args, size_t at, const char *option) {
    return strcmp(args->many[at].option, option) == 0;
}

/* Returns the start of the field's name: after the last dot before '='. NULL: there is none. */
static const char *field_of(const char *set) {
    const char *equals = strchr(set, '=');
    const char *dot = equals != NULL ? memrchr(set, '.', (size_t)(equals - set)) : NULL;
    return dot != NULL && dot != set ? dot + 1 : NULL;
}

static bool sets(const char *set, const char *queue) {
    const char *field = field_of(set);
    size_t size = strlen(queue);
    return field != NULL && (size_t)(field - set) - 1 == size && memcmp(set, queue, size) == 0;
}

/* Converts a policy of libtarry to a policy of the core. */
static Tarry__Policy policy_to_proto(const struct tarry_policy *from) {
    Tarry__Policy policy = TARRY__POLICY__INIT;
    policy.lease_ms = from->lease_ms;
    policy.max_attempts = from->max_attempts;
    policy.backoff = from->backoff_exponential ? TARRY__POLICY__BACKOFF__EXPONENTIAL : TARRY__POLICY__BACKOFF__FIXED;
    policy.backoff_min_ms = from->backoff_min_ms;
    policy.backoff_max_ms = from->backoff_max_ms;
    policy.backoff_jitter = from->backoff_jitter;
    policy.rate = from->rate;
    policy.rate_period_ms = from->rate_period_ms;
    policy.burst = from->burst;
    policy.max_in_flight = from->max_in_flight;
    return policy;
}

static const char *out_of_range(const Tarry__Policy *policy, uint32_t fields) {
#define POLICY_NUMBER(field, word, option, kind, least, most, range, preset, value, help)                              \
    if ((fields & 1u << POLICY_AT_##field) != 0 &&                                                                     \
        ((int64_t)policy->field < (int64_t)(least) || policy->field > (most)))                                         \
        return #field " is not within " range;
#define POLICY_TEXT(field, ...)
#include "policy.def"
    return NULL;
}

/* Reads all --set options that concern the queue. */
static int take_sets(struct plans *plans, struct plan *plan) {
    struct tarry_policy policy = {0};
    uint32_t fields = 0;
    int status = 0;
    for (size_t i = 0; i < plans->args->many_count && status == 0; i++) {
        const char *value = plans->args->many[i].value;
        if (is_option(plans->args, i, "set") && sets(value, plan->name))
            status = policy_field(plans->args, field_of(value), &policy, &fields);
    }
    if (status == 0 && (fields & TARRY_POLICY_PUSH) != 0)
        return tool_usage(plans->args, "--set: %s: push has no effect in a dry run, which pushes nothing", plan->name);
    plan->set = policy_to_proto(&policy);
    plan->set_fields = fields;
    const char *wrong = status == 0 ? out_of_range(&plan->set, fields) : NULL;
    return wrong == NULL ? status : tool_usage(plans->args, "--set: %s: %s", plan->name, wrong);
}

static bool is_taken(const struct args *args, const char *name) {
    bool any = false;
    for (size_t i = 0; i < args->many_count; i++) {
        if (!is_option(args, i, "queue")) continue;
        if (strcmp(args->many[i].value, name) == 0) return true;
        any = true;
    }
    return !any;
}

static struct plan *add(struct plans *plans, const char *name) {
    if (plans->count % 64 == 0) {
        struct plan **grown = tool_alloc((plans->count + 64) * sizeof(struct plan *));
        if (plans->count > 0) memcpy(grown, plans->items, plans->count * sizeof(struct plan *));
        free(plans->items);
        plans->items = grown;
    }
    struct plan *plan = tool_alloc(sizeof *plan);
    *plan = (struct plan){.name = tool_strdup(name), .taken = is_taken(plans->args, name)};
    plan->recorded = policy_default();
    plans->items[plans->count++] = plan;
    return plan;
}

struct plan *plans_find(struct plans *plans, const char *name) {
    for (size_t i = 0; i < plans->count; i++)
        if (strcmp(plans->items[i]->name, name) == 0) return plans->items[i];
    return add(plans, name);
}

int plans_init(struct plans *plans, const struct args *args) {
    *plans = (struct plans){.args = args};
    int status = 0;
    for (size_t i = 0; i < args->many_count && status == 0; i++) {
        const char *value = args->many[i].value, *field = field_of(value);
        if (!is_option(args, i, "set")) continue;
        if (field == NULL) {
            status = tool_usage(args, "--set: '%s' is not QUEUE.FIELD=VALUE", value);
            break;
        }
        char *name = tool_strdup(value);
        name[field - value - 1] = 0;
        struct plan *plan = plans_find(plans, name);
        if (plan->set_fields == 0) status = take_sets(plans, plan);
        free(name);
    }
    return status;
}

static int learn(void *argument, const Tarry__QueuePut *put) {
    struct plan *plan = plans_find(argument, put->name);
    plan->recorded = plan_recorded(put->policy);
    return 0;
}

int plans_learn(struct plans *plans, struct store *store) {
    int error = index_each_queue(store->index, learn, plans);
    if (error == 0) return 0;
    return store_damaged(store, "%s: the index cannot be read: %s", store->directory, store_sentence(error));
}

Tarry__Policy plan_recorded(const Tarry__Policy *from) {
    Tarry__Policy policy = *from;
    policy.base.n_unknown_fields = 0;
    policy.base.unknown_fields = NULL;
    policy.push = (char *)protobuf_c_empty_string;
    return policy;
}

const char *plans_not_met(const struct plans *plans) {
    for (size_t i = 0; i < plans->count; i++)
        if (plans->items[i]->set_fields != 0 && !plans->items[i]->told) return plans->items[i]->name;
    return NULL;
}

Tarry__Policy plan_policy(const struct plan *plan) {
    Tarry__Policy policy = plan->recorded;
#define POLICY_NUMBER(field, ...)                                                                                      \
    if ((plan->set_fields & 1u << POLICY_AT_##field) != 0) policy.field = plan->set.field;
#define POLICY_TEXT(field, ...)
#include "policy.def"
    return policy;
}

void plans_deinit(struct plans *plans) {
    for (size_t i = 0; i < plans->count; i++) {
        free(plans->items[i]->name);
        free(plans->items[i]->late.ms);
        free(plans->items[i]);
    }
    free(plans->items);
    *plans = (struct plans){0};
}
