/* zookeeper_words.h: turns errors of ZooKeeper and of its client library into messages that say what is wrong and what
 * to do. Thread-safety: pure functions. */
#ifndef TARRY_COORDINATOR_ZOOKEEPER_WORDS_H
#define TARRY_COORDINATOR_ZOOKEEPER_WORDS_H

#include <stdbool.h>

#include "coordinator.h"

#define ZOOKEEPER_WHY_SIZE 512

/* Explains why there is no connection, from a line of the client library's log ("Socket HOST:PORT zk retcode=…,
 * errno=…"). `out` gets a part of a sentence, with the server and what to do. */
void zookeeper_why(const char *line, char out[ZOOKEEPER_WHY_SIZE]);
/* Describes the result `rc` of an operation on `path` in a sentence. */
void zookeeper_explain(int rc, const char *path, bool has_credentials, char out[COORDINATOR_MESSAGE_SIZE]);
/* Explains the result `rc`, other than ZOK, of passing the credentials: part of a sentence, with what to do. */
void zookeeper_why_not_entered(int rc, char out[ZOOKEEPER_WHY_SIZE]);

#endif
