/* lines.h: lines from a descriptor, as they arrive.
 *
 * A complete line is returned before the next read. All lines of one read are returned before another read. The last
 * line may have no line feed. One thread. */
#ifndef TARRY_TOOL_LINES_H
#define TARRY_TOOL_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum size of a line in bytes; the largest payload as base64 fits. A longer line is skipped and answered with an
 * error. */
#define LINE_SIZE_MAX (16u << 20)

struct lines {
    int fd;
    int wake_fd; /* descriptor that stops a wait when it becomes readable; -1: none */
    char *data;  /* owned */
    size_t start;
    size_t searched; /* there is no line feed from `start` to this place */
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
    LINES_WOKEN = 3     /* wake_fd is readable */
};

/* The caller owns both descriptors. */
void lines_init(struct lines *lines, int fd, int wake_fd);
void lines_deinit(struct lines *lines);
/* Returns enum lines_result, or a negative errno of read. The line is valid until the next call; it has no line feed
 * and is not terminated. */
int lines_next(struct lines *lines, const char **out_line, size_t *out_size);

#endif
