/* record.h: the pair's record as text, as it lies at the coordinator: the leader, the nodes in sync, and their
 * identities.
 *
 *   tarry-pair 1                                        format version
 *   cluster 00112233445566778899aabbccddeeff
 *   epoch 7
 *   leader 0                                            node
 *   in-sync 0 1                                         nodes, the leader among them
 *   run 1311768467463790320                             the leader's run of the process
 *   start 1048576                                       log position at which the epoch began
 *   high-water 2097152                                  log position
 *   node 0 8899aabbccddeeff0011223344556677 ws://10.0.0.1:7272
 *   node 1 0123456789abcdef0123456789abcdef ws://10.0.0.2:7272
 *
 * A person reads it (`zkCli.sh get /tarry/pair/record`), and only Tarry writes it: what is not to the byte what would
 * be written for what it says is refused. Numbers are decimal, ids 32 hex digits. A node's line names its disk (a wiped
 * disk is another member) and where clients reach it; node 1's is missing until it has joined.
 *
 * *Another version is refused*, with a sentence. *Because* one that does not understand the record must not replace it.
 * *So* a later format may be written only once both nodes read it.
 *
 * Thread-safety: pure functions. */
#ifndef TARRY_COORDINATOR_RECORD_H
#define TARRY_COORDINATOR_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator.h"
#include "identity.h"
#include "pair.h"

#define RECORD_ENTRY "record" /* the name of its entry at the coordinator */
#define RECORD_NODES 2
#define RECORD_URL_SIZE_MAX 1023

struct record_member {
    bool is_known;
    uint8_t id[MEMBER_ID_SIZE];
    char url[RECORD_URL_SIZE_MAX + 1]; /* printable ASCII without blanks, not empty */
};

struct coordinator_record {
    uint8_t cluster[CLUSTER_ID_SIZE];
    struct pair_record pair;
    struct record_member members[RECORD_NODES];
};

/* Whether it may be written: epoch above 0, the leader known and in sync, the nodes in sync known, URLs right.
 * NULL, or what is wrong. */
const char *record_check(const struct coordinator_record *record);
/* The text's size; a zero follows. `record` must be right. */
size_t record_write(const struct coordinator_record *record, char out[COORDINATOR_VALUE_SIZE_MAX + 1]);
/* 0, or 1 with a sentence that says what is wrong and what to do; then `out` is void. */
int record_read(const char *text, size_t size, struct coordinator_record *out, char message[COORDINATOR_MESSAGE_SIZE]);

#endif
