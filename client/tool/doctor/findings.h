/* findings.h: what `tarry doctor` has found, one after another: of what, how bad, a sentence, and what to do. One
 * thread. */
#ifndef TARRY_TOOL_DOCTOR_FINDINGS_H
#define TARRY_TOOL_DOCTOR_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "tool.h"

/* FOUND_FAIL: it does not work, or will lose something. FOUND_WARN: it will not go well for long. */
enum found { FOUND_FINE, FOUND_WARN, FOUND_FAIL };

#define FINDING_TEXT_SIZE 600u
/* Some room is always kept: the broker still takes acks then, and no new tasks. */
#define DISK_MEND                                                                                                      \
    "give the disk room, or keep less (--retain-log-size, --retain-archive-size): shortly before it is full, new "     \
    "tasks "                                                                                                           \
    "are refused"

struct finding {
    enum found found;
    const char *check; /* "disk", "certificate" …; static */
    char what[FINDING_TEXT_SIZE];
    char mend[FINDING_TEXT_SIZE]; /* ""; nothing is to be done */
};

struct findings {
    struct finding *items; /* owned */
    size_t count, capacity;
};

/* Adds one. `mend` (borrowed for the call) NULL: nothing is to be done. */
void finding_add(struct findings *findings, enum found found, const char *check, const char *mend, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));

/* ---- which file looks at what */

/* A data directory and its disk: how much is free, how long a sync takes, what kind of file system. Whether a broker
 * runs on it. */
bool doctor_directory(struct findings *findings, const char *directory);
/* A file of tokens. */
void doctor_tokens(struct findings *findings, const char *path, bool must_exist);
/* This host's clock, and what the broker on `directory` may take: descriptors, locked memory, the cgroup's memory. If
 * none runs there (`is_running` false), what a process that is started from here may. */
void doctor_host(struct findings *findings, const char *directory, bool is_running);
/* The process that has the file DIRECTORY/lock open and is called tarryd; 0: none that may be looked at. */
long doctor_broker_process(const char *directory);
/* A certificate in PEM. */
void doctor_certificate(struct findings *findings, const char *path);
/* Every broker that --broker names, and of a pair the two together. EXIT_FINE, or an exit status after a sentence. */
int doctor_brokers(struct findings *findings, struct tool *tool);

#endif
