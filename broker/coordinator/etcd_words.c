/* etcd_words.c: see etcd_words.h. */
#include "etcd_words.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator_backend.h"

#define BASE64 sodium_base64_VARIANT_ORIGINAL
/* Size in bytes of the Base64 text for `size` bytes, including the NUL. */
#define BASE64_SIZE(size) sodium_base64_ENCODED_LEN(size, BASE64)
#define QUOTED_MAX 200

/* ---- requests */

static json_t *json_bytes(const void *data, size_t size) {
    char text[BASE64_SIZE(COORDINATOR_VALUE_SIZE_MAX)];
    assert(size <= COORDINATOR_VALUE_SIZE_MAX);
    return json_string(sodium_bin2base64(text, sizeof text, data, size, BASE64));
}

static json_t *json_text(const char *text) {
    return json_bytes(text, strlen(text));
}

static json_t *json_u64(uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return json_string(text);
}

/* Returns the JSON text; frees the object. */
static char *written(json_t *object) {
    char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text;
}

/* Returns the first key after all keys with the prefix, which ends with '/'. */
static json_t *json_end_of(const char *prefix) {
    char end[ETCD_KEY_SIZE];
    snprintf(end, sizeof end, "%s", prefix);
    end[strlen(end) - 1]++;
    return json_text(end);
}

char *etcd_ask_range(const char *key) {
    return written(json_pack("{s:o}", "key", json_text(key)));
}

char *etcd_ask_count(const char *prefix) {
    return written(
        json_pack("{s:o, s:o, s:b}", "key", json_text(prefix), "range_end", json_end_of(prefix), "count_only", 1));
}

char *etcd_ask_watch(const char *prefix) {
    return written(
        json_pack("{s:{s:o, s:o}}", "create_request", "key", json_text(prefix), "range_end", json_end_of(prefix)));
}

char *etcd_ask_lease(uint64_t seconds) {
    return written(json_pack("{s:o}", "TTL", json_u64(seconds)));
}

char *etcd_ask_put(const char *key, const char *text, uint64_t lease) {
    return written(
        json_pack("{s:o, s:o, s:o}", "key", json_text(key), "value", json_text(text), "lease", json_u64(lease)));
}

char *etcd_ask_with_lease(uint64_t lease) {
    return written(json_pack("{s:o}", "ID", json_u64(lease)));
}

char *etcd_ask_token(const char *user, size_t user_size, const char *password) {
    return written(json_pack("{s:s%, s:s}", "name", user, user_size, "password", password));
}

static void add_compare(json_t *compares, const char *key, const char *target, const char *name, json_t *value) {
    json_array_append_new(compares, json_pack("{s:o, s:s, s:s, s:o}", "key", json_text(key), "target", target, "result",
                                              "EQUAL", name, value));
}

char *etcd_ask_change(const struct etcd_change *changes, size_t count) {
    json_t *compares = json_array(), *puts = json_array(), *reads = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct coordinator_change *change = changes[i].change;
        const struct etcd_entry *known = changes[i].known;
        add_compare(compares, changes[i].key, "VERSION", "version", json_u64(change->version));
        if (known != NULL) {
            add_compare(compares, changes[i].key, "MOD", "mod_revision", json_u64(known->mark));
            add_compare(compares, changes[i].key, "VALUE", "value", json_bytes(known->value, known->size));
        }
        if (change->value != NULL)
            json_array_append_new(puts, json_pack("{s:{s:o, s:o}}", "request_put", "key", json_text(changes[i].key),
                                                  "value", json_bytes(change->value, change->size)));
        json_array_append_new(reads, json_pack("{s:{s:o}}", "request_range", "key", json_text(changes[i].key)));
    }
    json_array_extend(puts, reads);
    return written(json_pack("{s:o, s:o, s:o}", "compare", compares, "success", puts, "failure", reads));
}

/* ---- responses */

/* Parses a decimal number without leading zeros; a missing number is 0. */
static bool take_u64(const json_t *object, const char *name, uint64_t *out) {
    const json_t *member = json_object_get(object, name);
    *out = 0;
    if (member == NULL) return true;
    const char *text = json_string_value(member);
    if (text == NULL || *text == '\0' || (*text == '0' && text[1] != '\0')) return false;
    for (; *text != '\0'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (*text < '0' || *text > '9' || *out > (UINT64_MAX - digit) / 10) return false;
        *out = *out * 10 + digit;
    }
    return true;
}

/* Parses base64. A missing field is an empty string. Returns false if the text is invalid, or its bytes are more than
 * `max`. */
static bool take_bytes(const json_t *object, const char *name, void *out, size_t max, size_t *out_size) {
    const json_t *member = json_object_get(object, name);
    *out_size = 0;
    if (member == NULL) return true;
    const char *text = json_string_value(member), *end;
    size_t size = json_string_length(member);
    return text != NULL && sodium_base642bin(out, max, text, size, NULL, out_size, &end, BASE64) == 0 &&
           end == text + size;
}

