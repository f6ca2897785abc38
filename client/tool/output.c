/* output.c: see output.h. */
#include "output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "signals.h"
#include "tool.h"

static bool lost;

bool output_lost(void) {
    return lost;
}

/* A pipe, socket or terminal may block. */
static bool may_block(void) {
    struct stat status;
    return fstat(STDOUT_FILENO, &status) != 0 || !S_ISREG(status.st_mode);
}

/* Waits until standard output takes something; false: a signal asked for the end. */
static bool wait_writable(void) {
    struct pollfd fds[2] = {{.fd = STDOUT_FILENO, .events = POLLOUT}, {.fd = signals_fd(), .events = POLLIN}};
    for (;;) {
        int count = poll(fds, 2, -1);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 || fds[0].revents != 0) return true;
        if (fds[1].revents != 0) return false;
    }
}

size_t output_write(struct text *text, bool interruptible) {
    size_t done = 0;
    bool slow = interruptible && may_block();
    while (done < text->size && !lost) {
        size_t size = text->size - done;
        if (slow) {
            if (!wait_writable()) break;
            if (size > PIPE_BUF) size = PIPE_BUF; /* so much fits without blocking once poll says writable */
        }
        ssize_t count = write(STDOUT_FILENO, text->data + done, size);
        if (count > 0) {
            done += (size_t)count;
        } else if (count < 0 && errno == EAGAIN) {
            if (!wait_writable() && interruptible) break;
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
