/* seen.h: what a stranger has read in answers that are text (HTTP's JSON, beanstalkd's lines): ids of tasks, tokens,
 * cursors. Numbers stand for themselves: none of them may be an honest client's (guard.h), so what names a task is
 * looked through before it is said. */
#ifndef TARRY_TESTS_FUZZ_BROKER_SEEN_H
#define TARRY_TESTS_FUZZ_BROKER_SEEN_H

#include <stdbool.h>

#include "know.h"
#include "out.h"

#define SEEN_MAX 512u
#define SEEN_TEXT_SIZE 48u

struct seen_lease {
    uint64_t id;
    char token[SEEN_TEXT_SIZE];
};

struct seen {
    uint64_t ids[SEEN_MAX]; /* of tasks that a stranger has made, or has been given; the last SEEN_MAX */
    uint64_t id_count;
    struct seen_lease leases[SEEN_MAX];
    uint64_t lease_count;
    char cursors[8][SEEN_TEXT_SIZE];
    uint64_t cursor_count;
};

/* Learns from JSON, or from lines of beanstalkd's, which may be cut off. Nothing is learned from a text that names an
 * honest client. */
void seen_json(struct seen *seen, const char *text, size_t size);
void seen_lines(struct seen *seen, const char *text, size_t size);

/* An id that may be named: one of those, one that nobody has, or one of the fillers' (roles.py). */
uint64_t seen_id(const struct seen *seen, struct random *random);
/* A lease; of nobody's if there is none. */
struct seen_lease seen_lease(const struct seen *seen, struct random *random);
const char *seen_cursor(const struct seen *seen, struct random *random);

/* May this be said? Whatever number could be taken for a task's id is one that may be named. */
bool seen_allows(const struct seen *seen, const void *data, size_t size);

#endif