/* Parses an answer; returns NULL if it is not a JSON object or lacks etcd's header. */
static json_t *take_answer(const char *text, size_t size, uint64_t *out_cluster,
                           char message[COORDINATOR_MESSAGE_SIZE]) {
    json_error_t error;
    uint64_t revision = 0;
    json_t *answer = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    const json_t *header = json_object_get(answer, "header");
    if (take_u64(header, "cluster_id", out_cluster) && take_u64(header, "revision", &revision) && *out_cluster != 0)
        return answer;
    json_decref(answer);
    (void)coordinator_refuse(message, "it does not answer as etcd does: does another server listen at that port?");
    return NULL;
}

/* Parses the result of a read; its `kvs` has at most one entry. */
static int take_entry(const json_t *range, const char *key, struct etcd_entry *out,
                      char message[COORDINATOR_MESSAGE_SIZE]) {
    const json_t *kvs = json_object_get(range, "kvs"), *kv = json_array_get(kvs, 0);
    char found[ETCD_KEY_SIZE];
    size_t key_size;
    memset(out, 0, offsetof(struct etcd_entry, value));
    if (!json_is_object(range) || (kvs != NULL && (!json_is_array(kvs) || json_array_size(kvs) > 1)))
        return coordinator_refuse(
            message, "its answer about %s is not one that etcd sends: does another server listen at that port?", key);
    if (kv == NULL) return 0;
    const json_t *value = json_object_get(kv, "value");
    if (json_string_length(value) >= BASE64_SIZE(COORDINATOR_VALUE_SIZE_MAX))
        return coordinator_refuse(
            message, "%s has more than %d bytes, so Tarry did not write it: name another path in --coordinator", key,
            COORDINATOR_VALUE_SIZE_MAX);
    bool is_good = take_u64(kv, "version", &out->version) && take_u64(kv, "create_revision", &out->birth) &&
                   take_u64(kv, "mod_revision", &out->mark) && take_bytes(kv, "key", found, sizeof found, &key_size) &&
                   take_bytes(kv, "value", out->value, COORDINATOR_VALUE_SIZE_MAX, &out->size) && out->version > 0 &&
                   out->birth > 0 && out->mark >= out->birth && key_size == strlen(key) &&
                   memcmp(found, key, key_size) == 0;
    if (!is_good)
        return coordinator_refuse(
            message, "its answer about %s is not one that etcd sends: does another server listen at that port?", key);
    out->value[out->size] = '\0';
    return 0;
}

int etcd_take_count(const char *text, size_t size, uint64_t *out_cluster, char message[COORDINATOR_MESSAGE_SIZE]) {
    json_t *answer = take_answer(text, size, out_cluster, message);
    json_decref(answer);
    return answer == NULL;
}

int etcd_take_range(const char *text, size_t size, const char *key, uint64_t *out_cluster, struct etcd_entry *out,
                    char message[COORDINATOR_MESSAGE_SIZE]) {
    json_t *answer = take_answer(text, size, out_cluster, message);
    int result = answer == NULL ? 1 : take_entry(answer, key, out, message);
    json_decref(answer);
    return result;
}

static bool is_as_expected(const struct etcd_change *change, const struct etcd_entry *entry) {
    const struct etcd_entry *known = change->known;
    return entry->version == change->change->version &&
           (known == NULL || (entry->mark == known->mark && entry->size == known->size &&
                              memcmp(entry->value, known->value, known->size) == 0));
}

static bool is_as_wanted(const struct coordinator_change *change, const struct etcd_entry *entry) {
    if (change->value == NULL) return entry->version == change->version;
    return entry->version == change->version + 1 && entry->size == change->size &&
           memcmp(entry->value, change->value, change->size) == 0;
}

/* Parses the last `count` responses of the transaction: the responses to its reads, which follow the responses to its
 * puts. */
static int take_entries(const json_t *answer, const struct etcd_change *changes, size_t count, bool happened,
                        struct etcd_entry *out, char message[COORDINATOR_MESSAGE_SIZE]) {
    const json_t *responses = json_object_get(answer, "responses");
    size_t puts = 0, wanted = 0, expected = 0;
    for (size_t i = 0; happened && i < count; i++) puts += changes[i].change->value != NULL;
    if (json_array_size(responses) != puts + count)
        return coordinator_refuse(
            message,
            "its answer to the change of %s is not one that etcd sends: does another server listen at that port?",
            changes[0].key);
    for (size_t i = 0; i < count; i++) {
        const json_t *range = json_object_get(json_array_get(responses, puts + i), "response_range");
        if (take_entry(range, changes[i].key, &out[i], message) != 0) return 1;
        wanted += is_as_wanted(changes[i].change, &out[i]);
        expected += is_as_expected(&changes[i], &out[i]);
    }
    if (happened ? wanted == count : expected < count) return 0;
    return coordinator_refuse(
        message, "its answer to the change of %s contradicts itself, so the change may or may not have happened",
        changes[0].key);
}

