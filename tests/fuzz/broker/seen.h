/* seen.h: what a stranger has read in text answers (HTTP's JSON, beanstalkd's lines): ids of tasks, tokens, cursors.
 * A number sent to the broker must not be an honest client's (guard.h), so requests that name a task are checked
 * before they are sent. */
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
    uint64_t ids[SEEN_MAX]; /* ids of tasks that the stranger made or received: the last SEEN_MAX */
    uint64_t id_count;
    struct seen_lease leases[SEEN_MAX];
    uint64_t lease_count;
    char cursors[8][SEEN_TEXT_SIZE];
    uint64_t cursor_count;
};

/* Learns from JSON or from beanstalkd's lines, which may be truncated. Learns nothing from a text that names an
 * honest client. */
void seen_json(struct seen *seen, const char *text, size_t size);
void seen_lines(struct seen *seen, const char *text, size_t size);

/* Returns an id that the stranger may send: a learned id, an id that no task has, or the id of a filler (a task that
 * roles.py made for no client). */
uint64_t seen_id(const struct seen *seen, struct random *random);
/* Returns a learned lease, or an invalid one. */
struct seen_lease seen_lease(const struct seen *seen, struct random *random);
const char *seen_cursor(const struct seen *seen, struct random *random);

/* Returns whether the request may be sent: every number in it that could be the id of a task must be an allowed one. */
bool seen_allows(const struct seen *seen, const void *data, size_t size);

#endif
