/* peer_key.c: see peer_key.h. */
#include "peer_key.h"

#include <ctype.h>
#include <stdio.h>

#include "private_file.h"

/* NULL, or what is wrong with it. */
static const char *derive(void *out, const uint8_t *text, size_t size) {
    if (size > PEER_KEY_FILE_MAX) return "is larger than a key may be (1024 bytes)";
    while (size > 0 && isspace(text[size - 1])) size--;
    while (size > 0 && isspace(*text)) text++, size--;
    if (size < PEER_KEY_TEXT_MIN) return "is shorter than a key must be (32 bytes); 'tarry keygen --peer' makes one";
    peer_key_derive(out, text, size);
    return NULL;
}

int peer_key_read(struct peer_key *out, const char *path, char *message, size_t message_size) {
    const struct private_file file = {
        .what = "peer key",
        .path = path,
        .option = "peer-key",
        .remedy = "; 'tarry keygen --peer FILE' makes one, and both nodes of a pair have the same"};
    return private_file_use(&file, PEER_KEY_FILE_MAX + 1, derive, out, message, message_size);
}
