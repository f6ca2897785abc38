/* zookeeper_words.h: what ZooKeeper and its client library mean, in sentences that say what is wrong and what to do.
 *
 * Thread-safety: pure functions. */
#ifndef TARRY_COORDINATOR_ZOOKEEPER_WORDS_H
#define TARRY_COORDINATOR_ZOOKEEPER_WORDS_H

#include <stdbool.h>

#include "coordinator.h"

#define ZOOKEEPER_WHY_SIZE 512

/* Why there is no connection, from what the client library wrote to its log ("Socket HOST:PORT zk retcode=…, errno=…").
 * `out`: part of a sentence, with the server and with what to do. */
void zookeeper_why(const char *line, char out[ZOOKEEPER_WHY_SIZE]);
/* The result `rc` of an operation on `path`, as a sentence. */
void zookeeper_explain(int rc, const char *path, bool has_credentials, char out[COORDINATOR_MESSAGE_SIZE]);
/* The result `rc` of handing over the credentials, which is not ZOK: part of a sentence, with what to do. */
void zookeeper_why_not_entered(int rc, char out[ZOOKEEPER_WHY_SIZE]);

#endif
