/* beanstalk_tubes.h: the tubes that connections name, and what is counted of each.
 *
 * A tube that is named here need not be a queue of the broker: that comes into being with the first job. A tube stays
 * while a connection uses or watches it; beyond BEANSTALK_TUBES_MAX those without a reference go, with their counts.
 * One thread at a time. */
#ifndef TARRY_GATEWAY_BEANSTALK_TUBES_H
#define TARRY_GATEWAY_BEANSTALK_TUBES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "beanstalk_parser.h"

#define BEANSTALK_TUBES_MAX 4096u
#define BEANSTALK_TUBE_BUCKETS 1024u

/* Of a tube's first ranked jobs that are ready, so many are remembered. */
#define BEANSTALK_SEEN_MAX 16u

struct beanstalk_seen {
    uint64_t due_ms;
    uint64_t id;
};

struct beanstalk_tube {
    TAILQ_ENTRY(beanstalk_tube) all; /* in the order of being named first */
    struct beanstalk_tube *next;
    uint32_t using;
    uint32_t watching;
    uint32_t waiting;
    uint64_t deletes;
    uint64_t pauses;
    uint32_t pause_s;        /* of the last pause-tube */
    uint64_t ranked_only_ms; /* then no job that was ready had no rank (beanstalk_choose.c) */
    /* Its first ranked jobs that were ready when they were looked at, less what has been taken since. */
    uint64_t seen_ms; /* then; 0: never */
    uint64_t seen_version;
    uint32_t seen_count;
    bool seen_is_all; /* there were no more */
    struct beanstalk_seen seen[BEANSTALK_SEEN_MAX];
    uint64_t changes; /* so often something was put into it: what is remembered is not so any more */
    char name[BEANSTALK_TUBE_MAX + 1];
};

TAILQ_HEAD(beanstalk_tube_list, beanstalk_tube);

struct beanstalk_tubes {
    struct beanstalk_tube *buckets[BEANSTALK_TUBE_BUCKETS];
    struct beanstalk_tube_list all;
    uint32_t count;
};

void beanstalk_tubes_init(struct beanstalk_tubes *tubes);
void beanstalk_tubes_free(struct beanstalk_tubes *tubes);
/* NULL: no command has named it. */
struct beanstalk_tube *beanstalk_tube_find(const struct beanstalk_tubes *tubes, const char *name);
/* NULL: no memory, or too many that are referred to. */
struct beanstalk_tube *beanstalk_tube_make(struct beanstalk_tubes *tubes, const char *name);
static inline bool beanstalk_tube_is_referred(const struct beanstalk_tube *tube) {
    return tube->using > 0 || tube->watching > 0;
}

#endif
