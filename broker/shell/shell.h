/* shell.h: all modules of one broker, and how they start and stop. Private to main.c and shell.c. A module gets what it
 * needs as arguments and does not include this file.
 *
 * README.md draws the threads and their queues. Lock order: first a lane's mutex, then a queue's (inbox, reader,
 * auditor, delivery sender, sync, indexer, archivist, batches). A thread holds at most one queue's mutex. One
 * exception: a thread that holds the releaser's mutex may lock the mutex of a subscriber. The mutex of the door's
 * message queue comes last. When the door calls a callback, it holds only `serving`; no thread waits for `serving`
 * while it holds another lock. */
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
#include "log_disk.h"
#include "lone.h"
#include "node.h"
#include "peer_proof.h"
#include "reader.h"
#include "releaser.h"
#include "rpc.h"
#include "run.h"
#include "signer.h"
#include "stats.h"
#include "sync.h"

struct amqp;
struct beanstalk;
struct gateway;
struct http_server;
struct push;
struct sharer;

struct shell {
    struct config config;
    struct datadir dir;
    struct clock clock;
    struct disk_space disk_space;
    struct disk disk; /* the log's disk, which checks the free space */
    struct log *log;
    struct index *index;
    struct core *core; /* the core; owned by the core thread once it runs */
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
    struct signer signer; /* owned by the index thread once it runs */
    struct archivist archivist;
    struct reader reader;
    struct calendar_reader calendar_reader;
    struct filter_reader filter_reader;
    struct auditor auditor;
    struct backup backup;
    struct locator locator;
    struct door *door;
    struct gateway *gateway;     /* interface for other protocols; used on the door's thread only */
    struct http_server *http;    /* server of HTTP; used on the door's thread only */
    struct beanstalk *beanstalk; /* server of beanstalkd's protocol; used on the door's thread only */
    struct amqp *amqp;           /* server of AMQP; used on the door's thread only */
    struct push *push;           /* sends webhooks */
    struct sharer *sharer;       /* turns a topic's due tasks into shares of its groups */
    struct tls *tls;             /* this broker's certificates; NULL: no TLS */
    struct authorizer authorizer;
    struct rpc rpc;
    struct lone lone; /* passes calls to the core; used on the door's thread only */
    struct lanes lanes;
    struct node node;
    struct peer_key peer_key;            /* key of the pair; constant after the start */
    struct peer_credentials credentials; /* credentials shown to the other node */
    struct latency fsync_us;
    struct latency calls_us;

    /* structs that modules keep a pointer to */
    struct pair_status pair_status;
    struct http_needs http_needs;
    struct gateways_needs gateways_needs;
};

/* The functions below are called in this order. On an error they end the process with an error message
 * (refuse_to_start). */
void shell_open_node(struct shell *shell);
/* Prepares disk-space monitoring and the archive's path, before the log is opened. */
void shell_prepare_storage(struct shell *shell);
void shell_recover(struct shell *shell);
/* Binds the listening sockets, and does not serve them yet. */
void shell_open_door(struct shell *shell, unsigned connections_max);
void shell_start_threads(struct shell *shell);
/* Stops all modules in the order in which work flows, so that every promised effect is completed. */
void shell_stop(struct shell *shell);

#endif
