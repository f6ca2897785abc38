/* guard.h: what a stranger must not say, because the broker would be right to obey.
 *
 * The wire knows no credentials: who names a task by its number may cancel it, who names a session may end it. So a
 * request that could name what an honest client owns proves nothing about the broker and is not sent: every id, session
 * and producer must be the stranger's own, or above all that a short life gives out. With a lease's token it is the
 * other way round: a task of anybody's may be named, as long as the token is not one that the broker may have given out
 * (FENCE-1: then nothing may come of it). */
#ifndef TARRY_TESTS_FUZZ_BROKER_GUARD_H
#define TARRY_TESTS_FUZZ_BROKER_GUARD_H

#include "know.h"

struct guard {
    const struct know *know;
    const char *without; /* a body of Request that is not to be sent; NULL: all are */
    bool promotes; /* Pair may change who leads, but not by an operator's word: a false one may lose what it will */
};

/* Judges what the broker would unpack. What cannot be unpacked is harmless. */
bool guard_allows(const struct guard *guard, const void *data, size_t size);

#endif
