/* closers.h: the consumers of the demonstration: processes of their own that close what falls due.
 *
 * A closer prints a line of JSON for each order that it closes and acknowledges it afterwards, so one that is killed
 * in between has closed it and will see it closed again: a duplicate, never a loss. */
#ifndef CLOSERS_H
#define CLOSERS_H

#include <stddef.h>
#include <sys/types.h>

#include "ledger.h"

#define CLOSERS_MAX 64

struct closer {
    pid_t pid; /* 0: ended */
    int out;   /* what it prints; -1: ended */
    char line[1024];
    size_t line_size;
};

struct closers {
    struct closer items[CLOSERS_MAX];
    size_t count;
};

/* Starts `count` processes of this program with `--role consumer` and says their pids on standard error. To be called
 * before the library is used: they are forked. 0 or -1. */
int closers_start(struct closers *closers, size_t count, const char *broker, const char *queue);
/* Waits up to `wait_ms` for lines and enters them in the ledger. Returns how many closers are alive. */
size_t closers_read(struct closers *closers, struct ledger *ledger, int wait_ms);
/* Asks them to end, reads what they still say, and waits for them. */
void closers_stop(struct closers *closers, struct ledger *ledger);

/* The life of such a process: the exit status. */
int closer_main(const char *broker, const char *queue);

#endif
