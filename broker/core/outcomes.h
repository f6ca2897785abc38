/* outcomes.h: how recent tasks ended (TRUE-1). A ring buffer, limited by count, age and bytes of keys, that drops the
 * oldest entry first. It is complete from `known_since` on. Allocates only at start. */
#ifndef TARRY_CORE_OUTCOMES_H
#define TARRY_CORE_OUTCOMES_H

#include "row.h"

#define OUTCOME_KEY_BYTES_EACH 32u /* assumed average size of a key in bytes */

struct outcomes;

/* Creates the ring. count_max ≥ 1. Returns NULL if out of memory. */
struct outcomes *outcomes_new(uint32_t count_max, uint64_t retention_ms);
void outcomes_free(struct outcomes *outcomes); /* accepts NULL */
/* Sets the salt of hash_slot; call it before the first push. */
void outcomes_set_salt(struct outcomes *outcomes, uint64_t salt);
/* Copies an outcome into the ring. Outcomes must come in log order. Drops outcomes above the limits of age and size. */
void outcomes_push(struct outcomes *outcomes, const struct outcome *outcome);
/* Prefetches the bucket of a key's hash into the CPU cache, a few operations before the push. */
void outcomes_prefetch(const struct outcomes *outcomes, uint64_t key_hash);
/* Like outcomes_push, with the key's hash (row_key_hash) already computed. */
void outcomes_push_hashed(struct outcomes *outcomes, const struct outcome *outcome, uint64_t key_hash);
/* Marks the content of an ended task as redacted; does nothing if the outcome is not in the ring. */
void outcomes_redacted(struct outcomes *outcomes, uint64_t id);
/* Finds an outcome, which is valid until the next push; NULL: not known. By key, finds the task that ended last. */
const struct outcome *outcomes_by_id(const struct outcomes *outcomes, uint64_t id);
const struct outcome *outcomes_by_key(const struct outcomes *outcomes, uint32_t queue, const char *key,
                                      uint8_t key_size);
/* Drops outcomes older than the retention, even without a new push. */
void outcomes_expire(struct outcomes *outcomes, uint64_t now_ms);
/* Returns the number of outcomes in the ring for the queue with this number. */
uint32_t outcomes_of_queue(const struct outcomes *outcomes, uint32_t number);
/* Drops all outcomes of the queue with this number, because another queue takes its place, and updates known_since. */
void outcomes_lose_queue(struct outcomes *outcomes, uint32_t number);
/* Notes that a task that ended at this time is missing from the ring. */
void outcomes_forget(struct outcomes *outcomes, uint64_t ended_ms);
uint64_t outcomes_known_since(const struct outcomes *outcomes);
void outcomes_set_known_since(struct outcomes *outcomes, uint64_t known_since_ms);
uint64_t outcomes_count(const struct outcomes *outcomes);

#endif
