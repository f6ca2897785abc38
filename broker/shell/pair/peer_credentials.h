/* peer_credentials.h: the credentials of a pair: what this node shows to the other node, and how it recognises the
 * other node. They are certificates, a token and the peer key. */
#ifndef TARRY_SHELL_PEER_CREDENTIALS_H
#define TARRY_SHELL_PEER_CREDENTIALS_H

#include <stddef.h>

#include "config.h"
#include "peer_proof.h"
#include "rpc_client.h"

/* Prepares the credentials. Each dial reads the token from its file, so a new token is used from the next connection
 * on. `config` and `tls` (NULL: no TLS) must outlive `out`. Returns 0, or 1 with a sentence if a file has no valid
 * content. */
int peer_credentials_open(struct peer_credentials *out, const struct config *config, struct tls *tls, char *message,
                          size_t message_size);

/* ---- the file of --peer-key: a text that only the two nodes of a pair have (peer_proof.h) */
/* Minimum size of the text and maximum size of the file, in bytes. White space around the text is not counted. */
#define PEER_KEY_TEXT_MIN 32u
#define PEER_KEY_FILE_MAX 1024u

/* Reads and derives the key. Returns 0, or 1 with a sentence. Leaves no copy of the text in memory. */
int peer_key_read(struct peer_key *out, const char *path, char *message, size_t message_size);

#endif
