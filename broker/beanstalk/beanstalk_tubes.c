/* beanstalk_tubes.c: see beanstalk_tubes.h. */
#include "beanstalk_tubes.h"

#include <stdlib.h>
#include <string.h>

/* ---- tubes */

static struct beanstalk_tube **place_of(const struct beanstalk_tubes *tubes, const char *name) {
    uint32_t hash = 2166136261u;
    for (const char *at = name; *at != '\0'; at++) hash = (hash ^ (uint8_t)*at) * 16777619u;
    struct beanstalk_tube *const *place = &tubes->buckets[hash % BEANSTALK_TUBE_BUCKETS];
    while (*place != NULL && strcmp((*place)->name, name) != 0) place = &(*place)->next;
    return (struct beanstalk_tube **)place;
}

static void drop(struct beanstalk_tubes *tubes, struct beanstalk_tube *tube) {
    *place_of(tubes, tube->name) = tube->next;
    TAILQ_REMOVE(&tubes->all, tube, all);
    tubes->count--;
    free(tube);
}

static bool make_room(struct beanstalk_tubes *tubes) {
    struct beanstalk_tube *tube = NULL;
    TAILQ_FOREACH(tube, &tubes->all, all) {
        if (beanstalk_tube_is_referred(tube)) continue;
        drop(tubes, tube);
        return true;
    }
    return false;
}

void beanstalk_tubes_init(struct beanstalk_tubes *tubes) {
    *tubes = (struct beanstalk_tubes){.count = 0};
    TAILQ_INIT(&tubes->all);
}

void beanstalk_tubes_free(struct beanstalk_tubes *tubes) {
    struct beanstalk_tube *tube = NULL;
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): `drop` has removed it
    while ((tube = TAILQ_FIRST(&tubes->all)) != NULL) drop(tubes, tube);
}

struct beanstalk_tube *beanstalk_tube_find(const struct beanstalk_tubes *tubes, const char *name) {
    return *place_of(tubes, name);
}

struct beanstalk_tube *beanstalk_tube_make(struct beanstalk_tubes *tubes, const char *name) {
    struct beanstalk_tube *tube = beanstalk_tube_find(tubes, name);
    if (tube != NULL) return tube;
    if (tubes->count >= BEANSTALK_TUBES_MAX && !make_room(tubes)) return NULL;
    tube = calloc(1, sizeof(*tube));
    if (tube == NULL) return NULL;
    memcpy(tube->name, name, strlen(name) + 1);
    TAILQ_INIT(&tube->lookers);
    struct beanstalk_tube **place = place_of(tubes, name);
    tube->next = *place;
    *place = tube;
    TAILQ_INSERT_TAIL(&tubes->all, tube, all);
    tubes->count++;
    return tube;
}

/* ---- jobs */

static struct beanstalk_note **note_place_of(const struct beanstalk_notes *notes, uint64_t id) {
    struct beanstalk_note *const *place = &notes->buckets[id % BEANSTALK_NOTE_BUCKETS];
    while (*place != NULL && (*place)->id != id) place = &(*place)->next;
    return (struct beanstalk_note **)place;
}

void beanstalk_notes_init(struct beanstalk_notes *notes) {
    *notes = (struct beanstalk_notes){.count = 0};
    TAILQ_INIT(&notes->by_age);
}

void beanstalk_notes_free(struct beanstalk_notes *notes) {
    struct beanstalk_note *note;
    while ((note = TAILQ_FIRST(&notes->by_age)) != NULL) beanstalk_note_drop(notes, note->id);
}

struct beanstalk_note *beanstalk_note_find(const struct beanstalk_notes *notes, uint64_t id) {
    return *note_place_of(notes, id);
}

struct beanstalk_note *beanstalk_note_make(struct beanstalk_notes *notes, uint64_t id) {
    struct beanstalk_note *note = beanstalk_note_find(notes, id);
    if (note != NULL) return note;
    if (notes->count == BEANSTALK_NOTES_MAX) beanstalk_note_drop(notes, TAILQ_FIRST(&notes->by_age)->id);
    note = calloc(1, sizeof(*note));
    if (note == NULL) return NULL;
    note->id = id;
    struct beanstalk_note **place = note_place_of(notes, id);
    note->next = *place;
    *place = note;
    TAILQ_INSERT_TAIL(&notes->by_age, note, by_age);
    notes->count++;
    return note;
}

void beanstalk_note_drop(struct beanstalk_notes *notes, uint64_t id) {
    struct beanstalk_note **place = note_place_of(notes, id);
    struct beanstalk_note *note = *place;
    if (note == NULL) return;
    *place = note->next;
    TAILQ_REMOVE(&notes->by_age, note, by_age);
    notes->count--;
    free(note);
}
