/* laws.h: what a record may do, whoever decided it. The core and the naive model read the same records, so a decision
 * that is wrong but consistent would please both; these are the promises themselves, asked of every record. */
#ifndef TARRY_TESTS_SIM_LAWS_H
#define TARRY_TESTS_SIM_LAWS_H

#include "flat.h"

/* `flat` is the state before the record, at the time and position of its frame. They do not return if a law is broken.
 */
void laws_of_put(const struct flat *flat, const Tarry__TaskPut *put);
void laws_of_end(const struct flat *flat, const Tarry__TaskEnd *end);
void laws_of_queue(const struct flat *flat, const Tarry__QueuePut *put);
void laws_of_redaction(const struct flat *flat, const Tarry__Redaction *redaction);
void laws_of_job(const struct flat *flat, const Tarry__JobPut *job);

#endif
