/* picture.h: one screen that shows the progress of the day. It draws only if standard output is a terminal. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger.h"

struct picture {
    bool on;
    uint64_t drawn_us;
    unsigned lines; /* number of lines in the last drawing */
};

struct picture_now {
    const struct ledger_totals *totals;
    uint64_t day_s; /* time of the simulated day that has been reached, in seconds */
    double speed;
    size_t closers;      /* running closers */
    uint64_t silence_ms; /* time without a reply from the broker */
};

void picture_begin(struct picture *picture);
/* True at most five times a second, when the picture should be drawn. */
bool picture_is_due(struct picture *picture, uint64_t now_us);
void picture_draw(struct picture *picture, const struct picture_now *now);

#endif
