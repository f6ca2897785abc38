/* fuzz_push.c: targets and contents of webhooks. An accepted URL is printable, has a host, and begins with its
 * origin. An accepted network has no bits after its prefix. A file of secrets is accepted, or refused with an
 * existing line's number and without any of its bytes. Whatever a task contains, its HTTP heads are lines of
 * printable ASCII.
 *
 * The input: one byte that selects the kind, then the text. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fuzz.h"
#include "push_address.h"
#include "push_request.h"
#include "push_secrets.h"

#define TEXT_MAX (16u << 10)

static void url(const char *text) {
    if (check_push_url(text) != NULL || text[0] == '\0') return;
    size_t origin = push_url_origin(text), size = strlen(text);
    assert(size <= PUSH_URL_SIZE_MAX && origin <= size && origin > strlen("http://"));
    assert(text[origin] == '\0' || text[origin] == '/' || text[origin] == '?');
    for (size_t i = 0; i < size; i++) assert(text[i] > ' ' && text[i] <= '~' && text[i] != '#');
    assert(memchr(text, '@', origin) == NULL);
}

static void networks(const char *text) {
    struct push_allowed allowed;
    if (!push_allowed_parse(text, &allowed)) return;
    assert(allowed.count <= PUSH_ALLOWED_MAX);
    for (size_t i = 0; i < allowed.count; i++) {
        const struct push_network *network = &allowed.networks[i];
        assert(network->prefix <= 128);
        for (unsigned bit = network->prefix; bit < 128; bit++)
            assert((network->bytes[bit / 8] >> (7 - bit % 8) & 1) == 0);
    }
}

static void secrets(const char *text, size_t size) {
    struct push_secrets secrets;
    char message[PUSH_SECRETS_MESSAGE_SIZE] = "";
    unsigned long line = 0, lines = 1;
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
    if (push_secrets_parse(text, size, &secrets, message) != 0)
        assert(sscanf(message, "line %lu ", &line) == 1 && line >= 1 && line <= lines);
    for (size_t i = 0; i < secrets.count; i++) {
        const struct push_secret *secret = &secrets.items[i];
        char signature[PUSH_SIGNATURE_SIZE];
        assert(secret->count >= 1 && secret->count <= PUSH_SECRETS_EACH);
        assert(push_secrets_find(&secrets, secret->queue) == secret);
        push_sign(secret, "id", 1, text, size, signature);
        assert(strlen(signature) == secret->count * 48 - 1);
    }
    push_secrets_deinit(&secrets);
}

static bool is_a_line(void *argument, const char *line) {
    (void)argument;
    for (const char *at = line; *at != '\0'; at++) assert(*at >= ' ' && *at <= '~');
    const size_t size = strlen(line);
    assert(size > 1 && size < PUSH_HEAD_LINE_SIZE);
    assert(strchr(line, ':') != NULL || line[size - 1] == ';'); /* for libcurl, ';' ends an empty header */
    return true;
}

static void heads(const char *text, size_t size) {
    struct push_job job = {.queue = text, .key = (const uint8_t *)text, .key_size = size};
    struct push_secret secret = {.keys = {{.size = PUSH_SECRET_SIZE_MIN}}, .count = 1};
    Tarry__Attribute attribute = TARRY__ATTRIBUTE__INIT, type = TARRY__ATTRIBUTE__INIT;
    Tarry__Attribute *attributes[] = {&attribute, &type};
    Tarry__Content content = TARRY__CONTENT__INIT;
    if (size > ATTRIBUTE_NAME_SIZE_MAX) return;
    attribute.name = attribute.value = type.value = (char *)text;
    type.name = "content-type";
    content.attributes = attributes;
    content.n_attributes = 2;
    content.payload = (ProtobufCBinaryData){.data = (uint8_t *)text, .len = size};
    const struct push_words words = {
        .job = &job, .content = &content, .secret = &secret, .cluster = (const uint8_t *)"12345678", .timestamp_s = 1};
    assert(push_heads(&words, is_a_line, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > TEXT_MAX) return 0;
    char *text = malloc(size);
    if (text == NULL) abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 4) {
    case 0:
        url(text);
        break;
    case 1:
        networks(text);
        break;
    case 2:
        secrets(text, size - 1);
        break;
    default:
        heads(text, size - 1);
    }
    free(text);
    return 0;
}
