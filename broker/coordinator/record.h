/* record.h: the text format of the pair's record at the coordinator: the leader, the nodes in sync, and their
 * identities.
 *
 *   tarry-pair 1                                        format version
 *   cluster 00112233445566778899aabbccddeeff
 *   epoch 7
 *   leader 0                                            node
 *   in-sync 0 1                                         nodes, including the leader
 *   run 1311768467463790320                             the run of the leader's process
 *   start 1048576                                       log position at which the epoch began
 *   high-water 2097152                                  log position
 *   node 0 8899aabbccddeeff0011223344556677 ws://10.0.0.1:7272
 *   node 1 0123456789abcdef0123456789abcdef ws://10.0.0.2:7272
 *
 * People may read it (`zkCli.sh get /tarry/pair/record`), but only Tarry writes it: record_read refuses every text that
 * record_write would not write byte for byte. Numbers are decimal, ids have 32 hex digits. A node's line names its disk
 * (a wiped disk is another member) and its URL for clients. Node 1's line is missing until it has joined.
 *
 * Another format version is refused with an error message, because a node that does not understand the record must not
 * replace it. So a later format may be written only when both nodes can read it.
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

#define RECORD_ENTRY "record" /* name of the record's entry at the coordinator */
#define RECORD_NODES 2
#define RECORD_URL_SIZE_MAX 1023

struct record_member {
    bool is_known;
    uint8_t id[MEMBER_ID_SIZE];
    char url[RECORD_URL_SIZE_MAX + 1]; /* the node's URL for clients: printable ASCII without blanks, not empty */
};

struct coordinator_record {
    uint8_t cluster[CLUSTER_ID_SIZE];
    struct pair_record pair;
    struct record_member members[RECORD_NODES];
};

/* Returns NULL, or the reason why the record must not be written. It must have an epoch above 0, a leader that is known
 * and in sync, known nodes in sync, and valid URLs. */
const char *record_check(const struct coordinator_record *record);
/* Writes the record, which must be valid, and a NUL. Returns the size without the NUL. */
size_t record_write(const struct coordinator_record *record, char out[COORDINATOR_VALUE_SIZE_MAX + 1]);
/* Parses a record. Returns 0, or 1 with an error message that says what to do; `out` is then invalid. */
int record_read(const char *text, size_t size, struct coordinator_record *out, char message[COORDINATOR_MESSAGE_SIZE]);

#endif
