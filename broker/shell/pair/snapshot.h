/* snapshot.h: a follower's beginning when the leader's log does not reach back to where its own ends: the leader's
 * index and log as of one position, by the requests that a backup is made with.
 *
 *   DIR/snapshot/backup.partial      while it is fetched: it is not taken for whole
 *   DIR/snapshot/log/…, index/…      as they are at the leader
 *   DIR/snapshot.wanted              snapshot_mark.h: it says up to which position what was redacted is erased here
 *   DIR/unerased                     what was redacted since: pending_erasures.h
 *
 * Killed while it is fetched, it is fetched anew; killed while it is put in place, the next start goes on with that. A
 * connection that breaks meanwhile costs nothing: the next question goes on where the last one ended, as long as the
 * leader has not been started anew; then all begins anew. A broker that answers with another cluster's data is not
 * asked for them: what is here may be all that is left of this one.
 *
 * Before recovery, in the starting thread. */
#ifndef TARRY_SHELL_PAIR_SNAPSHOT_H
#define TARRY_SHELL_PAIR_SNAPSHOT_H

#include "blocking_rpc.h"
#include "datadir.h"

/* Fetches one and puts it in the place of log and index; the data directory is this process's (lock). 0, or 1 with a
 * sentence; a leader that does not answer is waited for, and what is waited for is logged. Ends the process at SIGTERM
 * and SIGINT, which are blocked. */
int snapshot_fetch(const struct datadir *dir, const char *url, const struct peer_key *key,
                   const struct peer_credentials *credentials, char message[DATADIR_MESSAGE_SIZE]);

#endif
