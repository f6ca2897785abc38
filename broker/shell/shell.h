/* shell.h: the one object that ties the broker's threads together, and how it dies.
 *
 * README.md draws the threads and their queues. Order of locks: a lane's mutex, then a queue's (inbox, reader, auditor,
 * delivery sender, sync, indexer, archivist, batches); no two queues' at once, except that the releaser's comes before
 * those whom it tells. The door's own lock comes last; when it calls it holds `serving` alone, which nobody waits for
 * who holds another. */
#ifndef TARRY_SHELL_SHELL_H
#define TARRY_SHELL_SHELL_H

#include <stdatomic.h>

#include "archivist.h"
#include "auditor.h"
#include "authorizer.h"
#include "backup.h"
#include "batch.h"
#include "clock.h"
#include "config.h"
#include "core.h"
#include "core_thread.h"
#include "datadir.h"
#include "delivery_sender.h"
#include "endpoints.h"
#include "inbox.h"
#include "index.h"
#include "indexer.h"
#include "lanes.h"
#include "latency.h"
#include "locator.h"
#include "log.h"
#include "lone.h"
#include "node.h"
#include "peer_proof.h"
#include "reader.h"
#include "releaser.h"
#include "room.h"
#include "rpc.h"
#include "signer.h"
#include "sync.h"
#include "who.h"

/* How `memory` is shared out; the rest is for stacks, the door, batches and the C library (CALM-1). */
#define MEMORY_SHARE_CORE(memory) ((memory) / 2)
#define MEMORY_SHARE_INDEX(memory) ((memory) / 4)
#define MEMORY_SHARE_REQUESTS(memory) ((memory) / 8)

/* In the environment of a run that follows another one in the same process: where that listened. */
#define SHELL_AGAIN_URLS "TARRYD_URLS"
#define EXIT_REFUSED 1
#define EXIT_STORAGE 4 /* the disk failed (LOG-4) */

struct beanstalk;
struct gateway;
struct http_server;
struct push;

struct shell {
    struct config config;
    struct datadir dir;
    struct clock clock;
    struct room room;
    struct disk disk; /* the log's, mindful of the room */
    struct log *log;
    struct index *index;
    struct core *core;          /* the core thread's, once it runs */
    char url[CONFIG_TEXT_SIZE]; /* the first that a network reaches */
    struct endpoints endpoints;
    uint64_t started_ms;            /* logical */
    _Atomic uint32_t epoch;         /* of a pair: the pair thread's, and it grows when this node comes to lead */
    Tarry__EpochPut__Before before; /* how the log ended before this start */
    uint8_t config_digest[CONFIG_DIGEST_SIZE];
    char started_by[WHO_SIZE];
    char stopped_by[WHO_SIZE]; /* set before the inbox says stop */

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
    struct peer_key peer_key;   /* of a pair; fixed from the start on */
    struct asker_papers papers; /* shown to the other node */
    struct latency fsync_us;
    struct latency calls_us;
    _Atomic bool stopping;
    char **arguments; /* the process's own */
};

/* What may be told: durable, and in a pair on the follower too, if that counts (R3). Any thread. */
uint64_t shell_committed(const struct shell *shell);
/* Ends this run without a farewell, as a crash would, and starts again: the same process, the same arguments. One that
 * was told to stop ends, and does not start again. Any thread. */
_Noreturn void shell_again(const struct shell *shell);
/* The descriptor that is ready when one of `signals`, which all threads block, has come; -errno. Opened before
 * strangers are let in, who may take every descriptor that is left (F-21). */
int shell_open_signals(const sigset_t *signals);
/* Waits for SIGTERM or SIGINT, and closes `come`, which shell_open_signals gave. From then on shell_again ends the
 * process: the next run would know nothing of a signal that this one has taken. Main thread. */
void shell_wait_for_stop(int come, const sigset_t *signals, siginfo_t *out);
/* It has come. Any thread. */
bool shell_is_told_to_stop(void);

/* What a negative result of storage means, for a log line. */
const char *storage_error(int error);
/* Logs and ends the process at once, for nothing that it could still do can be trusted (LOG-4). */
_Noreturn void shell_fail(const char *what, int error);
/* An arena for what cannot be refused: when the system has no memory for it, the process ends with that sentence
 * (F-11), rather than take what it could not unpack for damage. */
void shell_arena_init(struct arena *arena);
/* Starts a thread or ends the process with a sentence. */
void thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

#endif
