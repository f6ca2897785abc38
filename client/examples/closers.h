/* closers.h: consumers of the demonstration, in separate processes, which close due orders.
 *
 * A closer prints a line of JSON for each order that it closes, and acknowledges the task afterwards. If it is
 * killed in between, the order is closed again: a duplicate, but never a loss. */
#ifndef CLOSERS_H
#define CLOSERS_H

#include <stddef.h>
#include <sys/types.h>

#include "ledger.h"

#define CLOSERS_MAX 64

struct closer {
    pid_t pid; /* pid of the consumer; 0: the process has ended */
    int out;   /* descriptor of the process's standard output; -1: the output has ended */
    char line[1024];
    size_t line_size;
};

struct closers {
    struct closer items[CLOSERS_MAX];
    size_t count;
};

/* Starts `count` processes of this program with `--role consumer` and prints their pids on standard error. Call it
 * before using the library, because it forks. 0 or -1. */
int closers_start(struct closers *closers, size_t count, const char *broker, const char *queue);
/* Waits up to `wait_ms` for lines and enters them in the ledger. Returns the number of running closers. */
size_t closers_read(struct closers *closers, struct ledger *ledger, int wait_ms);
/* Asks the closers to end, reads their remaining lines, and waits for them. */
void closers_stop(struct closers *closers, struct ledger *ledger);

/* Main function of a closer process. Returns the exit status. */
int closer_main(const char *broker, const char *queue);

#endif
