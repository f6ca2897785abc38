/* snapshot.h: fetches a snapshot when the leader's log begins behind the follower's end. A snapshot is the leader's
 * index and log as of one position, fetched by the requests of a backup.
 *
 *   DIR/snapshot/backup.partial      exists while the snapshot is incomplete
 *   DIR/snapshot/log/…, index/…      copies of the leader's files
 *   DIR/snapshot.wanted              datadir.h: position up to which redactions are erased on this disk
 *   DIR/unerased                     redactions made since: pending_erasures.h
 *
 * If the process is killed while it fetches, the next start fetches again. If it is killed while it moves the snapshot
 * into place, the next start continues to move. After a broken connection, the copy continues where it ended; if the
 * leader has restarted meanwhile, the copy begins again. A broker with another cluster's data is refused, because the
 * local files may be all that is left of this cluster.
 *
 * Runs before recovery, in the starting thread. */
#ifndef TARRY_SHELL_PAIR_SNAPSHOT_H
#define TARRY_SHELL_PAIR_SNAPSHOT_H

#include "blocking_rpc.h"
#include "datadir.h"

/* Fetches a snapshot, and replaces log and index by it. The caller holds the lock of the data directory. Returns 0, or
 * 1 with a sentence. Waits for a leader that does not answer, and logs the reason. SIGTERM and SIGINT, which the caller
 * has blocked, end the process. */
int snapshot_fetch(const struct datadir *dir, const char *url, const struct peer_key *key,
                   const struct peer_credentials *credentials, char message[DATADIR_MESSAGE_SIZE]);

#endif
