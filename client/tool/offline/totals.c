/* totals.c: see totals.h. Times in the log never decrease. So when a record of a later second comes, the count of the
 * second before it is complete. */
#include "totals.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "histogram.h"
#include "json_out.h"
#include "queue_map.h"
#include "rfc3339.h"
#include "row.h"
#include "table.h"
#include "tarry_limits.h"
#include "units.h"

#define BUSIEST_MAX 5
#define BANDS 12

/* Upper limits of the bands of the lateness table. Each band counts deliveries with a lateness above the previous
 * limit, and at most its own limit. */
static const uint64_t band_limits_ms[BANDS] = {0, 1, 2, 5, 10, 20, 50, 100, 1000, 10000, 60000, UINT64_MAX};

struct second {
    uint64_t at_s; /* Unix seconds of the broker's clock */
    uint64_t records;
};

struct sum {                            /* sums of one queue, or of all queues together */
    char name[QUEUE_NAME_SIZE_MAX + 1]; /* the queue's name; its number ("#7") while the name is unknown */
    bool is_named;
    uint64_t counts[ENTRY_KINDS];
    uint64_t records;
    uint64_t bands[BANDS];
    struct histogram late_ms;
    struct second now;                  /* second that is being counted; records 0: no second yet */
    struct second busiest[BUSIEST_MAX]; /* seconds with the most records, the busiest first; records 0: unused */
};

struct totals {
    struct sum all;
    uint64_t first_ms; /* time of the first record; valid if all.records > 0 */
    uint64_t last_ms;
    struct queue_map queues; /* sums by queue; queues that had the same name, one after another, share one sum */
    struct sum **sums;       /* array of all sums, each once */
    size_t sum_count;
};

/* ---- counting */

struct totals *totals_new(void) {
    struct totals *totals = tool_alloc(sizeof *totals);
    memset(totals, 0, sizeof *totals);
    return totals;
}

void totals_free(struct totals *totals) {
    if (totals == NULL) return;
    for (size_t i = 0; i < totals->sum_count; i++) free(totals->sums[i]);
    free(totals->sums);
    queue_map_deinit(&totals->queues, NULL);
    free(totals);
}

/* Ends the second that is being counted: stores it among the busiest ones, if it is one of them. */
static void sum_settle(struct sum *sum) {
    struct second second = sum->now;
    sum->now.records = 0;
    for (size_t i = 0; i < BUSIEST_MAX && second.records > 0; i++) {
        /* Of two seconds with equal counts the earlier one comes first. */
        if (sum->busiest[i].records >= second.records) continue;
        struct second moved = sum->busiest[i];
        sum->busiest[i] = second;
        second = moved;
    }
}

static void sum_take(struct sum *sum, const struct entry *entry) {
    uint64_t at_s = entry_ms(entry) / 1000, late_ms;
    sum->counts[entry_kind(entry)]++;
    sum->records++;
    if (sum->now.records > 0 && sum->now.at_s != at_s) sum_settle(sum);
    sum->now.at_s = at_s;
    sum->now.records++;
    if (!entry_late_ms(entry, &late_ms)) return;
    histogram_record(&sum->late_ms, late_ms);
    size_t band = 0;
    while (late_ms > band_limits_ms[band]) band++;
    sum->bands[band]++;
}

static struct sum *sum_named(const struct totals *totals, const char *name) {
    for (size_t i = 0; name != NULL && i < totals->sum_count; i++)
        if (totals->sums[i]->is_named && strcmp(totals->sums[i]->name, name) == 0) return totals->sums[i];
    return NULL;
}

static struct sum *sum_new(struct totals *totals, uint32_t number) {
    struct sum **sums = realloc(totals->sums, (totals->sum_count + 1) * sizeof(struct sum *));
    if (sums == NULL) tool_out_of_memory();
    struct sum *sum = tool_alloc(sizeof *sum);
    memset(sum, 0, sizeof *sum);
    snprintf(sum->name, sizeof sum->name, "#%u", number);
    totals->sums = sums;
    totals->sums[totals->sum_count++] = sum;
    return sum;
}

static struct sum *sum_of(struct totals *totals, const struct entry *entry, uint32_t number) {
    struct sum *sum = queue_map_get(&totals->queues, number);
    if (sum == NULL) {
        sum = sum_named(totals, entry->queue);
        if (sum == NULL) sum = sum_new(totals, number);
        if (!queue_map_put(&totals->queues, number, sum)) tool_out_of_memory();
    }
    if (!sum->is_named && entry->queue != NULL) {
        snprintf(sum->name, sizeof sum->name, "%s", entry->queue);
        sum->is_named = true;
    }
    return sum;
}

