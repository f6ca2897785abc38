/* push_request.c: see push_request.h. */
#include "push_request.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "rfc3339.h"

#define CLUSTER_DIGITS 16u

struct heads {
    push_add_head *add;
    void *argument;
    bool failed;
    char line[PUSH_HEAD_LINE_SIZE];
    size_t size;
};

static bool is_name_char(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Returns whether CloudEvents sends the byte unchanged. Other bytes become %XX: not printable ASCII, space, quote,
 * percent sign. */
static bool is_plain(unsigned char c) {
    return c > ' ' && c <= '~' && c != '"' && c != '%';
}

/* Returns whether a byte may be in a path segment unchanged. */
static bool is_unreserved(unsigned char c) {
    return is_name_char(c) || c == '.' || c == '~';
}

static void put(struct heads *heads, const void *text, size_t size, bool (*stays)(unsigned char)) {
    const unsigned char *bytes = text;
    for (size_t i = 0; i < size; i++) {
        if (heads->size + 4 > sizeof(heads->line)) {
            heads->failed = true;
            return;
        }
        if (stays == NULL || stays(bytes[i]))
            heads->line[heads->size++] = (char)bytes[i];
        else
            heads->size += (size_t)snprintf(heads->line + heads->size, 4, "%%%02X", bytes[i]);
    }
}

static void put_literal(struct heads *heads, const char *text) {
    put(heads, text, strlen(text), NULL);
}

static void end(struct heads *heads) {
    heads->line[heads->size] = '\0';
    if (!heads->failed && !heads->add(heads->argument, heads->line)) heads->failed = true;
    heads->size = 0;
}

static void head(struct heads *heads, const char *name, const char *value) {
    put_literal(heads, name);
    put_literal(heads, ": ");
    put_literal(heads, value);
    end(heads);
}

static void head_number(struct heads *heads, const char *name, uint64_t value) {
    char digits[24];
    snprintf(digits, sizeof(digits), "%" PRIu64, value);
    head(heads, name, digits);
}

static void head_bytes(struct heads *heads, const char *name, const void *value, size_t size) {
    put_literal(heads, name);
    put_literal(heads, ": ");
    put(heads, value, size, is_plain);
    end(heads);
}

/* Writes `webhook-id` and `ce-id`: the same for each delivery of a task, and unique among tasks of all brokers. */
static void push_id(const uint8_t cluster[8], uint64_t id, char out[PUSH_ID_SIZE]) {
    int size = snprintf(out, PUSH_ID_SIZE, "tarry-");
    for (size_t i = 0; i < CLUSTER_DIGITS / 2; i++)
        size += snprintf(out + size, PUSH_ID_SIZE - (size_t)size, "%02x", cluster[i]);
    snprintf(out + size, PUSH_ID_SIZE - (size_t)size, "-%" PRIu64, id);
}

static const char *attribute(const Tarry__Content *content, const char *name) {
    for (size_t i = 0; i < content->n_attributes; i++)
        if (strcmp(content->attributes[i]->name, name) == 0) return content->attributes[i]->value;
    return NULL;
}

/* Returns whether a header can contain the text unchanged. */
static bool is_printable(const char *text) {
    if (text == NULL || *text == '\0' || *text == ' ') return false;
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~') return false;
    return text[-1] != ' ';
}

/* Returns whether the payload is a JSON object or array. A single JSON word or number may also be plain text. */
static bool is_json(const ProtobufCBinaryData *payload) {
    json_t *root = json_loadb((const char *)payload->data, payload->len, 0, NULL);
    json_decref(root);
    return root != NULL;
}

static const char *type_of(const Tarry__Content *content) {
    const char *said = attribute(content, "content-type");
    if (is_printable(said)) return said;
    if (content->payload.len > 0 && is_json(&content->payload)) return "application/json";
    return is_utf8(content->payload.data, content->payload.len) ? "text/plain; charset=utf-8"
                                                                : "application/octet-stream";
}

static void add_attributes(struct heads *heads, const Tarry__Content *content) {
    for (size_t i = 0; i < content->n_attributes; i++) {
        const char *name = content->attributes[i]->name, *value = content->attributes[i]->value;
        put_literal(heads, "tarry-attribute-");
        put(heads, name, strlen(name), is_name_char);
        /* libcurl sends a header with an empty value only if `;` follows its name instead of `:`. */
        put_literal(heads, *value == '\0' ? ";" : ": ");
        put(heads, value, strlen(value), is_plain);
        end(heads);
    }
}

static void add_event(struct heads *heads, const struct push_words *words, const char *id) {
    const struct push_job *job = words->job;
    const char *type = attribute(words->content, "ce-type");
    char time[RFC3339_TEXT_SIZE];
    head(heads, "ce-specversion", "1.0");
    head(heads, "ce-id", id);
    put_literal(heads, "ce-source: /tarry/");
    put(heads, id + sizeof("tarry-") - 1, CLUSTER_DIGITS, NULL);
    put_literal(heads, "/queues/");
    put(heads, job->queue, strlen(job->queue), is_unreserved);
    end(heads);
    head_bytes(heads, "ce-type", type != NULL && *type != '\0' ? type : "tarry.task.due",
               type != NULL && *type != '\0' ? strlen(type) : sizeof("tarry.task.due") - 1);
    head(heads, "ce-time", rfc3339_format(job->due_ms, time));
    if (job->key_size > 0) head_bytes(heads, "ce-subject", job->key, job->key_size);
    head_bytes(heads, "ce-tarryqueue", job->queue, strlen(job->queue));
    head_number(heads, "ce-tarryattempt", job->attempt);
    head_number(heads, "ce-tarrydeliveries", job->deliveries);
    head_number(heads, "ce-tarrylatenessms", job->late_ms);
}

bool push_heads(const struct push_words *words, push_add_head *add, void *argument) {
    struct heads heads = {.add = add, .argument = argument};
    char id[PUSH_ID_SIZE], signature[PUSH_SIGNATURE_SIZE];
    const ProtobufCBinaryData *payload = &words->content->payload;
    push_id(words->cluster, words->job->id, id);
    push_sign(words->secret, id, words->timestamp_s, payload->data, payload->len, signature);
    head(&heads, "Content-Type", type_of(words->content));
    head(&heads, "Expect", ""); /* do not wait for 100 Continue */
    head(&heads, "webhook-id", id);
    head_number(&heads, "webhook-timestamp", words->timestamp_s);
    head(&heads, "webhook-signature", signature);
    add_event(&heads, words, id);
    add_attributes(&heads, words->content);
    return !heads.failed;
}
