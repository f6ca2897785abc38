/* totals.c: see totals.h. Time in the log never goes back, so a second is over when the next one begins. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "totals_parts.h"

const uint64_t band_limits_ms[BANDS] = {0, 1, 2, 5, 10, 20, 50, 100, 1000, 10000, 60000, UINT64_MAX};

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

void sum_settle(struct sum *sum) {
    struct second second = sum->now;
    sum->now.records = 0;
    for (size_t i = 0; i < BUSIEST_MAX && second.records > 0; i++) {
        /* Of two seconds with equal counts, the earlier one stays first. */
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