void totals_take(struct totals *totals, const struct entry *entry) {
    uint32_t number = entry_queue(entry);
    if (totals->all.records == 0) totals->first_ms = entry_ms(entry);
    totals->last_ms = entry_ms(entry);
    sum_take(&totals->all, entry);
    if (queue_number_is_valid(number)) sum_take(sum_of(totals, entry, number), entry);
}

/* ---- prints statistics of a log as JSON or as a table (totals.h) */

#define BAR_WIDTH 40
#define COLUMNS 12

static int by_name(const void *a, const void *b) {
    return strcmp((*(struct sum *const *)a)->name, (*(struct sum *const *)b)->name);
}

/* Returns all known queues, sorted by name; the caller frees the array. */
static struct sum **sorted(const struct totals *totals) {
    struct sum **out = tool_alloc((totals->sum_count + 1) * sizeof(struct sum *));
    for (size_t i = 0; i < totals->sum_count; i++) out[i] = totals->sums[i];
    qsort(out, totals->sum_count, sizeof(struct sum *), by_name);
    return out;
}

static uint64_t quantile(const struct sum *sum, double quantile) {
    return histogram_quantile(&sum->late_ms, quantile);
}

/* ---- JSON */

static void json_list(struct text *out, const char *name) {
    out_key(out, name);
    text_add_char(out, '[');
}

/* Begins an object as the next element of a list. */
static void json_element(struct text *out) {
    out_comma(out);
    out_begin(out, '{');
}

static void json_counts(struct text *out, const struct sum *sum) {
    out_key(out, "counts");
    text_add_char(out, '{');
    for (int kind = 1; kind < ENTRY_KINDS; kind++)
        out_number(out, entry_kind_name((enum entry_kind)kind), sum->counts[kind]);
    text_add_char(out, '}');
}

static void json_lateness(struct text *out, const struct sum *sum) {
    out_key(out, "late_ms");
    text_add_char(out, '{');
    out_number(out, "count", sum->late_ms.count);
    out_number(out, "p50", quantile(sum, 0.5));
    out_number(out, "p99", quantile(sum, 0.99));
    out_number(out, "p999", quantile(sum, 0.999));
    out_number(out, "max", sum->late_ms.max);
    json_list(out, "bands");
    for (size_t i = 0; i < BANDS; i++) {
        json_element(out);
        if (band_limits_ms[i] != UINT64_MAX)
            out_number(out, "up_to_ms", band_limits_ms[i]);
        else
            out_null(out, "up_to_ms");
        out_number(out, "count", sum->bands[i]);
        text_add_char(out, '}');
    }
    text_add(out, "]}", 2);
}

static void json_busiest(struct text *out, const struct sum *sum) {
    json_list(out, "busiest");
    for (size_t i = 0; i < BUSIEST_MAX && sum->busiest[i].records > 0; i++) {
        json_element(out);
        out_number(out, "at_ms", sum->busiest[i].at_s * 1000);
        out_number(out, "records", sum->busiest[i].records);
        text_add_char(out, '}');
    }
    text_add_char(out, ']');
}

static void json_sum(struct text *out, struct sum *sum) {
    sum_settle(sum);
    out_number(out, "records", sum->records);
    json_counts(out, sum);
    json_lateness(out, sum);
    json_busiest(out, sum);
}

void totals_json(struct totals *totals, struct text *out) {
    struct sum **queues = sorted(totals);
    const size_t count = totals->sum_count;
    for (size_t i = 0; i < count; i++) {
        out_begin(out, '{');
        out_text(out, "queue", queues[i]->name);
        json_sum(out, queues[i]);
        out_line_end(out);
    }
    out_begin(out, '{');
    out_null(out, "queue");
    if (totals->all.records > 0) {
        out_number(out, "first_ms", totals->first_ms);
        out_number(out, "last_ms", totals->last_ms);
    }
    json_sum(out, &totals->all);
    out_line_end(out);
    free(queues);
}

/* ---- words */

static uint64_t cancelled(const struct sum *sum) {
    return sum->counts[ENTRY_CANCELLED] + sum->counts[ENTRY_WITHDRAWN] + sum->counts[ENTRY_REPLACED] +
           sum->counts[ENTRY_PURGED];
}

