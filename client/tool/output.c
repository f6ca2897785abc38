/* output.c: see output.h. */
#include "output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "say.h"
#include "signals.h"

/* Time in ms after a signal during which the tool waits for the reader of standard output, to finish a line that is
 * partly written. */
#define FINISH_LINE_MS 2000

static bool lost;

bool output_lost(void) {
    return lost;
}

bool output_closed(void) {
    struct pollfd fd = {
        .fd = STDOUT_FILENO}; /* no `events` are needed, because poll always reports POLLERR and POLLNVAL */
    if (!lost && poll(&fd, 1, 0) > 0 && (fd.revents & (POLLERR | POLLNVAL)) != 0) lost = true;
    return lost;
}

/* Returns whether a write to the descriptor may block: it is a pipe, socket or terminal. */
static bool may_block(void) {
    struct stat status;
    return fstat(STDOUT_FILENO, &status) != 0 || !S_ISREG(status.st_mode);
}

/* Waits until standard output is writable. Returns false if a signal has asked for the end. `inside_line`: a line is
 * partly written; after the signal, waits up to FINISH_LINE_MS before it returns false. */
static bool wait_writable(bool inside_line) {
    struct pollfd fds[2] = {{.fd = STDOUT_FILENO, .events = POLLOUT}, {.fd = signals_fd(), .events = POLLIN}};
    for (;;) {
        bool last_chance = signals_ended() && inside_line;
        int count = poll(fds, last_chance ? 1 : 2, last_chance ? FINISH_LINE_MS : -1);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 || fds[0].revents != 0) return true;
        if (count == 0 || !inside_line) return false;
    }
}

/* Returns the size of the next write. After poll, a write of this size does not block. It ends with a line if possible.
 */
static size_t portion(const char *data, size_t size) {
    if (size <= PIPE_BUF) return size;
    const char *feed = memrchr(data, '\n', PIPE_BUF);
    return feed != NULL ? (size_t)(feed - data) + 1 : PIPE_BUF;
}

size_t output_write(struct text *text, bool interruptible) {
    size_t done = 0;
    bool slow = interruptible && may_block();
    if (text->failed) tool_out_of_memory();
    while (done < text->size && !lost) {
        bool inside_line = done > 0 && text->data[done - 1] != '\n';
        if (slow && !wait_writable(inside_line)) break;
        size_t left = text->size - done;
        ssize_t count = write(STDOUT_FILENO, text->data + done, slow ? portion(text->data + done, left) : left);
        if (count > 0) {
            done += (size_t)count;
        } else if (count < 0 && errno == EAGAIN) {
            if (!wait_writable(inside_line || !interruptible) && interruptible) break;
        } else if (count == 0 || errno != EINTR) {
            lost = true;
            if (errno != EPIPE) tool_say("standard output: %s", strerror(errno));
        }
    }
    text->size = 0;
    return done;
}

int output_flush(struct text *text, int status) {
    output_write(text, false);
    return lost && status == EXIT_FINE ? EXIT_REFUSED : status;
}
