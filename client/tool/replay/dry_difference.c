/* dry_difference.c: see dry.h. */
#include "dry.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "say.h"
#include "stage.h"
#include "table.h"

#define EXAMPLES_MAX 10u
/* Result of a task that the dry run did not schedule, because the key was still in use. */
#define REFUSED OUTCOME_KINDS

struct side {
    uint64_t outcomes[OUTCOME_KINDS + 1];
    uint64_t deliveries;
    struct lateness late; /* sorted */
};

struct comparison { /* comparison of one queue */
    const struct plan *plan;
    struct side recorded, dry;
    uint64_t tasks, changed;
    const struct life *examples[EXAMPLES_MAX];
    size_t example_count;
};

static enum outcome_kind dry_outcome(const struct life *life) {
    return life->twin != NULL ? life->twin->outcome : REFUSED;
}

static uint64_t dry_deliveries(const struct life *life) {
    return life->twin != NULL ? life->twin->taken : 0;
}

static const char *name_of(enum outcome_kind outcome) {
    return outcome == REFUSED ? "refused" : outcome_kind_name(outcome);
}

static void take_recorded(struct side *side, const struct life *life) {
    side->outcomes[life->outcome]++;
    side->deliveries += life->deliveries;
    for (const struct phase *phase = life->first; phase != NULL; phase = phase->next)
        if (phase->turn != NULL) lateness_add(&side->late, phase, &phase->turn->leased);
}

static void compare_life(struct comparison *comparison, const struct life *life) {
    enum outcome_kind outcome = dry_outcome(life);
    uint64_t deliveries = dry_deliveries(life);
    take_recorded(&comparison->recorded, life);
    comparison->dry.outcomes[outcome]++;
    comparison->dry.deliveries += deliveries;
    comparison->tasks++;
    if (outcome == life->outcome && deliveries == life->deliveries) return;
    comparison->changed++;
    if (comparison->example_count < EXAMPLES_MAX) comparison->examples[comparison->example_count++] = life;
}

