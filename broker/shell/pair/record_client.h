/* record_client.h: the pair's record at the coordinator, as the rules see it: one call at a time, its outcome as an
 * event.
 *
 * The record also says which disk each node has: what was in sync was that disk, and a wiped one is another (F-29).
 * What the record says of another disk than this node's is not said of this node.
 *
 * Beside the record it asks, if the rules want to know, whether the leader that it names is present, and declares this
 * node while it leads: a second opinion (coordinator.h). A follower that hears nothing declares a question, which the
 * leader reads and answers there (broker/replication/summons.h).
 *
 * Thread-safety: one owner; `done` and `changed` (the record may be another) come on the coordinator's thread. */
#ifndef TARRY_SHELL_PAIR_RECORD_CLIENT_H
#define TARRY_SHELL_PAIR_RECORD_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "record.h"

/* Where the record lies, and with which credentials: paths of files; NULL or empty: none. */
struct record_client_access {
    const char *url;
    const char *credentials; /* user:password; its owner's alone */
    const char *ca;          /* these are PEM files for etcds:// */
    const char *certificate;
    const char *key; /* its owner's alone */
};

/* What is read beside the record. */
enum record_client_question {
    RECORD_CLIENT_RECORD,
    RECORD_CLIENT_PRESENCE, /* … and whether its leader is present; if that is not known, nothing is */
    RECORD_CLIENT_SUMMONS, /* … and afterwards what the follower asks, for this node leads (summons.h); no caller waits
                            * for that
                            */
};

struct record_client {
    void (*done)(void *argument);
    void (*changed)(void *argument);
    void (*session_changed)(void *argument, const struct coordinator_session *session);
    void *argument;
    struct coordinator *coordinator;
    struct coordinator_call call;
    struct coordinator_watch watch;
    struct coordinator_watch presence_watch; /* of the other node's */
    char value[COORDINATOR_VALUE_SIZE_MAX + 1];
    uint8_t cluster[CLUSTER_ID_SIZE];
    uint8_t self; /* node */
    uint8_t member[MEMBER_ID_SIZE];
    uint32_t presence_ms;                 /* as in coordinator_options */
    bool swaps;                           /* the call under way */
    enum record_client_question question; /* … if it reads */
    uint64_t heard; /* by the leader, as was read last: the number of the question that it has answered */
    struct coordinator_call summons; /* what does the other one ask? */
    _Atomic bool summons_under_way;
    _Atomic bool summons_again;     /* … and once more after it */
    _Atomic uint64_t summons_heard; /* the number of the other's question; 0: none came */
    struct coordinator_call presence;
    struct pair_record wanted;
    struct coordinator_record record; /* as it was read or written last: what was only asked for is not it */
    struct coordinator_record next;   /* … which is here */
};

/* 0, or 1 with a sentence. `done`, `changed`, `session_changed` and `argument` are set; so are cluster, self and
 * member. */
int record_client_open(struct record_client *record_client, const struct record_client_access *where,
                       char message[COORDINATOR_MESSAGE_SIZE]);
void record_client_close(struct record_client *record_client);
/* After `done`, record_client_take has the outcome. */
void record_client_read(struct record_client *record_client, enum record_client_question question);
/* This node leads that epoch, lives, and has heard what the other one asks. */
void record_client_declare(struct record_client *record_client, uint32_t epoch);
/* This node follows, and asks its leader that number. */
void record_client_summon(struct record_client *record_client, uint64_t number);
/* The coordinator has that question. True: for `*out_ms` already, as far as is known. */
bool record_client_summons_stands(struct record_client *record_client, uint64_t number, uint64_t *out_ms);
/* `members`: as they are known now, by node. */
void record_client_swap(struct record_client *record_client, uint64_t version, const struct pair_record *record,
                        const struct record_member members[RECORD_NODES]);
/* PAIR_RECORD_READ or PAIR_RECORD_SWAPPED. 0; 1: the record is not this pair's, or names another disk than this node's
 * as the leader's; `message` is a sentence. `recorded`: of this node's note; a record of an earlier epoch is the rules'
 * to refuse (pair_is_lost), and its leader was perhaps a disk that this node had before (F-31b, F-29). */
int record_client_take(struct record_client *record_client, uint32_t recorded, struct pair_event *out,
                       char message[COORDINATOR_MESSAGE_SIZE]);

#endif
