/* agenda.h: future events of a dry run, the earliest first; events of the same time are in the order of the log. A
 * binary heap. */
#ifndef TARRY_TOOL_AGENDA_H
#define TARRY_TOOL_AGENDA_H

#include <stddef.h>
#include <stdint.h>

struct agenda_entry {
    uint64_t at_ns;
    uint64_t position; /* log position of the recorded event that this entry repeats; UINT64_MAX: none */
    uint64_t number;   /* sequence number, set by agenda_add; orders entries of the same time */
    void (*run)(void *argument, const struct agenda_entry *item);
    void *subject;
    uint64_t version; /* version of the subject; the event is ignored if the subject has a newer one */
    const void *detail;
    uint32_t tries;
};

struct agenda {
    struct agenda_entry *items;
    size_t count, capacity;
    uint64_t added;
};

void agenda_add(struct agenda *agenda, const struct agenda_entry *item);
const struct agenda_entry *agenda_first(const struct agenda *agenda); /* NULL: empty */
struct agenda_entry agenda_take(struct agenda *agenda); /* Returns the first entry; the agenda must not be empty. */
void agenda_deinit(struct agenda *agenda);

#endif
