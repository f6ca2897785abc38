/* lines.h: lines from a descriptor as they arrive.
 *
 * A line that has arrived is handed out before more is waited for; what one read brings is handed out line by line
 * without another read. The last line may lack its line feed. One thread. */
#ifndef TARRY_TOOL_LINES_H
#define TARRY_TOOL_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A longer line is answered with an error and skipped. The largest payload as base64 fits. */
#define LINE_SIZE_MAX (16u << 20)

struct lines {
    int fd;
    int wake_fd; /* readable: stop; -1: none */
    char *data;  /* owned */
    size_t start;
    size_t searched; /* no line feed between start and here */
    size_t end;
    size_t capacity;
    bool ended;
    bool skipping;     /* inside a line that is too long */
    uint64_t number;   /* of the last line handed out, from 1 */
    uint64_t consumed; /* bytes handed out */
};

enum lines_result {
    LINES_LINE = 0,
    LINES_END = 1,
    LINES_TOO_LONG = 2, /* a line came to its end that was longer than LINE_SIZE_MAX */
    LINES_WOKEN = 3     /* wake_fd */
};

/* The caller keeps both descriptors. */
void lines_init(struct lines *lines, int fd, int wake_fd);
void lines_deinit(struct lines *lines);
/* One of enum lines_result, or a negative errno of read. The line is valid until the next call, without its line
 * feed, not terminated. */
int lines_next(struct lines *lines, const char **out_line, size_t *out_size);

#endif
