/* findings.h: findings of `tarry doctor`: what was checked, how bad it is, a sentence, and what to do. One thread. */
#ifndef TARRY_TOOL_DOCTOR_FINDINGS_H
#define TARRY_TOOL_DOCTOR_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "tool.h"

/* Severity of a finding. FOUND_FAIL: something does not work, or data may be lost. FOUND_WARN: something will fail in
 * the future. */
enum found { FOUND_FINE, FOUND_WARN, FOUND_FAIL };

#define FINDING_TEXT_SIZE 600u
/* Advice for a full disk. Some space is always reserved, so the broker still accepts acks, but no new tasks. */
#define DISK_MEND                                                                                                      \
    "free some disk space, or keep less (--retain-log-size, --retain-archive-size): shortly before the disk is full, " \
    "the broker refuses new tasks"

struct finding {
    enum found found;
    const char *check; /* "disk", "certificate" …; static */
    char what[FINDING_TEXT_SIZE];
    char mend[FINDING_TEXT_SIZE]; /* advice to the operator; empty: none is needed */
};

struct findings {
    struct finding *items; /* owned */
    size_t count, capacity;
};

/* Adds a finding. `mend`: advice to the operator, which is copied; NULL: none is needed. */
void finding_add(struct findings *findings, enum found found, const char *check, const char *mend, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));

/* ---- doctor_brokers.c */

/* Checks a certificate in PEM. */
void doctor_certificate(struct findings *findings, const char *path);
/* Checks each broker in --broker, and both nodes of a pair together. EXIT_FINE, or an exit status after an error
 * message. */
int doctor_brokers(struct findings *findings, struct tool *tool);

#endif