int etcd_take_change(const char *text, size_t size, const struct etcd_change *changes, size_t count,
                     uint64_t *out_cluster, bool *out_happened, struct etcd_entry out[COORDINATOR_CHANGES_MAX],
                     char message[COORDINATOR_MESSAGE_SIZE]) {
    json_t *answer = take_answer(text, size, out_cluster, message);
    if (answer == NULL) return 1;
    *out_happened = json_is_true(json_object_get(answer, "succeeded"));
    int result = take_entries(answer, changes, count, *out_happened, out, message);
    json_decref(answer);
    return result;
}

/* Parses a token. It is sent in a header line, so it must not contain a line end. */
int etcd_take_token(const char *text, size_t size, char out[ETCD_TOKEN_SIZE_MAX + 1],
                    char message[COORDINATOR_MESSAGE_SIZE]) {
    uint64_t cluster;
    json_t *answer = take_answer(text, size, &cluster, message);
    if (answer == NULL) return 1;
    const json_t *token = json_object_get(answer, "token");
    const char *found = json_string_value(token);
    size_t found_size = json_string_length(token);
    bool is_good = found != NULL && found_size > 0 && found_size <= ETCD_TOKEN_SIZE_MAX;
    for (size_t i = 0; is_good && i < found_size; i++) is_good = found[i] > ' ' && found[i] <= '~';
    if (is_good) memcpy(out, found, found_size + 1);
    json_decref(answer);
    return is_good ? 0 : coordinator_refuse(message, "its answer to a user's name and password has no token");
}

int etcd_take_lease(const char *text, size_t size, uint64_t *out_lease, uint64_t *out_seconds,
                    char message[COORDINATOR_MESSAGE_SIZE]) {
    json_t *answer = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    const json_t *result = json_object_get(answer, "result"), *lease = result != NULL ? result : answer;
    bool is_good = take_u64(lease, "ID", out_lease) && take_u64(lease, "TTL", out_seconds) && *out_lease != 0;
    json_decref(answer);
    return is_good ? 0 : coordinator_refuse(message, "its answer about a lease is not etcd's");
}

bool etcd_is_watch_over(const char *line, size_t size) {
    json_t *answer = json_loadb(line, size, 0, NULL);
    const json_t *result = json_object_get(answer, "result");
    bool is_over = !json_is_object(result) || json_is_true(json_object_get(result, "canceled"));
    json_decref(answer);
    return is_over;
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

/* Error texts of etcd's rpctypes/error.go. The text decides, because several errors share a code. */
static const struct {
    const char *text;
    enum etcd_refusal refusal;
} refusals[] = {
    {"invalid auth token", ETCD_TOKEN_OLD},
    {"revision of auth store is old", ETCD_TOKEN_OLD},
    {"user name is empty", ETCD_NO_TOKEN},
    {"user name not found", ETCD_NO_TOKEN},
    {"permission denied", ETCD_FORBIDDEN},
    {"authentication failed", ETCD_WRONG_USER},
    {"authentication is not enabled", ETCD_NO_USERS},
    {"database space exceeded", ETCD_NO_ROOM},
};

/* Returns etcd's error text: `error` in gateways up to Debian 12's, `message` beside a gRPC code in later ones; NULL:
 * the answer is not an error of etcd. */
static const char *error_of(const json_t *answer) {
    const char *error = json_string_value(json_object_get(answer, "error"));
    if (error != NULL || !json_is_integer(json_object_get(answer, "code"))) return error;
    return json_string_value(json_object_get(answer, "message"));
}

enum etcd_refusal etcd_take_refusal(long status, const char *text, size_t size, char out[COORDINATOR_MESSAGE_SIZE]) {
    json_t *answer = json_loadb(text, size, 0, NULL);
    const char *error = error_of(answer);
    if (error == NULL) {
        json_decref(answer);
        (void)coordinator_refuse(
            out, "it answers with HTTP status %ld, which etcd does not send: does another server listen at that port?",
            status);
        return ETCD_OTHER;
    }
    snprintf(out, COORDINATOR_MESSAGE_SIZE, "%.*s", QUOTED_MAX, error);
    for (char *at = out; *at != '\0'; at++)
        if (*at < ' ' || *at > '~') *at = '?';
    json_decref(answer);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (strstr(out, refusals[i].text) != NULL) return refusals[i].refusal;
    return ETCD_OTHER;
}
