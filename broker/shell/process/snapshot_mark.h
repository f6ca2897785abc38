/* snapshot_mark.h: DIR/snapshot.wanted: the log and the index in DIR are of no use any more, and the next start fetches
 * a snapshot (pair/snapshot.h). Durable. */
#ifndef TARRY_SHELL_SNAPSHOT_MARK_H
#define TARRY_SHELL_SNAPSHOT_MARK_H

#include <stdbool.h>
#include <stdint.h>

#define SNAPSHOT_NAME "snapshot"
#define SNAPSHOT_WANTED_NAME "snapshot.wanted"

/* Says durably that the next start fetches one. Redactions recorded below `erased` are carried out in what is here; 0:
 * there is nothing here. 0 or a negative errno. */
int snapshot_want(const char *directory, uint64_t erased);
bool snapshot_is_wanted(const char *directory);
/* Below which position; 0: there was nothing here before, or the mark does not say. */
uint64_t snapshot_erased_before(const char *directory);

#endif
