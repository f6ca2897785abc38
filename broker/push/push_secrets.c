/* push_secrets.c: see push_secrets.h. */
#include "push_secrets.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "whsec_";

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool push_key_parse(const char *text, size_t size, struct push_key *out) {
    const size_t prefix_size = sizeof(prefix) - 1;
    const char *end = NULL;
    if (size <= prefix_size || memcmp(text, prefix, prefix_size) != 0) return false;
    bool is_key = sodium_base642bin(out->bytes, sizeof(out->bytes), text + prefix_size, size - prefix_size, NULL,
                                    &out->size, &end, sodium_base64_VARIANT_ORIGINAL) == 0;
    return is_key && end == text + size && out->size >= PUSH_SECRET_SIZE_MIN;
}

/* Decodes a queue's name: %XX becomes a byte. False: not a valid queue name. */
static bool take_name(const char *text, size_t size, char out[QUEUE_NAME_SIZE_MAX + 1]) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < size ? hex_digit(text[i + 1]) : -1, low = i + 2 < size ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0 || (high == 0 && low == 0)) return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0' || count == QUEUE_NAME_SIZE_MAX) return false;
        out[count++] = c;
    }
    out[count] = '\0';
    return count > 0;
}

static size_t word(const char *text, size_t size, size_t *at) {
    while (*at < size && (text[*at] == ' ' || text[*at] == '\t')) ++*at;
    size_t from = *at;
    while (*at < size && text[*at] != ' ' && text[*at] != '\t') ++*at;
    return from;
}

/* Parses a line. Returns NULL, or a message that says what is wrong. */
static const char *take_line(const char *line, size_t size, struct push_secrets *out) {
    size_t at = 0, from = word(line, size, &at);
    struct push_secret secret = {0};
    const char *problem = NULL;
    if (from == size || line[from] == '#') return NULL;
    if (out->count == QUEUES_MAX) return "exceeds the maximum of 4096 queues";
    if (!take_name(line + from, at - from, secret.queue)) return "does not begin with a queue name";
    if (push_secrets_find(out, secret.queue) != NULL) return "names a queue that an earlier line names";
    while (problem == NULL && (from = word(line, size, &at)) < size) {
        if (secret.count == PUSH_SECRETS_EACH)
            problem = "has more than two secrets";
        else if (!push_key_parse(line + from, at - from, &secret.keys[secret.count++]))
            problem = "has a malformed secret: it must be whsec_ and 24 to 64 bytes in base64";
    }
    if (problem == NULL && secret.count == 0) problem = "has no secret";
    if (problem == NULL) out->items[out->count++] = secret;
    sodium_memzero(&secret, sizeof(secret));
    return problem;
}

static size_t count_lines(const char *text, size_t size) {
    size_t count = 1;
    for (size_t i = 0; i < size; i++) count += text[i] == '\n';
    return count < QUEUES_MAX ? count : QUEUES_MAX;
}

int push_secrets_parse(const char *text, size_t size, struct push_secrets *out,
                       char message[PUSH_SECRETS_MESSAGE_SIZE]) {
    const size_t most = count_lines(text, size);
    const char *problem = NULL;
    size_t line = 1;
    *out = (struct push_secrets){.items = calloc(most, sizeof(*out->items))};
    if (out->items == NULL) {
        snprintf(message, PUSH_SECRETS_MESSAGE_SIZE, "out of memory");
        return 1;
    }
    for (size_t at = 0; problem == NULL && at < size; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t line_size = end != NULL ? (size_t)(end - text) - at : size - at;
        problem = take_line(text + at, line_size, out);
        if (problem != NULL) snprintf(message, PUSH_SECRETS_MESSAGE_SIZE, "line %zu %s", line, problem);
        at += line_size + 1;
    }
    return problem != NULL;
}

void push_secrets_deinit(struct push_secrets *secrets) {
    if (secrets->items != NULL) sodium_memzero(secrets->items, secrets->count * sizeof(*secrets->items));
    free(secrets->items);
    *secrets = (struct push_secrets){0};
}

const struct push_secret *push_secrets_find(const struct push_secrets *secrets, const char *queue) {
    for (size_t i = 0; i < secrets->count; i++)
        if (strcmp(secrets->items[i].queue, queue) == 0) return &secrets->items[i];
    return NULL;
}

void push_sign(const struct push_secret *secret, const char *id, uint64_t timestamp_s, const void *body, size_t size,
               char out[PUSH_SIGNATURE_SIZE]) {
    char digits[24];
    int count = snprintf(digits, sizeof(digits), ".%" PRIu64 ".", timestamp_s);
    for (size_t i = 0; i < secret->count; i++) {
        crypto_auth_hmacsha256_state state;
        uint8_t mac[crypto_auth_hmacsha256_BYTES];
        crypto_auth_hmacsha256_init(&state, secret->keys[i].bytes, secret->keys[i].size);
        crypto_auth_hmacsha256_update(&state, (const uint8_t *)id, strlen(id));
        crypto_auth_hmacsha256_update(&state, (const uint8_t *)digits, (size_t)count);
        crypto_auth_hmacsha256_update(&state, body, size);
        crypto_auth_hmacsha256_final(&state, mac);
        if (i > 0) *out++ = ' ';
        memcpy(out, "v1,", 3);
        sodium_bin2base64(out + 3, 45, mac, sizeof(mac), sodium_base64_VARIANT_ORIGINAL);
        out += strlen(out);
    }
}
