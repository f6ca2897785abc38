/* audit_page.h: reads one result page of the log for an Audit request: the durable frames from a position on that may
 * be relevant, and the names of the queues in their records. Auditor thread only. */
#ifndef TARRY_SHELL_AUDIT_PAGE_H
#define TARRY_SHELL_AUDIT_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "queue_map.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

struct archive;
struct index;
struct log;

/* Data sources of the audit. */
struct audit_source {
    struct log *log;
    struct index *index;
    const struct archive *archive; /* the archive of retired segments */
};

/* Names of queues by number, loaded on demand. A name is never removed. */
struct queue_names {
    struct queue_map map;
    uint64_t known_to; /* `map` has the names of all queues created before this log position */
};

/* Reads frames from `position` on into `out`, which points into `arena`. Stops when the page is full, AUDIT_PAGE_MAX_MS
 * have passed, or the position `committed` is reached: later frames must not be shown yet. out->next is the position to
 * continue at, even if no frame was found. Returns 0 or a negative storage error; -EINVAL if no frame begins at
 * `position`. */
int audit_page_read(const struct audit_source *source, struct queue_names *names, const Tarry__Audit *audit,
                    uint64_t position, uint64_t committed, struct arena *arena, Tarry__AuditReply *out);

#endif
