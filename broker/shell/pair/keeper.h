/* keeper.h: the pair's record at the coordinator, as the rules see it: one call at a time, its outcome as an event.
 *
 * The record also says which disk each node has: what was in sync was that disk, and a wiped one is another (F-29).
 * What the record says of another disk than this node's is not said of this node.
 *
 * Beside the record it asks, if the rules want to know, whether the leader that it names is present, and declares this
 * node while it leads: a second opinion (coordinator.h).
 *
 * Thread-safety: one owner; `done` and `changed` (the record may be another) come on the coordinator's thread. */
#ifndef TARRY_SHELL_PAIR_KEEPER_H
#define TARRY_SHELL_PAIR_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

/* Where the record lies, and as whom this node goes there: paths of files; NULL or empty: none. */
struct keeper_access {
    const char *url;
    const char *credentials; /* user:password; its owner's alone */
    const char *ca;          /* these are PEM files for etcds:// */
    const char *certificate;
    const char *key; /* its owner's alone */
};

struct keeper {
    void (*done)(void *argument);
    void (*changed)(void *argument);
    void (*session_changed)(void *argument, const struct coordinator_session *session);
    void *argument;
    struct coordinator *coordinator;
    struct coordinator_call call;
    struct coordinator_watch watch;
    char value[COORDINATOR_VALUE_SIZE_MAX + 1];
    uint8_t cluster[CLUSTER_ID_SIZE];
    uint8_t self; /* node */
    uint8_t member[MEMBER_ID_SIZE];
    uint32_t presence_ms; /* as in coordinator_options */
    bool swaps;           /* the call under way */
    bool asks_presence;   /* … and then of the other node */
    struct coordinator_call presence;
    struct pair_record wanted;
    struct coordinator_record record; /* as it was read or written last: what was only asked for is not it */
    struct coordinator_record next;   /* … which is here */
};

/* 0, or 1 with a sentence. `done`, `changed`, `session_changed` and `argument` are set; so are cluster, self and
 * member. */
int keeper_open(struct keeper *keeper, const struct keeper_access *where, char message[COORDINATOR_MESSAGE_SIZE]);
void keeper_close(struct keeper *keeper);
/* After `done`, keeper_take has the outcome. */
void keeper_read(struct keeper *keeper, bool asks_presence);
/* This node leads that epoch, and lives. */
void keeper_declare(struct keeper *keeper, uint32_t epoch);
/* `members`: as they are known now, by node. */
void keeper_swap(struct keeper *keeper, uint64_t version, const struct pair_record *record,
                 const struct record_member members[RECORD_NODES]);
/* PAIR_RECORD_READ or PAIR_RECORD_SWAPPED. 0; 1: the record is not this pair's, or names another disk than this node's
 * as the leader's; `message` is a sentence. `recorded`: of this node's note; a record of an earlier epoch is the rules'
 * to refuse (pair_is_lost), and who led then was perhaps a disk that this node had before (F-31b, F-29). */
int keeper_take(struct keeper *keeper, uint32_t recorded, struct pair_event *out,
                char message[COORDINATOR_MESSAGE_SIZE]);

#endif
