/* peer_credentials.c: see peer_credentials.h. */
#include "peer_credentials.h"

#include <ctype.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "logfmt.h"
#include "private_file.h"

/* Checks and copies a token. Returns NULL, or the problem: for example a character that an HTTP header cannot carry. */
static const char *take(void *argument, const uint8_t *text, size_t size) {
    char *out = argument; /* RPC_CLIENT_TOKEN_SIZE */
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r')) size--;
    if (size == 0) return "is empty; 'tarry token add' creates a token";
    if (size >= RPC_CLIENT_TOKEN_SIZE) return "is longer than a token";
    for (size_t i = 0; i < size; i++)
        if (text[i] <= ' ' || text[i] > '~') return "must contain exactly one token";
    memcpy(out, text, size);
    out[size] = '\0';
    return NULL;
}

static int read_token(const struct config *config, char out[RPC_CLIENT_TOKEN_SIZE], char *message,
                      size_t message_size) {
    const struct private_file file = {.what = "peer token",
                                      .path = config->peer_token_file,
                                      .option = "peer-token-file",
                                      .remedy = "; 'tarry token add NAME --role peer' on the other node creates it"};
    return private_file_use(&file, RPC_CLIENT_TOKEN_SIZE + 2, take, out, message, message_size);
}

/* Reads the token. Called on the RPC client's thread. */
static bool token(const void *argument, char out[RPC_CLIENT_TOKEN_SIZE]) {
    static struct logfmt_limit limit;
    char message[CONFIG_TEXT_SIZE + 256], quoted[LOGFMT_VALUE_SIZE];
    if (read_token(argument, out, message, sizeof(message)) == 0) return true;
    if (logfmt_allowed(&limit)) logfmt_warning("peer_token_unread", "reason=%s", logfmt_quote(message, quoted));
    return false;
}

int peer_credentials_open(struct peer_credentials *out, const struct config *config, struct tls *tls, char *message,
                          size_t message_size) {
    char first[RPC_CLIENT_TOKEN_SIZE];
    *out = (struct peer_credentials){.tls = tls, .argument = config};
    if (config->peer_token_file[0] == '\0') return 0;
    out->token = token;
    int result = read_token(config, first, message, message_size);
    sodium_memzero(first, sizeof(first));
    return result;
}

/* ---- the peer key */

/* Derives the key from the file's text. Returns NULL, or the problem. */
static const char *derive(void *out, const uint8_t *text, size_t size) {
    if (size > PEER_KEY_FILE_MAX) return "is larger than the maximum of 1024 bytes";
    while (size > 0 && isspace(text[size - 1])) size--;
    while (size > 0 && isspace(*text)) text++, size--;
    if (size < PEER_KEY_TEXT_MIN) return "is shorter than the minimum of 32 bytes; 'tarry keygen --peer' creates a key";
    peer_key_derive(out, text, size);
    return NULL;
}

int peer_key_read(struct peer_key *out, const char *path, char *message, size_t message_size) {
    const struct private_file file = {
        .what = "peer key",
        .path = path,
        .option = "peer-key",
        .remedy = "; 'tarry keygen --peer FILE' creates it; both nodes of a pair need the same file"};
    return private_file_use(&file, PEER_KEY_FILE_MAX + 1, derive, out, message, message_size);
}
