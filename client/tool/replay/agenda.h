/* agenda.h: what is going to happen in a dry run, the earliest first; what is due at one instant happens in the order
 * of the record. A binary heap. */
#ifndef TARRY_TOOL_AGENDA_H
#define TARRY_TOOL_AGENDA_H

#include <stddef.h>
#include <stdint.h>

struct agenda_entry {
    uint64_t at_ns;
    uint64_t position; /* in the record, of what it repeats; UINT64_MAX: nothing */
    uint64_t number;   /* in the order of adding; set by agenda_add */
    void (*run)(void *argument, const struct agenda_entry *item);
    void *subject;
    uint64_t version; /* of the subject: an item of an older one is void */
    const void *detail;
    uint32_t tries;
};

struct agenda {
    struct agenda_entry *items;
    size_t count, capacity;
    uint64_t added;
};

void agenda_add(struct agenda *agenda, const struct agenda_entry *item);
const struct agenda_entry *agenda_first(const struct agenda *agenda); /* NULL: it is empty */
struct agenda_entry agenda_take(struct agenda *agenda);               /* it must not be empty */
void agenda_deinit(struct agenda *agenda);

#endif
