/* snapshot.h: a follower's beginning when the leader's log does not reach back to where its own ends: the leader's
 * index and log as of one position, by the requests that a backup is made with.
 *
 *   DIR/snapshot/backup.partial      while it is fetched: nobody takes it for whole
 *   DIR/snapshot/log/…, index/…      as they are at the leader
 *   DIR/snapshot.wanted              the log and the index in DIR are of no use any more (durable); it says up to which
 *                                    position what was redacted is erased here
 *   DIR/unerased                     what was redacted since: pending_erasures.h
 *
 * Killed while it is fetched, it is fetched anew; killed while it is put in place, the next start goes on with that. A
 * connection that breaks meanwhile costs nothing: the next question goes on where the last one ended, as long as the
 * leader has not been started anew; then all begins anew. Whoever answers with another cluster's data is not asked for
 * them: what is here may be all that is left of this one.
 *
 * Before recovery, in the starting thread. */
#ifndef TARRY_SHELL_PAIR_SNAPSHOT_H
#define TARRY_SHELL_PAIR_SNAPSHOT_H

#include <stdbool.h>

#include "datadir.h"
#include "talk.h"

#define SNAPSHOT_WANTED_NAME "snapshot.wanted"
/* Says durably that the next start fetches one. Redactions recorded below `erased` are carried out in what is here; 0:
 * there is nothing here. 0 or a negative errno. */
int snapshot_want(const char *directory, uint64_t erased);
bool snapshot_is_wanted(const char *directory);
/* Fetches one and puts it in the place of log and index; the data directory is this process's (lock). 0, or 1 with a
 * sentence; a leader that does not answer is waited for, and what is waited for is logged. Ends the process at SIGTERM
 * and SIGINT, which are blocked. */
int snapshot_fetch(const struct datadir *dir, const char *url, const struct peer_key *key,
                   const struct asker_papers *papers, char message[DATADIR_MESSAGE_SIZE]);

#endif
