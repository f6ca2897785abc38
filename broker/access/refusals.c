/* refusals.c: see refusals.h. */
#include "refusals.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static bool is_due(const struct refusal *row, uint64_t now_ms) {
    return row->told_ms == 0 || now_ms - row->told_ms >= REFUSALS_AGAIN_MS;
}

/* Returns the row of this kind. Otherwise reuses the row without unreported refusals that was reported longest ago. If
 * there is none, returns the row `others`. */
static struct refusal *row_of(struct refusals *refusals, const struct refusal *kind) {
    struct refusal *free_row = NULL;
    for (size_t i = 0; i < REFUSALS_ROWS; i++) {
        struct refusal *row = &refusals->rows[i];
        bool is_it = row->why == kind->why && strcmp(row->address, kind->address) == 0 &&
                     strcmp(row->principal, kind->principal) == 0 &&
                     strcmp(row->what != NULL ? row->what : "", kind->what) == 0;
        if (is_it) return row;
        if (row->count == 0 && (free_row == NULL || row->told_ms < free_row->told_ms)) free_row = row;
    }
    if (free_row == NULL) return &refusals->others;
    *free_row = *kind;
    return free_row;
}

bool refusals_add(struct refusals *refusals, Tarry__AccessRefused__Why why, const char *peer, const char *principal,
                  const char *what, uint64_t count, uint64_t now_ms) {
    struct refusal kind = {.why = why, .what = what};
    assert(now_ms != 0 && count != 0);
    failures_address(peer, kind.address);
    snprintf(kind.principal, sizeof(kind.principal), "%s", principal);
    struct refusal *row = row_of(refusals, &kind);
    bool is_first = row->count == 0;
    if (is_first) row->first_ms = now_ms;
    row->last_ms = now_ms;
    row->count += count;
    return is_first && is_due(row, now_ms);
}

static bool take(struct refusals *refusals, struct refusal *row, uint64_t now_ms, bool all, struct refusal *out) {
    if (row->count == 0 || !(all || is_due(row, now_ms)) || refusals->told >= REFUSALS_TOLD_MAX) return false;
    refusals->told++;
    *out = *row;
    if (out->what == NULL) out->what = "";
    row->count = 0;
    row->told_ms = now_ms;
    return true;
}

size_t refusals_take(struct refusals *refusals, uint64_t now_ms, bool all, struct refusal out[REFUSALS_TOLD_MAX]) {
    size_t count = 0, begin = refusals->turn;
    if (now_ms - refusals->window_ms >= REFUSALS_AGAIN_MS) {
        refusals->window_ms = now_ms;
        refusals->told = 0;
    }
    /* The row `others` comes first, so that it is recorded even if all other rows have refusals. */
    count += take(refusals, &refusals->others, now_ms, all, &out[count]);
    for (size_t i = 0; i < REFUSALS_ROWS && refusals->told < REFUSALS_TOLD_MAX; i++) {
        size_t at = (begin + i) % REFUSALS_ROWS;
        if (!take(refusals, &refusals->rows[at], now_ms, all, &out[count])) continue;
        count++;
        refusals->turn = (at + 1) % REFUSALS_ROWS;
    }
    return count;
}
