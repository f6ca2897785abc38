/* import.h: `tarry import`: imports the waiting items of another server.
 *
 * An origin (beanstalkd, a sorted set of Redis) returns items in batches, and removes them at the server after they
 * are durable here. cmd_import.c commits the batch together with a receipt that names it, atomically (receipt.h).
 * In this order nothing is lost, and nothing is imported twice, even if the import is killed. */
#ifndef TARRY_TOOL_IMPORT_IMPORT_H
#define TARRY_TOOL_IMPORT_IMPORT_H

#include "progress.h"
#include "receipt.h"
#include "server_link.h"
#include "tool.h"

#define BATCH_ITEMS_MAX 1024u
/* Size in bytes at which a batch takes no further item; a single item may be larger. */
#define BATCH_BYTES_MAX (4u << 20)
#define ITEM_KEY_SIZE 65u /* size in bytes of a key that the import computes for an item */
#define ITEM_NOTE_SIZE 64u
/* Maximum size in bytes of a payload at any broker; a larger item is not read. */
#define ITEM_PAYLOAD_SIZE_MAX (8u << 20)
#define COUNTS_MAX 4u
#define REFUSALS_SAID_MAX 10u /* number of refusals that are printed; the rest is only counted */

enum verdict {
    ITEM_NEW,     /* the item is not in Tarry yet */
    ITEM_CAME,    /* this commit stored the item in Tarry */
    ITEM_HERE,    /* the item was in Tarry before, as a receipt or the key shows */
    ITEM_REFUSED, /* Tarry refused the item; it stays at the server */
};
enum fate {
    FATE_KEPT,    /* the item is still at the server */
    FATE_REMOVED, /* the item was removed by this import */
    FATE_TAKEN,   /* another client took or changed it first */
};

struct import_item {
    struct mark mark;
    char *queue;             /* owned */
    char key[ITEM_KEY_SIZE]; /* terminated */
    const char *own_key;     /* key inside `payload`, used instead of `key` (--member-key); NULL: none */
    char *payload;           /* owned; NULL: the payload was too large and was discarded */
    uint64_t payload_size;
    char note[ITEM_NOTE_SIZE]; /* value of an attribute that keeps a job's priority and TTR for clients of the
                                  beanstalkd protocol; empty: no such attribute */
    char *score;               /* Redis: the score as text, owned; beanstalkd: NULL */
    enum tarry_when when;
    uint64_t when_ms; /* due time of the task; a delay counts from read_ms */
    uint64_t read_ms; /* steady */
    uint32_t priority;
    bool is_held; /* beanstalkd: true if this connection has reserved the job */
    uint64_t task;
    enum verdict verdict;
    enum fate fate;
};

struct import_batch {
    struct import_item *items; /* BATCH_ITEMS_MAX */
    size_t count;
    size_t bytes;
};

/* Numbers of items at the server. `names` has the label of each number. */
struct counts {
    const char *names[COUNTS_MAX];
    uint64_t numbers[COUNTS_MAX];
    size_t count;
};

struct import;

/* Functions that one kind of server implements. Each returns 0, or an exit status after an error message. */
struct origin {
    const char *noun; /* "job" */
    /* Connects, and counts the items. */
    int (*begin)(struct import *import);
    /* Prints the numbers of items at the server, for each tube. */
    int (*show)(struct import *import);
    /* Makes `next` start at the first item. With a receipt, `next` returns only the items of the receipt. */
    int (*start)(struct import *import, const struct receipt *only);
    /* Gets the next batch of items; an empty batch: there are no more. */
    int (*next)(struct import *import, struct import_batch *batch);
    /* Removes those items from the server that are in Tarry (verdicts ITEM_CAME and ITEM_HERE). Sets the `fate` of
     * each: whether it was removed. */
    int (*remove)(struct import *import, struct import_batch *batch);
    /* Counts the items that are at the server now. */
    int (*count)(struct import *import, struct counts *out);
    void (*end)(struct import *import);
};

struct import {
    struct tool *tool;
    const struct origin *origin;
    void *state;         /* private state of bean.c or redis.c */
    const char *address; /* address of the server, as in the option */
    bool is_copy;        /* --copy was given: items stay at the server */
    char server[RECEIPT_SERVER_SIZE];
    char receipt_key[ITEM_KEY_SIZE];
    uint64_t receipt_task; /* id of the receipt's task; 0: no receipt exists */
    struct server_link link;
    struct counts before;
    uint64_t total; /* number of items to import, as counted at the start; for the progress bar */
    struct progress progress;
    /* results: numbers of items, by what happened to them */
    uint64_t moved, copied, existed, refused, taken, doubled;
};

struct bean_options {
    const char *const *tubes; /* names of the tubes in --tube */
    size_t tube_count;        /* 0: all */
    const char *prefix;
};
struct redis_options {
    const char *zset;
    const char *queue;
    const char *user;
    const char *password; /* NULL: none */
    uint64_t database;
    uint64_t score_scale; /* milliseconds per unit of a score; 0: guess it from the size of the score */
    bool member_key;
};

/* These functions set the origin of the import. `options` must outlive the import. */
void bean_origin(struct import *import, const struct bean_options *options);
void redis_origin(struct import *import, const struct redis_options *options);

/* Functions that bean.c and redis.c call. */
/* Prints the error of the connection; returns EXIT_REFUSED. */
int import_lost(struct import *import);
/* Prints an error about the server's reply. The printed reply is cut and has no control characters. */
int import_nonsense(struct import *import, const char *what, const char *answer, size_t size);
void import_batch_clear(struct import_batch *batch);
/* Adds a zeroed item to the batch, which must have room, and returns it. */
struct import_item *import_batch_add(struct import_batch *batch);
uint64_t import_hash(const void *bytes, size_t size);
/* Computes "<prefix>:<32 hex digits>" over the parts; each size is part of the hash. */
void import_digest(char out[ITEM_KEY_SIZE], const char *prefix, const void *const *parts, const size_t *sizes,
                   size_t count);

#endif
