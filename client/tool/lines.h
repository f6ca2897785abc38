/* lines.h: lines of input, and their arguments. */
#ifndef TARRY_TOOL_LINES_H
#define TARRY_TOOL_LINES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "tarry.h"
#include "tarry_limits.h"

/* ---- lines */

/* Lines from a descriptor, as they arrive.
 *
 * A complete line is returned before the next read. All lines of one read are returned before another read. The last
 * line may have no line feed. One thread. */

/* Maximum size of a line in bytes; the largest payload as base64 fits. A longer line is skipped and answered with an
 * error. */
#define LINE_SIZE_MAX (16u << 20)

struct lines {
    int fd;
    int wake_fd; /* descriptor that stops a wait when it becomes readable; -1: none */
    char *data;  /* owned */
    size_t start;
    size_t searched; /* the bytes from `start` to this place have no line feed */
    size_t end;
    size_t capacity;
    bool ended;
    bool skipping;     /* true: the bytes at `start` belong to a line that is too long */
    uint64_t number;   /* number of the last returned line, from 1 */
    uint64_t consumed; /* bytes of the returned lines */
};

enum lines_result {
    LINES_LINE = 0,
    LINES_END = 1,
    LINES_TOO_LONG = 2, /* a line was longer than LINE_SIZE_MAX; it was skipped */
    LINES_WOKEN = 3     /* wake_fd has become readable */
};

/* Starts to read lines from `fd`. The caller owns both descriptors and closes them. */
void lines_init(struct lines *lines, int fd, int wake_fd);
void lines_deinit(struct lines *lines);
/* Returns enum lines_result, or a negative errno of read. The line is valid until the next call; it has no line feed
 * and is not terminated. */
int lines_next(struct lines *lines, const char **out_line, size_t *out_size);

/* ---- arguments */

/* One JSON line of a stream as the arguments of a call. The lines are those of POST /v1/tasks and of
 * /v1/commit: proto/json reads them.
 *
 * Only the broker checks limits of names, keys and payloads, so that each rule has one place and one message. */

enum verb { VERB_SCHEDULE, VERB_CANCEL, VERB_MOVE };

struct fields {
    json_t *root; /* the parsed JSON, which owns the strings below; NULL: the line is not JSON */
    struct arena arena;
    struct tarry_schedule_options schedule; /* VERB_SCHEDULE */
    struct tarry_ref ref; /* the task that the line names; set for every verb, and also after a failure */
    enum tarry_when when; /* VERB_MOVE */
    uint64_t when_ms;
    bool withdraw; /* VERB_CANCEL */
    struct tarry_attribute attributes[ATTRIBUTES_MAX];
    struct tarry_own_policy own; /* VERB_SCHEDULE */
    char message[200];           /* error message, after a failure */
};

/* Returns TARRY_OK, TARRY_INVALID or TARRY_TOO_LARGE. Pass `fields` to fields_deinit in each case. */
int fields_parse(struct fields *fields, enum verb verb, const char *line, size_t size);
void fields_deinit(struct fields *fields);

#endif
