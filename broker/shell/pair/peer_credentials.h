/* peer_credentials.h: what this node shows to the other one of the pair, and by what it knows it: certificates, a
 * token, the peer key. */
#ifndef TARRY_SHELL_PEER_CREDENTIALS_H
#define TARRY_SHELL_PEER_CREDENTIALS_H

#include <stddef.h>

#include "config.h"
#include "peer_proof.h"
#include "rpc_client.h"

/* The token is read from its file at each dial, so a new one counts from the next connection on. `config` must stay,
 * and so must `tls` (NULL: none). 0, or 1 with a sentence: the file that should hold it does not. */
int peer_credentials_open(struct peer_credentials *out, const struct config *config, struct tls *tls, char *message,
                          size_t message_size);

/* ---- the file of --peer-key: a text that only the two nodes of a pair have (peer_proof.h) */
/* What counts is the text without the white space around it. */
#define PEER_KEY_TEXT_MIN 32u
#define PEER_KEY_FILE_MAX 1024u

/* 0, or 1 with a sentence. Leaves no copy of the text. */
int peer_key_read(struct peer_key *out, const char *path, char *message, size_t message_size);

#endif
