/* audit_page.h: one page of the log for one Audit request: the durable frames from a position on that may matter, and
 * the names of the queues that their records mention. Auditor thread only. */
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

/* Where it is read from. */
struct audit_source {
    struct log *log;
    struct index *index;
    const struct archive *archive; /* where retired segments are */
};

/* Names of queues, by number, as far as they were needed. A name, once given, stays. */
struct queue_names {
    struct queue_map map;
    uint64_t known_to; /* the queues that came into being before this position have their names here */
};

/* Reads into `out` (and what it points to, into `arena`) from `position` on, until the page is full, AUDIT_PAGE_MAX_MS
 * have passed, or `committed` is reached, up to which anything may be told. out->next is where to go on, also when
 * there are no frames. 0, or negative: a result of storage, -EINVAL if no frame begins at `position`. */
int audit_page_read(const struct audit_source *source, struct queue_names *names, const Tarry__Audit *audit,
                    uint64_t position, uint64_t committed, struct arena *arena, Tarry__AuditReply *out);

#endif
