/* laws.h: the promises, checked on every record, whichever node decided it. The core and the naive model read the same
 * records, so neither would notice a wrong but consistent decision. These laws depend on neither of them. */
#ifndef TARRY_TESTS_SIM_LAWS_H
#define TARRY_TESTS_SIM_LAWS_H

#include "flat.h"

/* How the broker must treat an overdue task after an outage (broker/core/overdue.h). */
enum fate { FATE_NONE, FATE_EXPIRED, FATE_DEAD, FATE_SPREAD };
/* Returns what one judgement demands of the task. */
enum fate fate_by(const Tarry__Overdue *overdue, const struct row *row);
/* Returns how the recorded outages of the task's queue require the broker to treat the task. `*out`: the outage that
 * concerns the task. */
enum fate fate_of(const struct flat *flat, const struct row *row, const Tarry__Overdue **out);
/* Returns the time to which the judgement spreads the task. */
uint64_t spread_to(const Tarry__Overdue *overdue, const struct row *row);
/* Returns true if the record moves the task because of an outage. */
bool is_spread(const Tarry__TaskPut *put);

/* Checks one record. `flat` is the state before the record, at its frame's time and position. Aborts if a law is
 * broken. */
void laws_of_put(const struct flat *flat, const Tarry__TaskPut *put);
void laws_of_end(const struct flat *flat, const Tarry__TaskEnd *end);
void laws_of_queue(const struct flat *flat, const Tarry__QueuePut *put);
void laws_of_redaction(const struct flat *flat, const Tarry__Redaction *redaction);
/* Check a record of a recurrence. `before`: the recurrence before the record; NULL: it did not exist. `flat` already
 * has the tasks of the record's frame. */
void laws_of_recur(const struct flat *flat, const struct flat_recur *before, const Tarry__RecurPut *put);
/* At the end of a history: no recurrence has stopped, and none is late. */
void laws_of_recurs(const struct flat *flat, uint64_t wall_ms);
void laws_of_job(const struct flat *flat, const Tarry__JobPut *job);

#endif
