/* peer_key.h: the file of --peer-key: a text that both nodes of a pair have, and nobody else (peer_proof.h). */
#ifndef TARRY_SHELL_PAIR_PEER_KEY_H
#define TARRY_SHELL_PAIR_PEER_KEY_H

#include "peer_proof.h"

/* What counts is the text without the white space around it. */
#define PEER_KEY_TEXT_MIN 32u
#define PEER_KEY_FILE_MAX 1024u

/* 0, or 1 with a sentence. Leaves no copy of the text. */
int peer_key_read(struct peer_key *out, const char *path, char *message, size_t message_size);

#endif