static int compare_ms(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t quantile(const struct lateness *late, double share) {
    return late->count > 0 ? late->ms[(size_t)(share * (double)(late->count - 1))] : 0;
}

static void compare(struct comparison *comparison, const struct dry_lives *dry, struct plan *plan) {
    *comparison = (struct comparison){.plan = plan};
    for (size_t i = 0; i < dry->lives->count; i++)
        if (dry->lives->items[i]->plan == plan) compare_life(comparison, dry->lives->items[i]);
    comparison->dry.late = plan->late;
    plan->late = (struct lateness){0};
    struct side *sides[] = {&comparison->recorded, &comparison->dry};
    for (size_t i = 0; i < 2; i++)
        if (sides[i]->late.count > 0) qsort(sides[i]->late.ms, sides[i]->late.count, sizeof(uint32_t), compare_ms);
}

/* ---- JSON */

static void json_side(struct text *out, const char *name, const struct side *side) {
    out_key(out, name);
    text_add_char(out, '{');
    for (enum outcome_kind kind = 0; kind <= REFUSED; kind++)
        text_printf(out, "\"%s\":%" PRIu64 ",", name_of(kind), side->outcomes[kind]);
    text_printf(out, "\"deliveries\":%" PRIu64 ",\"lateness_p50_ms\":%" PRIu64, side->deliveries,
                quantile(&side->late, 0.5));
    text_printf(out, ",\"lateness_p99_ms\":%" PRIu64 ",\"lateness_max_ms\":%" PRIu64 "}", quantile(&side->late, 0.99),
                quantile(&side->late, 1));
}

static void json_examples(struct text *out, const struct comparison *comparison) {
    out_key(out, "examples");
    text_add_char(out, '[');
    for (size_t i = 0; i < comparison->example_count; i++) {
        const struct life *life = comparison->examples[i];
        out_comma(out);
        text_printf(out, "{\"id\":\"%" PRIu64 "\",\"key\":", life->id);
        if (life->key != NULL)
            out_string(out, life->key, life->key_size);
        else
            text_add_str(out, "null");
        text_printf(out, ",\"recorded\":\"%s\",\"recorded_deliveries\":%u,\"dry_run\":\"%s\"", name_of(life->outcome),
                    life->deliveries, name_of(dry_outcome(life)));
        text_printf(out, ",\"dry_run_deliveries\":%" PRIu64 "}", dry_deliveries(life));
    }
    text_add_char(out, ']');
}

static void json_queue(struct text *out, const struct comparison *comparison) {
    out_begin(out, '{');
    out_text(out, "queue", comparison->plan->name);
    out_number(out, "tasks", comparison->tasks);
    out_number(out, "changed", comparison->changed);
    out_number(out, "deliveries_moved", comparison->plan->moved);
    json_side(out, "recorded", &comparison->recorded);
    json_side(out, "dry_run", &comparison->dry);
    json_examples(out, comparison);
    out_line_end(out);
}

/* ---- words */

static void words_example(struct text *out, const struct life *life) {
    text_printf(out, "  %s ", life->plan->name);
    if (life->key != NULL)
        plain_add(out, life->key, life->key_size);
    else
        text_printf(out, "(id %" PRIu64 ")", life->id);
    text_printf(out, ": %s after %" PRIu64 " deliveries, not %s after %u\n", name_of(dry_outcome(life)),
                dry_deliveries(life), name_of(life->outcome), life->deliveries);
}

static void row_of(struct table *table, const struct comparison *comparison, const struct side *side,
                   const char *what) {
    table_cell(table, comparison->plan->name);
    table_cell(table, what);
    for (enum outcome_kind kind = ACKED; kind < OUTCOME_KINDS; kind++) table_cell_number(table, side->outcomes[kind]);
    table_cell_number(table, side->outcomes[LIVE]);
    table_cell_number(table, side->outcomes[REFUSED]);
    table_cell_number(table, side->deliveries);
    table_cell_duration(table, quantile(&side->late, 0.5));
    table_cell_duration(table, quantile(&side->late, 0.99));
    table_cell_duration(table, quantile(&side->late, 1));
}

static void words_totals(const struct dry_lives *dry, uint64_t changed, uint64_t moved) {
    if (changed == 0 && moved == 0)
        tool_say("no differences: all %zu tasks end as they did", dry->lives->count);
    else
        tool_say("%" PRIu64 " of %zu tasks end differently, %" PRIu64 " deliveries happen at another time", changed,
                 dry->lives->count, moved);
    if (dry->assumed > 0)
        tool_say("%" PRIu64 " deliveries are not in the log: the dry run assumes that each goes like the task's "
                 "delivery of the same number, or its last one",
                 dry->assumed);
    if (dry->refused + dry->unmade > 0)
        tool_say("%" PRIu64 " operations were refused, and %" PRIu64
                 " were impossible, because their tasks had ended differently",
                 dry->refused, dry->unmade);
    if (dry->lives->before > 0)
        tool_say("%" PRIu64 " records were skipped, because their tasks were scheduled before the selected range",
                 dry->lives->before);
}

void difference_print(const struct dry_lives *dry, bool json, struct text *out) {
    static const char *const heads[] = {"QUEUE",     "",      ">ACKED", ">CANCELLED", ">EXPIRED",
                                        ">DROPPED",  ">DEAD", ">LIVE",  ">REFUSED",   ">DELIVERED",
                                        ">LATE p50", ">p99",  ">MAX"};
    struct text examples = {0};
    struct table table;
    uint64_t changed = 0, moved = 0;
    table_init(&table, heads, sizeof heads / sizeof *heads);
    for (size_t i = 0; i < dry->lives->plans->count; i++) {
        struct comparison comparison;
        compare(&comparison, dry, dry->lives->plans->items[i]);
        changed += comparison.changed;
        moved += comparison.plan->moved;
        if (comparison.tasks > 0 && json) json_queue(out, &comparison);
        if (comparison.tasks > 0 && !json) {
            row_of(&table, &comparison, &comparison.recorded, "recorded");
            row_of(&table, &comparison, &comparison.dry, "dry run");
        }
        for (size_t k = 0; k < comparison.example_count; k++) words_example(&examples, comparison.examples[k]);
        free(comparison.recorded.late.ms);
        free(comparison.dry.late.ms);
    }
    if (json) {
        out_begin(out, '{');
        out_text(out, "result", changed + moved > 0 ? "different" : "same");
        out_number(out, "tasks", dry->lives->count);
        out_number(out, "changed", changed);
        out_number(out, "deliveries_moved", moved);
        out_number(out, "deliveries_assumed", dry->assumed);
        out_number(out, "refused", dry->refused);
        out_number(out, "impossible", dry->unmade);
        out_number(out, "from_before", dry->lives->before);
        out_line_end(out);
    } else {
        table_print(&table, out);
        text_add(out, examples.data, examples.size);
        words_totals(dry, changed, moved);
    }
    table_deinit(&table);
    text_deinit(&examples);
}
