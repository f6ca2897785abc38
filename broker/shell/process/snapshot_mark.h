/* snapshot_mark.h: the file DIR/snapshot.wanted. It means that the log and the index in DIR are useless, and that the
 * next start fetches a snapshot (pair/snapshot.h). Durable. */
#ifndef TARRY_SHELL_SNAPSHOT_MARK_H
#define TARRY_SHELL_SNAPSHOT_MARK_H

#include <stdbool.h>
#include <stdint.h>

#define SNAPSHOT_NAME "snapshot"
#define SNAPSHOT_WANTED_NAME "snapshot.wanted"

/* Makes the next start fetch a snapshot; durable. In the present data, all redactions below position `erased` are
 * carried out; 0 if there are no data. Returns 0 or a negative errno. */
int snapshot_want(const char *directory, uint64_t erased);
bool snapshot_is_wanted(const char *directory);
/* Returns the value of `erased` that was passed to snapshot_want; 0: there were no data before, or the file does not
 * say. */
uint64_t snapshot_erased_before(const char *directory);

#endif
