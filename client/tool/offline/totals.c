/* totals.c: see totals.h. Time in the log never goes back, so a second is over when the next one begins. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "totals_parts.h"

const uint64_t band_limits_ms[BANDS] = {0, 1, 2, 5, 10, 20, 50, 100, 1000, 10000, 60000, UINT64_MAX};

struct totals *totals_new(void) {
    struct totals *totals = tool_alloc(sizeof *totals);
    memset(totals, 0, sizeof *totals);
    return totals;
}

void totals_free(struct totals *totals) {
    if (totals == NULL) return;
    for (size_t i = 0; i <= QUEUES_MAX; i++) free(totals->queues[i]);
    free(totals);
}

void sum_settle(struct sum *sum) {
    struct second second = sum->now;
    sum->now.records = 0;
    for (size_t i = 0; i < BUSIEST_MAX && second.records > 0; i++) {
        if (sum->busiest[i].records >= second.records) continue; /* of equals the first one stays ahead */
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

static struct sum *sum_of(struct totals *totals, const struct entry *entry, uint32_t number) {
    struct sum *sum = totals->queues[number];
    if (sum == NULL) {
        sum = totals->queues[number] = tool_alloc(sizeof *sum);
        memset(sum, 0, sizeof *sum);
        snprintf(sum->name, sizeof sum->name, "#%u", number);
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
    if (number != 0 && number <= QUEUES_MAX) sum_take(sum_of(totals, entry, number), entry);
}
