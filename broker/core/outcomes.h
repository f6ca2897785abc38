/* outcomes.h: how the tasks that ended lately ended (TRUE-1). A ring, limited by count, age and bytes of keys; the
 * oldest goes first, and `known_since` says from when on nothing is missing. Allocates at start only. */
#ifndef TARRY_CORE_OUTCOMES_H
#define TARRY_CORE_OUTCOMES_H

#include "row.h"

#define OUTCOME_KEY_BYTES_EACH 32u /* bytes of keys held, per outcome of the limit, on average */

struct outcomes;

/* NULL: out of memory. count_max ≥ 1. */
struct outcomes *outcomes_new(uint32_t count_max, uint64_t retention_ms);
void outcomes_free(struct outcomes *outcomes); /* NULL is fine */
/* Of hash_slot; before anything is pushed. */
void outcomes_set_salt(struct outcomes *outcomes, uint64_t salt);
/* Copies. Endings come in the order of the log; what is older than the retention, or too much, goes. */
void outcomes_push(struct outcomes *outcomes, const struct outcome *outcome);
/* The bucket of a key's hash into the cache, some operations ahead of the push. */
void outcomes_prefetch(const struct outcomes *outcomes, uint64_t key_hash);
/* As outcomes_push; the key's hash (row_key_hash) is known already. */
void outcomes_push_hashed(struct outcomes *outcomes, const struct outcome *outcome, uint64_t key_hash);
/* What that task contained is redacted; nothing, if its ending is not known (any more). */
void outcomes_redacted(struct outcomes *outcomes, uint64_t id);
/* Borrowed until the next push; NULL: not known. By key: the one that ended last. */
const struct outcome *outcomes_by_id(const struct outcomes *outcomes, uint64_t id);
const struct outcome *outcomes_by_key(const struct outcomes *outcomes, uint32_t queue, const char *key,
                                      uint8_t key_size);
/* Forgets what is older than the retention now, though nothing has ended since. */
void outcomes_expire(struct outcomes *outcomes, uint64_t now_ms);
/* How many endings in the queue of this number are remembered. */
uint32_t outcomes_of_queue(const struct outcomes *outcomes, uint32_t number);
/* Another queue takes the place of the queue of this number: its endings are forgotten, and known_since says so. */
void outcomes_lose_queue(struct outcomes *outcomes, uint32_t number);
/* What ended at this time is not remembered. */
void outcomes_forget(struct outcomes *outcomes, uint64_t ended_ms);
uint64_t outcomes_known_since(const struct outcomes *outcomes);
void outcomes_set_known_since(struct outcomes *outcomes, uint64_t known_since_ms);
uint64_t outcomes_count(const struct outcomes *outcomes);

#endif
