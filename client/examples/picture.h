/* picture.h: one screen that shows how the day goes. Nothing is drawn unless standard output is a terminal. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger.h"

struct picture {
    bool on;
    uint64_t drawn_us;
    unsigned lines; /* of the last drawing */
};

struct picture_now {
    const struct ledger_totals *totals;
    uint64_t day_s; /* time of day that is being played */
    double speed;
    size_t closers;      /* alive */
    uint64_t silence_ms; /* without a word from the broker */
};

void picture_begin(struct picture *picture);
/* True at most five times a second: time to draw. */
bool picture_is_due(struct picture *picture, uint64_t now_us);
void picture_draw(struct picture *picture, const struct picture_now *now);

#endif
