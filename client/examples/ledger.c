/* ledger.c: see ledger.h. */
#include "ledger.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES_MAX 10u

struct entry {
    uint64_t submitted_us; /* time at which the order was submitted; 0: not yet */
    bool placed;
    bool paid;
    /* The payment was accepted. According to the reply, the closing task was cancelled before any delivery. */
    bool paid_unseen;
    bool late;
    unsigned closings;
};

struct ledger {
    pthread_mutex_t lock;
    const struct orders *orders;
    uint64_t limit_us;
    struct entry *entries;
    size_t *table; /* hash table: index of the order + 1; 0: free slot */
    size_t table_size;
    float *lateness; /* lateness of each order's first closing, unsorted */
    struct ledger_totals totals;
    size_t settled;
    size_t said;
};

static uint64_t hash(const char *id) {
    uint64_t h = 14695981039346656037ull;
    for (; *id != 0; id++) h = (h ^ (uint8_t)*id) * 1099511628211ull;
    return h;
}

/* Returns the slot of `id` in the table, or the free slot where it belongs. */
static size_t *place_of(const struct ledger *ledger, const char *id) {
    size_t at = hash(id) & (ledger->table_size - 1);
    while (ledger->table[at] != 0 && strcmp(ledger->orders->items[ledger->table[at] - 1].id, id) != 0)
        at = (at + 1) & (ledger->table_size - 1);
    return &ledger->table[at];
}

struct ledger *ledger_new(const struct orders *orders, uint64_t limit_us) {
    struct ledger *ledger = calloc(1, sizeof(*ledger));
    if (ledger == NULL) return NULL;
    pthread_mutex_init(&ledger->lock, NULL);
    ledger->orders = orders;
    ledger->limit_us = limit_us;
    ledger->totals.orders = orders->count;
    ledger->table_size = 16;
    while (ledger->table_size < 2 * orders->count) ledger->table_size *= 2;
    ledger->entries = calloc(orders->count, sizeof(*ledger->entries));
    ledger->table = calloc(ledger->table_size, sizeof(*ledger->table));
    ledger->lateness = calloc(orders->count, sizeof(*ledger->lateness));
    if (ledger->entries == NULL || ledger->table == NULL || ledger->lateness == NULL) goto failed;
    for (size_t i = 0; i < orders->count; i++) {
        size_t *place = place_of(ledger, orders->items[i].id);
        if (*place != 0) {
            fprintf(stderr, "order_timeout: order %s is there twice\n", orders->items[i].id);
            goto failed;
        }
        *place = i + 1;
    }
    return ledger;
failed:
    ledger_free(ledger);
    return NULL;
}

void ledger_free(struct ledger *ledger) {
    if (ledger == NULL) return;
    pthread_mutex_destroy(&ledger->lock);
    free(ledger->entries);
    free(ledger->table);
    free(ledger->lateness);
    free(ledger);
}

/* Reports an error, up to a limited number of messages. Lock held. */
static void say(struct ledger *ledger, const char *what, const char *id, const char *message) {
    if (ledger->said++ < MESSAGES_MAX) fprintf(stderr, "event=%s order=%s message=\"%s\"\n", what, id, message);
}

static const char *id_of(const struct ledger *ledger, size_t order) {
    return ledger->orders->items[order].id;
}

void ledger_submitted(struct ledger *ledger, size_t order, uint64_t now_us) {
    pthread_mutex_lock(&ledger->lock);
    ledger->entries[order].submitted_us = now_us;
    pthread_mutex_unlock(&ledger->lock);
}

void ledger_placed(struct ledger *ledger, size_t order) {
    pthread_mutex_lock(&ledger->lock);
    ledger->entries[order].placed = true;
    ledger->totals.placed++;
    pthread_mutex_unlock(&ledger->lock);
}

void ledger_paid(struct ledger *ledger, size_t order, uint32_t deliveries) {
    pthread_mutex_lock(&ledger->lock);
    struct entry *entry = &ledger->entries[order];
    entry->paid_unseen = deliveries == 0;
    if (entry->closings > 0 && entry->paid_unseen) {
        ledger->totals.broken++;
        say(ledger, "broken", id_of(ledger, order), "the payment was accepted after the order had been closed");
    }
    /* According to the reply, a worker may have received the closing task. If a worker has closed the order, the order
     * counts as closed, not as paid. */
    if (entry->closings == 0) {
        entry->paid = true;
        ledger->totals.paid++;
        ledger->settled++;
    }
    pthread_mutex_unlock(&ledger->lock);
}

void ledger_late(struct ledger *ledger, size_t order) {
    pthread_mutex_lock(&ledger->lock);
    ledger->entries[order].late = true;
    ledger->totals.late++;
    pthread_mutex_unlock(&ledger->lock);
}

void ledger_refused(struct ledger *ledger, const char *what, size_t order, const char *message) {
    pthread_mutex_lock(&ledger->lock);
    ledger->totals.refused++;
    say(ledger, what, id_of(ledger, order), message);
    pthread_mutex_unlock(&ledger->lock);
}

void ledger_closed(struct ledger *ledger, const char *id, uint64_t received_us, double lateness_ms) {
    pthread_mutex_lock(&ledger->lock);
    size_t order = *place_of(ledger, id);
    if (order == 0) { /* the order belongs to another run of the demonstration */
        pthread_mutex_unlock(&ledger->lock);
        return;
    }
    struct entry *entry = &ledger->entries[--order];
    if (entry->submitted_us == 0 || received_us < entry->submitted_us + ledger->limit_us) {
        ledger->totals.early++;
        say(ledger, "early", id, "closed before its limit had passed");
    }
    if (entry->paid_unseen) {
        ledger->totals.broken++;
        say(ledger, "broken", id, "closed although its payment had been accepted");
    }
    if (entry->closings++ > 0) {
        ledger->totals.duplicates++;
    } else {
        /* The payment was accepted, but its reply warned that a worker might have closed the order. */
        if (entry->paid) {
            entry->paid = false;
            ledger->totals.paid--;
            ledger->settled--;
        }
        ledger->lateness[ledger->totals.closed++] = (float)lateness_ms;
        ledger->settled++;
    }
    pthread_mutex_unlock(&ledger->lock);
}

bool ledger_is_settled(struct ledger *ledger) {
    pthread_mutex_lock(&ledger->lock);
    bool settled = ledger->settled == ledger->orders->count;
    pthread_mutex_unlock(&ledger->lock);
    return settled;
}

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void ledger_totals(struct ledger *ledger, struct ledger_totals *out) {
    pthread_mutex_lock(&ledger->lock);
    *out = ledger->totals;
    out->lost = ledger->orders->count - ledger->settled;
    size_t count = ledger->totals.closed;
    float *sorted = count == 0 ? NULL : malloc(count * sizeof(*sorted));
    if (sorted != NULL) memcpy(sorted, ledger->lateness, count * sizeof(*sorted));
    pthread_mutex_unlock(&ledger->lock);
    if (sorted == NULL) return;
    qsort(sorted, count, sizeof(*sorted), compare);
    out->lateness_p50_ms = (double)sorted[count / 2];
    out->lateness_p99_ms = (double)sorted[count * 99 / 100];
    out->lateness_max_ms = (double)sorted[count - 1];
    free(sorted);
}
