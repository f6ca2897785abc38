/* import.h: `tarry import`: taking over what another server holds.
 *
 * An origin (beanstalkd, a sorted set of Redis) hands out items in batches, and removes them there once they are
 * durable here. What is between the two is import_commit.c: the batch and the receipt that names it are one atomic
 * commit (receipt.h). In this order nothing is lost; and nothing is taken twice, whenever the import is killed. */
#ifndef TARRY_TOOL_IMPORT_IMPORT_H
#define TARRY_TOOL_IMPORT_IMPORT_H

#include "progress.h"
#include "receipt.h"
#include "server_link.h"
#include "tool.h"

#define BATCH_ITEMS_MAX 1024u
#define BATCH_BYTES_MAX (4u << 20) /* no further item is asked for beyond it; one alone may be larger */
#define ITEM_KEY_SIZE 65u          /* of a key that we make */
#define ITEM_NOTE_SIZE 64u
#define ITEM_PAYLOAD_SIZE_MAX (8u << 20) /* of any broker: a larger one is not even read */
#define COUNTS_MAX 4u
#define REFUSALS_SAID_MAX 10u /* in words; of the others, how many */

enum verdict {
    ITEM_NEW,     /* not here yet */
    ITEM_CAME,    /* durable here, by this commit */
    ITEM_HERE,    /* durable here since before: by a receipt, or its key says so */
    ITEM_REFUSED, /* it stays there */
};
enum fate {
    FATE_KEPT,    /* still there */
    FATE_REMOVED, /* we removed it there */
    FATE_TAKEN,   /* another client had taken it, or changed it, before we could */
};

struct import_item {
    struct mark mark;
    char *queue;             /* owned */
    char key[ITEM_KEY_SIZE]; /* terminated */
    const char *own_key;     /* instead of `key`: in `payload` (--member-key); NULL: none */
    char *payload;           /* owned; NULL: too large, and thrown away */
    uint64_t payload_size;
    char note[ITEM_NOTE_SIZE]; /* the attribute that tells beanstalkd's clients of a job; "": none */
    char *score;               /* owned, Redis: as it was read; NULL: none */
    enum tarry_when when;
    uint64_t when_ms; /* a delay runs from read_ms on */
    uint64_t read_ms; /* steady */
    uint32_t priority;
    bool is_held; /* beanstalkd: reserved by us, until the connection ends */
    uint64_t task;
    enum verdict verdict;
    enum fate fate;
};

struct import_batch {
    struct import_item *items; /* BATCH_ITEMS_MAX */
    size_t count;
    size_t bytes;
};

/* Numbers of what is there, with the names that they are shown under. */
struct counts {
    const char *names[COUNTS_MAX];
    uint64_t numbers[COUNTS_MAX];
    size_t count;
};

struct import;

/* 0, or an exit status after a sentence. */
struct origin {
    const char *noun; /* "job" */
    /* Connects, and counts. */
    int (*begin)(struct import *import);
    /* Shows what is there, per tube. */
    int (*show)(struct import *import);
    /* From the beginning, for the following calls of `next`; with a receipt, only what it names. */
    int (*start)(struct import *import, const struct receipt *only);
    /* The next items; an empty batch: no more. */
    int (*next)(struct import *import, struct import_batch *batch);
    /* Those with ITEM_CAME and ITEM_HERE, there; sets each one's fate. */
    int (*remove)(struct import *import, struct import_batch *batch);
    /* Counts what is there now. */
    int (*count)(struct import *import, struct counts *out);
    void (*end)(struct import *import);
};

struct import {
    struct tool *tool;
    const struct origin *origin;
    void *state;         /* the origin's */
    const char *address; /* as it was given */
    bool is_copy;        /* what is there stays there */
    char server[RECEIPT_SERVER_SIZE];
    char receipt_key[ITEM_KEY_SIZE];
    uint64_t receipt_task; /* 0: none stands */
    struct server_link link;
    struct counts before;
    uint64_t total; /* of what is to come, as counted before; for the progress */
    struct progress progress;
    /* What became of items. */
    uint64_t moved, copied, existed, refused, taken, doubled;
};

struct bean_options {
    const char *const *tubes; /* those named */
    size_t tube_count;        /* 0: all */
    const char *prefix;
};
struct redis_options {
    const char *zset;
    const char *queue;
    const char *user;
    const char *password; /* NULL: none */
    uint64_t database;
    uint64_t score_scale; /* milliseconds of one unit of a score; 0: as its size says */
    bool member_key;
};

/* The origins. `options` must live as long as the import. */
void bean_origin(struct import *import, const struct bean_options *options);
void redis_origin(struct import *import, const struct redis_options *options);

/* The whole of it; returns the exit status. */
int import_run(struct import *import, bool is_dry);

/* import_commit.c. 0, or an exit status after a sentence. */
int import_commit(struct import *import, struct import_batch *batch);
/* Takes back what was taken by others there, if no consumer has it here yet. */
int import_withdraw(struct import *import, struct import_batch *batch);
/* The receipt of an import that did not come to its end; its count is 0 if there is none. */
int import_receipt_find(struct import *import, struct receipt *out);
int import_receipt_drop(struct import *import);

/* For origins. */
/* Says what the link's error is; returns EXIT_REFUSED. */
int import_lost(struct import *import);
/* Says what is wrong with the server's answer, cut and without control characters. */
int import_nonsense(struct import *import, const char *what, const char *answer, size_t size);
void import_batch_clear(struct import_batch *batch);
/* The next place in the batch, zeroed. There must be one. */
struct import_item *import_batch_add(struct import_batch *batch);
uint64_t import_hash(const void *bytes, size_t size);
/* "<prefix>:<32 hex digits>" of the texts, which are kept apart. */
void import_digest(char out[ITEM_KEY_SIZE], const char *prefix, const void *const *parts, const size_t *sizes,
                   size_t count);

#endif
