/* fuzz_tokens.c: the file of tokens. No bytes crash its parser. An error names an existing line, in text that a
 * terminal may show. A valid file is within the limits, stays the same when written and read again, and lets in only
 * clients that have one of its rows. Removing a row removes exactly that row. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "token_file.h"

#define SIZE_MAX_HERE (32u << 10)
#define NOW_S 1000000u

static const char token[] = "tarry_of-nobody";

static void sentence_is_fit(const char *message, const char *text, size_t size) {
    unsigned long line = 0, lines = 1;
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
    assert(strnlen(message, TOKEN_FILE_MESSAGE_SIZE) < TOKEN_FILE_MESSAGE_SIZE);
    assert(sscanf(message, "line %lu: ", &line) == 1 && line >= 1 && line <= lines);
    for (const char *at = message; *at != '\0'; at++) assert((unsigned char)*at >= ' ' && *at != 0x7f);
}

static void row_is_within_limits(const struct access_entry *entry) {
    const char *prefix = entry->prefixes;
    assert(access_name_problem(entry->name, strlen(entry->name)) == NULL);
    assert(entry->kind < KIND_OWNER && (entry->roles & ~ROLES_ALL) == 0);
    assert(entry->kind != KIND_LOOPBACK || (entry->roles & (ROLE_admin | ROLE_peer)) == 0);
    assert((entry->kind == KIND_LOOPBACK) == (strcmp(entry->name, "loopback") == 0));
    assert(entry->prefix_count <= ACCESS_PREFIXES_MAX && (entry->prefix_count == 0) == (prefix == NULL));
    for (size_t i = 0; i < entry->prefix_count; i++, prefix += strlen(prefix) + 1)
        assert(access_prefix_problem(prefix, strlen(prefix)) == NULL);
    for (int i = 0; i < LIMITS; i++) {
        uint64_t least, most, number = entry->limits[i];
        access_limit_range((enum access_limit)i, &least, &most);
        assert(number == 0 || (number >= least && number <= most));
    }
}

static void is_the_same_again(const struct token_file *file) {
    struct token_file again;
    char message[TOKEN_FILE_MESSAGE_SIZE] = "";
    size_t size = 0, size_again = 0;
    char *text = token_file_format(file, &size);
    assert(text != NULL);
    assert(token_file_parse(text, size, &again, message) == 0 && again.count == file->count);
    for (size_t i = 0; i < file->count; i++) assert(access_is_same(&file->entries[i], &again.entries[i]));
    char *text_again = token_file_format(&again, &size_again);
    assert(text_again != NULL && size == size_again && memcmp(text, text_again, size) == 0);
    token_file_deinit(&again);
    free(text);
    free(text_again);
}

/* Returns the name of the principal that gets in with `token`, with the certificate, or with nothing. */
static const char *who(const struct access_set *set, bool has_token, const char *certificate, bool is_local) {
    struct access_principal *out = NULL;
    const struct access_shown shown = {.is_local = is_local,
                                       .certificate = certificate,
                                       .token = has_token ? token : NULL,
                                       .token_size = has_token ? strlen(token) : 0};
    enum access_verdict verdict = access_judge(set, &shown, NOW_S, &out);
    assert((out != NULL) == (verdict == ACCESS_IN || verdict == ACCESS_EXPIRED));
    assert(out == NULL || access_has_expired(out, NOW_S) == (verdict == ACCESS_EXPIRED));
    const char *name = out != NULL ? out->entry.name : ""; /* name of this client in the set of tokens */
    access_release(out);
    return name;
}

static void rows_alone_let_in(struct token_file *file) {
    uint8_t hash[ACCESS_HASH_SIZE];
    size_t count = file->count;
    bool is_known = false, has_own[ACCESS_PRINCIPALS_MAX];
    assert(access_token_hash(token, strlen(token), hash));
    for (size_t i = 0; i < count; i++) {
        const struct access_entry *entry = &file->entries[i];
        is_known |= entry->kind == KIND_TOKEN && memcmp(entry->hash, hash, sizeof(hash)) == 0;
        has_own[i] = entry->kind == KIND_CERTIFICATE;
    }
    char(*names)[ACCESS_NAME_SIZE_MAX + 1] = calloc(count + 1, sizeof(*names));
    if (names == NULL) abort();
    for (size_t i = 0; i < count; i++) memcpy(names[i], file->entries[i].name, sizeof(*names));
    struct access_set *set = access_set_new(file->entries, count);
    assert(set != NULL);
    const char *shown = who(set, true, "", true), *nothing = who(set, false, "", false);
    const char *local = who(set, false, "", true);
    assert((shown[0] != '\0') == is_known && nothing[0] == '\0' && strcmp(local, "loopback") == 0);
    for (size_t i = 0; i < count; i++) {
        assert(access_find(set, names[i]) != NULL);
        const char *certified = who(set, false, names[i], false);
        assert((strcmp(certified, names[i]) == 0) == has_own[i]);
    }
    free(names);
    access_set_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct token_file file = {0};
    char message[TOKEN_FILE_MESSAGE_SIZE] = "";
    if (size > SIZE_MAX_HERE) return 0;
    char *text =
        malloc(size > 0 ? size : 1); /* memory of exactly the right size, so that a read past the end is detected */
    if (text == NULL) abort();
    if (size > 0) memcpy(text, data, size);
    int result = token_file_parse(text, size, &file, message);
    assert(result == 0 || result == 1);
    if (result != 0) {
        assert(file.entries == NULL && file.count == 0);
        sentence_is_fit(message, text, size);
    } else {
        assert(message[0] == '\0' && file.count <= ACCESS_PRINCIPALS_MAX);
        for (size_t i = 0; i < file.count; i++) row_is_within_limits(&file.entries[i]);
        is_the_same_again(&file);
        size_t count = file.count;
        if (count > 0) {
            char name[ACCESS_NAME_SIZE_MAX + 1];
            memcpy(name, file.entries[count / 2].name, sizeof(name));
            assert(token_file_remove(&file, name) && file.count == count - 1 && !token_file_remove(&file, name));
            is_the_same_again(&file);
        }
        rows_alone_let_in(&file);
    }
    token_file_deinit(&file);
    free(text);
    return 0;
}
