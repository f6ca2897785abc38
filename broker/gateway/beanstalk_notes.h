/* beanstalk_notes.h: what beanstalkd knows of a job and Tarry's rows do not: how often it was released, timed out,
 * buried and kicked, until when it is reserved, and the pri that a put or a release with a delay gave it.
 *
 * Kept in memory, for BEANSTALK_NOTES_MAX jobs at most: beyond it the oldest note goes, and a restart forgets all. One
 * thread at a time. */
#ifndef TARRY_GATEWAY_BEANSTALK_NOTES_H
#define TARRY_GATEWAY_BEANSTALK_NOTES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define BEANSTALK_NOTES_MAX 65536u
#define BEANSTALK_NOTE_BUCKETS 8192u

struct beanstalk_note {
    TAILQ_ENTRY(beanstalk_note) by_age;
    struct beanstalk_note *next;
    uint64_t id;
    uint64_t deadline_ms; /* reserved until then, in the server's time; 0: it is not */
    uint32_t pri;         /* valid if has_pri */
    uint32_t delay_s;     /* valid if has_delay */
    uint64_t burial;      /* which of all burials its last one was; 0: none */
    bool has_pri;
    bool has_delay;
    uint32_t timeouts;
    uint32_t releases;
    uint32_t buries;
    uint32_t kicks;
};

TAILQ_HEAD(beanstalk_note_list, beanstalk_note);

struct beanstalk_notes {
    struct beanstalk_note *buckets[BEANSTALK_NOTE_BUCKETS];
    struct beanstalk_note_list by_age; /* the oldest first */
    uint32_t count;
};

void beanstalk_notes_init(struct beanstalk_notes *notes);
void beanstalk_notes_free(struct beanstalk_notes *notes);
/* NULL: nothing is noted. */
struct beanstalk_note *beanstalk_note_find(const struct beanstalk_notes *notes, uint64_t id);
/* An empty one if there was none; NULL: no memory. */
struct beanstalk_note *beanstalk_note_make(struct beanstalk_notes *notes, uint64_t id);
void beanstalk_note_drop(struct beanstalk_notes *notes, uint64_t id);

#endif
