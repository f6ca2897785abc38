/* beanstalk_notes.c: see beanstalk_notes.h. */
#include "beanstalk_notes.h"

#include <stdlib.h>

static struct beanstalk_note **place_of(const struct beanstalk_notes *notes, uint64_t id) {
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
    return *place_of(notes, id);
}

struct beanstalk_note *beanstalk_note_make(struct beanstalk_notes *notes, uint64_t id) {
    struct beanstalk_note *note = beanstalk_note_find(notes, id);
    if (note != NULL) return note;
    if (notes->count == BEANSTALK_NOTES_MAX) beanstalk_note_drop(notes, TAILQ_FIRST(&notes->by_age)->id);
    note = calloc(1, sizeof(*note));
    if (note == NULL) return NULL;
    note->id = id;
    struct beanstalk_note **place = place_of(notes, id);
    note->next = *place;
    *place = note;
    TAILQ_INSERT_TAIL(&notes->by_age, note, by_age);
    notes->count++;
    return note;
}

void beanstalk_note_drop(struct beanstalk_notes *notes, uint64_t id) {
    struct beanstalk_note **place = place_of(notes, id);
    struct beanstalk_note *note = *place;
    if (note == NULL) return;
    *place = note->next;
    TAILQ_REMOVE(&notes->by_age, note, by_age);
    notes->count--;
    free(note);
}
