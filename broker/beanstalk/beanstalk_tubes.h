/* beanstalk_tubes.h: the tubes that connections name, and their statistics.
 *
 * A tube may exist here without a queue in the broker, which its first job creates. A tube stays while a connection
 * uses or watches it. Beyond BEANSTALK_TUBES_MAX, tubes that no connection uses are dropped with their statistics. One
 * thread at a time. */
#ifndef TARRY_BEANSTALK_TUBES_H
#define TARRY_BEANSTALK_TUBES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "beanstalk_parser.h"

/* ---- tubes */

#define BEANSTALK_TUBES_MAX 4096u
#define BEANSTALK_TUBE_BUCKETS 1024u

/* Maximum number of cached first ready jobs of a tube (ranked ones only). */
#define BEANSTALK_SEEN_MAX 64u

struct beanstalk_seen {
    uint64_t due_ms;
    uint64_t id;
};

struct beanstalk_connection;
TAILQ_HEAD(beanstalk_lookers, beanstalk_connection);

struct beanstalk_tube {
    TAILQ_ENTRY(beanstalk_tube) all; /* the list is in the order in which the tubes were first named */
    struct beanstalk_tube *next;
    uint32_t using;
    uint32_t watching;
    uint32_t waiting;
    uint64_t deletes;
    uint64_t pauses;
    uint32_t pause_s;        /* argument of the last pause-tube */
    uint64_t ranked_only_ms; /* last time at which every ready job of the tube had a rank (beanstalk_reserve.c) */
    /* Cache of the tube's first ready jobs with a rank. It shows the state at `seen_ms`; jobs that were leased later
     * are removed. */
    uint64_t seen_ms; /* time at which the cache was filled; 0: never */
    uint64_t seen_version;
    uint32_t seen_count;
    bool seen_is_all; /* the cache contains all ranked ready jobs of the tube */
    struct beanstalk_seen seen[BEANSTALK_SEEN_MAX];
    /* Number of changes to the order of the tube's jobs; the cache is valid while `seen_version` equals it. */
    uint64_t changes;
    struct beanstalk_connection *looker; /* the connection that is asking the broker for the tube's jobs; NULL: none */
    struct beanstalk_lookers lookers;    /* the connections that wait for the looker's result */
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
/* Returns NULL if no command has named the tube. */
struct beanstalk_tube *beanstalk_tube_find(const struct beanstalk_tubes *tubes, const char *name);
/* Returns the tube, and creates it if needed. NULL: out of memory, or too many tubes in use. */
struct beanstalk_tube *beanstalk_tube_make(struct beanstalk_tubes *tubes, const char *name);
static inline bool beanstalk_tube_is_referred(const struct beanstalk_tube *tube) {
    return tube->using > 0 || tube->watching > 0;
}

/* ---- jobs */

/* A *note* contains the data of a beanstalkd job that Tarry does not store. It counts how often the job was released,
 * timed out, buried and kicked. It also has the end of the reservation, and the pri from a put or release with a delay.
 * Notes are kept in memory, for at most BEANSTALK_NOTES_MAX jobs. A further note replaces the oldest one, and a restart
 * loses all notes. Only one thread at a time may use the notes. */

#define BEANSTALK_NOTES_MAX 65536u
#define BEANSTALK_NOTE_BUCKETS 8192u

struct beanstalk_note {
    TAILQ_ENTRY(beanstalk_note) by_age;
    struct beanstalk_note *next;
    uint64_t id;
    uint64_t deadline_ms; /* end of the reservation, in the server's time; 0: not reserved */
    uint32_t pri;         /* pri of the last release, or of a put with a delay; valid if has_pri */
    uint32_t delay_s;     /* delay of the last release, in seconds; valid if has_delay */
    uint64_t burial;      /* serial number of the job's last burial; 0: none */
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
    struct beanstalk_note_list by_age; /* list of all notes, the oldest first */
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
