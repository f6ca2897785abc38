/* laws.h: the promises, checked on every record, whichever node decided it. A decision that is wrong but consistent
 * would satisfy the core and the naive model, because they read the same records. These laws depend on neither of them.
 */
#ifndef TARRY_TESTS_SIM_LAWS_H
#define TARRY_TESTS_SIM_LAWS_H

#include "flat.h"

/* Checks one record. `flat` is the state before the record, at its frame's time and position. Aborts if a law is
 * broken. */
void laws_of_put(const struct flat *flat, const Tarry__TaskPut *put);
void laws_of_end(const struct flat *flat, const Tarry__TaskEnd *end);
void laws_of_queue(const struct flat *flat, const Tarry__QueuePut *put);
void laws_of_redaction(const struct flat *flat, const Tarry__Redaction *redaction);
void laws_of_job(const struct flat *flat, const Tarry__JobPut *job);

#endif
