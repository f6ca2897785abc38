/* private_file_test.c: files with a secret: the token and the key of a pair are read, or refused with the file's name
 * and the reason (broker/shell/process/private_file.h). */
#include "private_file.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "peer_credentials.h"

static char path[64], message[CONFIG_TEXT_SIZE + 256];
static struct config config; /* large */

static int make(void **state) {
    snprintf(path, sizeof(path), "/tmp/tarry-private-XXXXXX");
    int file = mkstemp(path);
    if (file < 0 || sodium_init() < 0) return 1;
    snprintf(config.peer_token_file, sizeof(config.peer_token_file), "%s", path);
    return close(file);
}

static int drop(void **state) {
    return unlink(path);
}

/* Writes `text`, and then 'x' up to `size` bytes. */
static void put(const char *text, size_t size, mode_t mode) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), mode), 0);
    fputs(text, file);
    for (size_t i = strlen(text); i < size; i++) fputc('x', file);
    assert_int_equal(fclose(file), 0);
}

/* Checks the message of the refusal: the purpose of the file, its name, and the reason. */
static void says(const char *what, const char *problem) {
    char expected[256];
    snprintf(expected, sizeof(expected), "%s %s %s", what, path, problem);
    assert_string_equal(message, expected);
}

static void a_token_is_one_word(void **state) {
    static const struct {
        const char *text;
        size_t size;
        mode_t mode;
        const char *problem; /* NULL: none */
    } cases[] = {
        {"tarry_word", 0, 0600, NULL},
        {"tarry_word\r\n", 0, 0600, NULL},
        {"", RPC_CLIENT_TOKEN_SIZE - 1, 0600, NULL},
        {"", RPC_CLIENT_TOKEN_SIZE, 0600, "is longer than a token"},
        {"", 100000, 0600, "is longer than a token"},
        {"\n", 0, 0600, "is empty; 'tarry token add' creates a token"},
        {"two words", 0, 0600, "must contain exactly one token"},
        {"tarry_word", 0, 0640, "can be used by other users; run chmod 600 on it, or create a new one"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct peer_credentials credentials;
        char token[RPC_CLIENT_TOKEN_SIZE] = "";
        put(cases[i].text, cases[i].size, cases[i].mode);
        int result = peer_credentials_open(&credentials, &config, NULL, message, sizeof(message));
        assert_int_equal(result, cases[i].problem != NULL);
        if (result != 0) {
            says("peer token", cases[i].problem);
            continue;
        }
        assert_true(credentials.token(credentials.argument, token));
        size_t size = cases[i].size != 0 ? cases[i].size : strlen("tarry_word");
        assert_int_equal(strlen(token), size);
        if (cases[i].size == 0) assert_string_equal(token, "tarry_word");
    }
}

static void a_key_is_32_to_1024_bytes(void **state) {
    struct peer_key key, same;
    put("", 31, 0600);
    assert_int_equal(peer_key_read(&key, path, message, sizeof(message)), 1);
    says("peer key", "is shorter than the minimum of 32 bytes; 'tarry keygen --peer' creates a key");
    put("", 1025, 0600);
    assert_int_equal(peer_key_read(&key, path, message, sizeof(message)), 1);
    says("peer key", "is larger than the maximum of 1024 bytes");
    put("", 1024, 0600);
    assert_int_equal(peer_key_read(&key, path, message, sizeof(message)), 0);
    memset(&key, 0, sizeof(key));
    memset(&same, 0, sizeof(same));
    put("", 32, 0600);
    assert_int_equal(peer_key_read(&key, path, message, sizeof(message)), 0);
    put(" \txxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", 0, 0600); /* white space around the secret is ignored */
    assert_int_equal(peer_key_read(&same, path, message, sizeof(message)), 0);
    assert_memory_equal(key.requests, same.requests, sizeof(key.requests));
}

static void one_that_is_not_there_is_told_with_what_makes_it(void **state) {
    struct peer_key key;
    assert_int_equal(peer_key_read(&key, "/tmp/tarry-none-there", message, sizeof(message)), 1);
    assert_non_null(
        strstr(message, "peer key /tmp/tarry-none-there cannot be read: No such file or directory; 'tarry"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_one_word),
        cmocka_unit_test(a_key_is_32_to_1024_bytes),
        cmocka_unit_test(one_that_is_not_there_is_told_with_what_makes_it),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
