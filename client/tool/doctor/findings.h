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
/* The worst of all. */
enum found findings_worst(const struct findings *findings);
void findings_deinit(struct findings *findings);

/* ---- who looks at what */

/* A data directory, its disk (how much is free, how long a sync takes, what kind of file system), and its file of
 * tokens
 * (`tokens` NULL: the one in it). */
void doctor_directory(struct findings *findings, const char *directory);
void doctor_tokens(struct findings *findings, const char *path, bool must_exist);
/* This host: clocks, and the limits of processes: descriptors, locked memory, the cgroup's memory. */
void doctor_host(struct findings *findings);
/* A certificate in PEM. */
void doctor_certificate(struct findings *findings, const char *path);
/* Every broker that --broker names, and of a pair the two together. EXIT_FINE, or an exit status after a sentence. */
int doctor_brokers(struct findings *findings, struct tool *tool);

#endif
