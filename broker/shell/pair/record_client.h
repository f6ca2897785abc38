/* record_client.h: reads and writes the pair's record at the coordinator for the rules. It makes one call at a time and
 * returns the outcome as an event.
 *
 * The record also contains the id of each node's disk. A node that the record shows as in sync is in sync only with
 * that disk; a wiped disk gets a new id (F-29). If the record has another disk for this node, this client removes this
 * node from the record's in-sync nodes.
 *
 * If the rules require it, this client also asks whether the record's leader is present. While this node leads, the
 * client declares it as present (coordinator.h). A follower that hears nothing from the leader declares a question at
 * the coordinator, and the leader reads and answers it there (broker/replication/summons.h).
 *
 * Thread-safety: one owner. `done` and `changed` (the record may have changed) are called on the coordinator's thread.
 */
#ifndef TARRY_SHELL_PAIR_RECORD_CLIENT_H
#define TARRY_SHELL_PAIR_RECORD_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "record.h"

/* Address of the coordinator, and paths of credential files; NULL or empty: not used. */
struct record_client_access {
    const char *url;
    const char *credentials; /* file with user:password; only its owner may have access to it */
    const char *ca;          /* PEM file of CAs, for etcds:// */
    const char *certificate;
    const char *key; /* PEM file; only its owner may have access to it */
};

/* Question that is asked together with a read of the record. */
enum record_client_question {
    RECORD_CLIENT_RECORD,
    RECORD_CLIENT_PRESENCE, /* whether the record's leader is present; if the coordinator does not answer this, the read
                               fails */
    RECORD_CLIENT_SUMMONS, /* after the read, the leader also reads the follower's question (summons.h); the read of the
                              record does not wait for it */
};

struct record_client {
    void (*done)(void *argument);
    void (*changed)(void *argument);
    void (*session_changed)(void *argument, const struct coordinator_session *session);
    void *argument;
    struct coordinator *coordinator;
    struct coordinator_call call;
    struct coordinator_watch watch;
    struct coordinator_watch presence_watch; /* presence of the other node */
    char value[COORDINATOR_VALUE_SIZE_MAX + 1];
    uint8_t cluster[CLUSTER_ID_SIZE];
    uint8_t self; /* node */
    uint8_t member[MEMBER_ID_SIZE];
    uint32_t presence_ms;                 /* lifetime of a presence, as in coordinator_options */
    bool swaps;                           /* true: the current call is a compare-and-set */
    enum record_client_question question; /* question that the current read asks */
    uint64_t heard; /* number of the follower's question that the leader has answered, according to the last read */
    struct coordinator_call summons; /* reads the other node's question */
    _Atomic bool summons_under_way;
    _Atomic bool summons_again;     /* true: read the other node's question once more after the current read */
    _Atomic uint64_t summons_heard; /* number of the other node's question; 0: none arrived */
    struct coordinator_call presence;
    struct pair_record wanted;
    /* The record as last read or written; a write that has not ended does not change it. */
    struct coordinator_record record;
    struct coordinator_record next; /* the record that is being written */
};

/* Opens the client. The caller has set `done`, `changed`, `session_changed`, `argument`, cluster, self and member.
 * Returns 0, or 1 with a sentence. */
int record_client_open(struct record_client *record_client, const struct record_client_access *where,
                       char message[COORDINATOR_MESSAGE_SIZE]);
void record_client_close(struct record_client *record_client);
/* Starts a read. After `done`, record_client_take returns the outcome. */
void record_client_read(struct record_client *record_client, enum record_client_question question);
/* Declares that this node is alive, leads `epoch`, and has heard the other node's question. */
void record_client_declare(struct record_client *record_client, uint32_t epoch);
/* Declares that this node follows and asks its leader question `number`. */
void record_client_summon(struct record_client *record_client, uint64_t number);
/* Returns whether the coordinator has stored question `number`. `*out_ms` is the time since when it is known to be
 * stored. */
bool record_client_summons_stands(struct record_client *record_client, uint64_t number, uint64_t *out_ms);
/* Starts a compare-and-set. `members`: the members as known now, by node. */
void record_client_swap(struct record_client *record_client, uint64_t version, const struct pair_record *record,
                        const struct record_member members[RECORD_NODES]);
/* Returns the outcome as PAIR_RECORD_READ or PAIR_RECORD_SWAPPED. Returns 0; or 1 with a sentence if the record belongs
 * to another pair, or names this node as the leader with another disk. `recorded`: newest epoch that this node has
 * noted. A record of an earlier epoch is accepted although it may name this node's former disk as the leader, because
 * the rules refuse it anyway (pair_is_lost, F-31b, F-29). */
int record_client_take(struct record_client *record_client, uint32_t recorded, struct pair_event *out,
                       char message[COORDINATOR_MESSAGE_SIZE]);

#endif
