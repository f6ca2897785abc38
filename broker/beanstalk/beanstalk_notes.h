/* beanstalk_notes.h: data of a beanstalkd job that Tarry does not store: how often it was released, timed out, buried
 * and kicked, until when it is reserved, and the pri from a put or release with a delay. Notes are kept in memory, for
 * at most BEANSTALK_NOTES_MAX jobs. A further note replaces the oldest one, and a restart loses all notes. One thread
 * at a time. */
#ifndef TARRY_BEANSTALK_NOTES_H
#define TARRY_BEANSTALK_NOTES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define BEANSTALK_NOTES_MAX 65536u
#define BEANSTALK_NOTE_BUCKETS 8192u

struct beanstalk_note {
    TAILQ_ENTRY(beanstalk_note) by_age;
    struct beanstalk_note *next;
    uint64_t id;
    uint64_t deadline_ms; /* end of the reservation, in the server's time; 0: not reserved */
    uint32_t pri;         /* valid if has_pri */
    uint32_t delay_s;     /* valid if has_delay */
    uint64_t burial;      /* serial number of its last burial; 0: none */
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
    struct beanstalk_note_list by_age; /* ordered by age, oldest first */
    uint32_t count;
};

void beanstalk_notes_init(struct beanstalk_notes *notes);
void beanstalk_notes_free(struct beanstalk_notes *notes);
/* Returns NULL if the job has no note. */
struct beanstalk_note *beanstalk_note_find(const struct beanstalk_notes *notes, uint64_t id);
/* Returns the job's note, and creates it if needed; NULL: out of memory. */
struct beanstalk_note *beanstalk_note_make(struct beanstalk_notes *notes, uint64_t id);
void beanstalk_note_drop(struct beanstalk_notes *notes, uint64_t id);

#endif
