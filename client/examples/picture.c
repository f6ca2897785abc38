/* picture.c: see picture.h. */
#include "picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define DRAW_EVERY_US 200000u
#define BAR_WIDTH 50
#define SILENCE_SHOWN_MS 300u

void picture_begin(struct picture *picture) {
    *picture = (struct picture){.on = isatty(STDOUT_FILENO) == 1};
}

bool picture_is_due(struct picture *picture, uint64_t now_us) {
    if (!picture->on || now_us < picture->drawn_us + DRAW_EVERY_US) return false;
    picture->drawn_us = now_us;
    return true;
}

static void line_end(struct picture *picture) {
    fputs("\033[K\n", stdout);
    picture->lines++;
}

static void bar(struct picture *picture, const char *name, const char *color, size_t value, size_t whole) {
    int filled = whole == 0 ? 0 : (int)(value * BAR_WIDTH / whole);
    if (filled > BAR_WIDTH) filled = BAR_WIDTH;
    printf("  %-9s%8zu  %s", name, value, color);
    for (int i = 0; i < filled; i++) fputs("█", stdout);
    fputs("\033[0m", stdout);
    for (int i = filled; i < BAR_WIDTH; i++) fputs("·", stdout);
    line_end(picture);
}

void picture_draw(struct picture *picture, const struct picture_now *now) {
    const struct ledger_totals *totals = now->totals;
    if (!picture->on) return;
    if (picture->lines > 0) printf("\033[%uA", picture->lines);
    picture->lines = 0;
    printf("  a day of orders, %.0f times faster than life        %02" PRIu64 ":%02" PRIu64, now->speed,
           now->day_s / 3600 % 24, now->day_s / 60 % 60);
    line_end(picture);
    line_end(picture);
    size_t settled = totals->paid + totals->closed;
    bar(picture, "placed", "\033[36m", totals->placed, totals->orders);
    bar(picture, "paid", "\033[32m", totals->paid, totals->orders);
    bar(picture, "closed", "\033[33m", totals->closed, totals->orders);
    bar(picture, "pending", "\033[35m", totals->placed > settled ? totals->placed - settled : 0, totals->orders);
    line_end(picture);
    printf("  closed after due   p50 %.0f ms   p99 %.0f ms   worst %.0f ms", totals->lateness_p50_ms,
           totals->lateness_p99_ms, totals->lateness_max_ms);
    line_end(picture);
    printf("  early %zu   broken %zu   closed twice %zu   paid too late %zu", totals->early, totals->broken,
           totals->duplicates, totals->late);
    line_end(picture);
    if (now->silence_ms >= SILENCE_SHOWN_MS)
        printf("  \033[31mbroker away for %.1f s\033[0m", (double)now->silence_ms / 1000);
    else
        printf("  broker there");
    printf("   consumers %zu", now->closers);
    line_end(picture);
    fflush(stdout);
}