static void words_counts(struct text *out, struct sum *const *queues, size_t count) {
    static const char *const heads[COLUMNS] = {"queue",    ">scheduled", ">moved",    ">delivered",
                                               ">acked",   ">retried",   ">returned", ">cancelled",
                                               ">expired", ">dead",      ">requeued", ">dropped"};
    struct table table;
    table_init(&table, heads, COLUMNS);
    for (size_t i = 0; i < count; i++) {
        const uint64_t *counts = queues[i]->counts;
        table_cell(&table, queues[i]->name);
        table_cell_number(&table, counts[ENTRY_SCHEDULED]);
        table_cell_number(&table, counts[ENTRY_MOVED]);
        table_cell_number(&table, counts[ENTRY_LEASED]);
        table_cell_number(&table, counts[ENTRY_ACKED]);
        table_cell_number(&table, counts[ENTRY_RETRIED]);
        table_cell_number(&table, counts[ENTRY_LEASE_LOST] + counts[ENTRY_RELEASED] + counts[ENTRY_UNSENT]);
        table_cell_number(&table, cancelled(queues[i]));
        table_cell_number(&table, counts[ENTRY_EXPIRED]);
        table_cell_number(&table, counts[ENTRY_DEAD]);
        table_cell_number(&table, counts[ENTRY_REQUEUED]);
        table_cell_number(&table, counts[ENTRY_DROPPED]);
    }
    table_print(&table, out);
    table_deinit(&table);
}

/* Prints a number and its bar, for example " 12,345 ██████". */
static void words_bar(struct text *out, uint64_t value, uint64_t max) {
    text_printf(out, "  %10" PRIu64 "  ", value);
    bar_add(out, (double)value, (double)max, BAR_WIDTH);
    while (out->size > 0 && out->data[out->size - 1] == ' ') out->size--;
    text_add_char(out, '\n');
}

static void words_lateness(struct text *out, const struct sum *sum) {
    static const double quantiles[] = {0.5, 0.99, 0.999, 1};
    static const char *const names[] = {"p50", "p99", "p99.9", "max"};
    char duration[UNITS_TEXT_SIZE];
    uint64_t max = 0;
    if (sum->late_ms.count == 0) return;
    text_printf(out, "\nlateness of %s, %" PRIu64 " deliveries:", sum->name, sum->late_ms.count);
    for (size_t i = 0; i < 4; i++)
        text_printf(out, "%s %s %s", i > 0 ? "," : "", names[i],
                    duration_format(quantile(sum, quantiles[i]), duration));
    text_add_char(out, '\n');
    size_t last = 0;
    for (size_t i = 0; i < BANDS; i++) {
        if (sum->bands[i] > 0) last = i;
        if (sum->bands[i] > max) max = sum->bands[i];
    }
    for (size_t i = 0; i <= last; i++) {
        if (band_limits_ms[i] == UINT64_MAX)
            text_printf(out, "  more than %-6s", duration_format(band_limits_ms[i - 1], duration));
        else
            text_printf(out, "  up to %-10s", duration_format(band_limits_ms[i], duration));
        words_bar(out, sum->bands[i], max);
    }
}

static void words_busiest(struct text *out, const struct sum *sum) {
    char time[RFC3339_TEXT_SIZE];
    if (sum->busiest[0].records == 0) return;
    text_add_str(out, "\nbusiest seconds, in records\n");
    for (size_t i = 0; i < BUSIEST_MAX && sum->busiest[i].records > 0; i++) {
        text_printf(out, "  %s", rfc3339_format(sum->busiest[i].at_s * 1000, time));
        words_bar(out, sum->busiest[i].records, sum->busiest[0].records);
    }
}

void totals_words(struct totals *totals, struct text *out) {
    struct sum **queues = sorted(totals);
    const size_t count = totals->sum_count;
    char from[RFC3339_TEXT_SIZE], to[RFC3339_TEXT_SIZE];
    const struct sum *all = &totals->all;
    sum_settle(&totals->all);
    if (all->records == 0) {
        text_add_str(out, "no records\n");
        free(queues);
        return;
    }
    text_printf(out, "%" PRIu64 " records from %s to %s\n", all->records, rfc3339_format(totals->first_ms, from),
                rfc3339_format(totals->last_ms, to));
    text_printf(out, "%" PRIu64 " starts, %" PRIu64 " stops, %" PRIu64 " sessions, %" PRIu64 " producers\n\n",
                all->counts[ENTRY_START], all->counts[ENTRY_STOP], all->counts[ENTRY_SESSION],
                all->counts[ENTRY_PRODUCER]);
    if (count > 0) words_counts(out, queues, count);
    for (size_t i = 0; i < count; i++) words_lateness(out, queues[i]);
    words_busiest(out, all);
    free(queues);
}
