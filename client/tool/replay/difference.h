/* difference.h: what a dry run did differently from the record. */
#ifndef TARRY_TOOL_DIFFERENCE_H
#define TARRY_TOOL_DIFFERENCE_H

#include "life.h"
#include "text.h"

/* What came of it. */
struct dry_lives {
    const struct lives *lives; /* as recorded, each with its twin */
    uint64_t assumed;          /* deliveries that the record does not know */
    uint64_t refused;
    uint64_t unmade; /* operations about tasks that are not there, or not in that state */
};

void difference_print(const struct dry_lives *dry, bool json, struct text *out);

#endif
