/* lines.c: see lines.h. */
#include "lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"

#define READ_SIZE (64u << 10)

void lines_init(struct lines *lines, int fd, int wake_fd) {
    *lines = (struct lines){.fd = fd, .wake_fd = wake_fd};
}

void lines_deinit(struct lines *lines) {
    free(lines->data);
    lines->data = NULL;
}

/* Reserves space for a read at `end`. */
static void make_room(struct lines *lines) {
    if (lines->start > 0 && lines->capacity - lines->end < READ_SIZE) {
        memmove(lines->data, lines->data + lines->start, lines->end - lines->start);
        lines->searched -= lines->start;
        lines->end -= lines->start;
        lines->start = 0;
    }
    if (lines->capacity - lines->end < READ_SIZE) {
        size_t capacity = lines->capacity == 0 ? 4 * READ_SIZE : lines->capacity * 2;
        char *data = tool_alloc(capacity);
        if (lines->end > 0) memcpy(data, lines->data, lines->end);
        free(lines->data);
        lines->data = data;
        lines->capacity = capacity;
    }
}

/* Reads more bytes. Returns LINES_LINE if bytes were read or the input has ended. */
static int read_more(struct lines *lines) {
    make_room(lines);
    struct pollfd fds[2] = {{.fd = lines->fd, .events = POLLIN}, {.fd = lines->wake_fd, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR) return -errno;
        if (fds[1].revents != 0) return LINES_WOKEN;
        if (fds[0].revents == 0) continue;
        ssize_t count = read(lines->fd, lines->data + lines->end, lines->capacity - lines->end);
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (count < 0) return -errno;
        if (count == 0) lines->ended = true;
        lines->end += (size_t)count;
        return LINES_LINE;
    }
}

/* Returns the line of `size` bytes at `start`. `feed`: size of the line end after it. */
static int hand_out(struct lines *lines, size_t size, size_t feed, const char **out_line, size_t *out_size) {
    bool too_long = lines->skipping || size > LINE_SIZE_MAX;
    *out_line = lines->data + lines->start;
    *out_size = size;
    lines->start += size + feed;
    lines->searched = lines->start;
    lines->consumed += size + feed;
    lines->skipping = false;
    lines->number++;
    return too_long ? LINES_TOO_LONG : LINES_LINE;
}

int lines_next(struct lines *lines, const char **out_line, size_t *out_size) {
    for (;;) {
        size_t left = lines->end - lines->searched;
        const char *feed = left > 0 ? memchr(lines->data + lines->searched, '\n', left) : NULL;
        if (feed != NULL) return hand_out(lines, (size_t)(feed - (lines->data + lines->start)), 1, out_line, out_size);
        lines->searched = lines->end;
        if (lines->end - lines->start > LINE_SIZE_MAX) { /* drop the line, but remember to report it */
            lines->skipping = true;
            lines->consumed += lines->end - lines->start;
            lines->start = lines->searched = lines->end = 0;
        }
        if (lines->ended) {
            if (lines->end == lines->start && !lines->skipping) return LINES_END;
            return hand_out(lines, lines->end - lines->start, 0, out_line, out_size);
        }
        int result = read_more(lines);
        if (result != LINES_LINE) return result;
    }
}
