/* shell.h: all rooms of one broker, and how they begin and end. Private to main.c and shell.c, which build the house: a
 * room gets what it needs as arguments, and does not know this.
 *
 * README.md draws the threads and their queues. Order of locks: a lane's mutex, then a queue's (inbox, reader, auditor,
 * delivery sender, sync, indexer, archivist, batches); no two queues' at once, except that the releaser's comes before
 * those that it tells. The door's own lock comes last; when it calls it holds `serving` alone, which no thread waits
 * for that holds another. */
#ifndef TARRY_SHELL_SHELL_H
#define TARRY_SHELL_SHELL_H

#include "archivist.h"
#include "auditor.h"
#include "authorizer.h"
#include "backup.h"
#include "batch.h"
#include "calendar_reader.h"
#include "clock.h"
#include "config.h"
#include "core.h"
#include "core_thread.h"
#include "datadir.h"
#include "delivery_sender.h"
#include "disk_space.h"
#include "endpoints.h"
#include "filter_reader.h"
#include "gateways.h"
#include "http.h"
#include "inbox.h"
#include "index.h"
#include "indexer.h"
#include "lanes.h"
#include "latency.h"
#include "locator.h"
#include "log.h"
#include "lone.h"
#include "node.h"
#include "pair_status.h"
#include "peer_proof.h"
#include "reader.h"
#include "releaser.h"
#include "rpc.h"
#include "run.h"
#include "signer.h"
#include "sync.h"

struct beanstalk;
struct gateway;
struct http_server;
struct push;

struct shell {
    struct config config;
    struct datadir dir;
    struct clock clock;
    struct disk_space disk_space;
    struct disk disk; /* the log's, mindful of the room */
    struct log *log;
    struct index *index;
    struct core *core; /* the core thread's, once it runs */
    struct endpoints endpoints;
    uint8_t config_digest[CONFIG_DIGEST_SIZE];
    struct run run;

    struct inbox inbox;
    struct batches batches;
    struct core_thread core_thread;
    struct sync sync;
    struct releaser releaser;
    struct delivery_sender delivery_sender;
    struct indexer indexer;
    struct signer signer; /* the index thread's, once it runs */
    struct archivist archivist;
    struct reader reader;
    struct calendar_reader calendar_reader;
    struct filter_reader filter_reader;
    struct auditor auditor;
    struct backup backup;
    struct locator locator;
    struct door *door;
    struct gateway *gateway;     /* the door's thread's, as … */
    struct http_server *http;    /* … this is */
    struct beanstalk *beanstalk; /* … and this */
    struct push *push;           /* webhooks */
    struct tls *tls;             /* NULL: none */
    struct authorizer authorizer;
    struct rpc rpc;
    struct lone lone; /* the door's thread's */
    struct lanes lanes;
    struct node node;
    struct peer_key peer_key;            /* of a pair; fixed from the start on */
    struct peer_credentials credentials; /* shown to the other node */
    struct latency fsync_us;
    struct latency calls_us;

    /* what outlives the call that gives it */
    struct pair_status pair_status;
    struct http_needs http_needs;
    struct gateways_needs gateways_needs;
};

/* In the order in which they are called; what must not be ends the process with a sentence (refuse_to_start). */
void shell_open_node(struct shell *shell);
/* What watches how full the disk is, and where the archive is: before the log is opened. */
void shell_prepare_storage(struct shell *shell);
void shell_recover(struct shell *shell);
/* Bound, and not served yet. */
void shell_open_door(struct shell *shell, unsigned connections_max);
void shell_start_threads(struct shell *shell);
/* Everything down, in the order in which work flows, so that nothing that was promised is left behind. */
void shell_stop(struct shell *shell);

#endif
