/* config_test.c: the command line, the INI file, and the address to listen at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

#include "config.h"
#include "listen.h"
#include "queue_policy.h"
#include "tarry.pb-c.h"

static char message[CONFIG_MESSAGE_SIZE];
#define END ((const char *)NULL)

/* Loads the arguments up to NULL. Returns 0, or 1 if they were refused. */
static int load(struct config *config, const char *first, ...) {
    char *argv[16] = {(char *)"tarryd"};
    int argc = 1;
    va_list arguments;
    va_start(arguments, first);
    for (const char *text = first; text != NULL; text = va_arg(arguments, const char *)) argv[argc++] = (char *)text;
    va_end(arguments);
    message[0] = '\0';
    return config_load(config, argc, argv, message);
}

static void defaults_are_the_named_limits(void **state) {
    (void)state;
    struct config config;
    assert_int_equal(load(&config, "--data", "/d", END), 0);
    assert_string_equal(config.data, "/d");
    assert_string_equal(config.listen, DEFAULT_URL);
    assert_int_equal(config.memory, MEMORY_DEFAULT);
    assert_true(config.create_queues);
    assert_false(config.unsafe_no_tls);
    assert_int_equal(config.payload_max, PAYLOAD_SIZE_MAX_DEFAULT);
    assert_int_equal(config.outcomes_max, OUTCOMES_MAX_DEFAULT);
    assert_int_equal(config.segment_size, SEGMENT_SIZE_DEFAULT);
    assert_int_equal(config.lease_ms, policy_default().lease_ms);
}

static void options_take_their_value_after_a_blank_or_an_equals_sign(void **state) {
    (void)state;
    struct config config;
    assert_int_equal(load(&config, "--data=/d=e", "--memory", "1GiB", "--create-queues=no", "--outcome-retention=1h30m",
                          "--outcomes_max", "7", "--unsafe-no-tls", "--backoff", "fixed", "--listen",
                          "ws://127.0.0.1:0", END),
                     0);
    assert_string_equal(config.data, "/d=e");
    assert_int_equal(config.memory, 1 << 30);
    assert_false(config.create_queues);
    assert_int_equal(config.outcome_retention_ms, 5400000);
    assert_int_equal(config.outcomes_max, 7);
    assert_true(config.unsafe_no_tls);
    assert_int_equal(config.backoff, TARRY__POLICY__BACKOFF__FIXED);
    assert_int_equal(load(&config, "--create-queues", "no", "--data", "/d", END), 0);
    assert_false(config.create_queues);
}

static void wrong_options_are_refused_with_a_sentence(void **state) {
    (void)state;
    static const struct {
        const char *argument, *value, *sentence;
    } bad[] = {
        {"--nonsense", NULL, "unknown option \"--nonsense\""},
        {"--", NULL, "unknown argument"},
        {"-d", NULL, "unknown argument"},
        {"stray", NULL, "unknown argument"},
        {"--memory", NULL, "needs a value"},
        {"--memory", "64MB", "takes a size"},
        {"--memory", "1MiB", "must be between 64MiB"},
        {"--outcome-retention", "30", "takes a duration"},
        {"--outcomes-max", "-1", "takes a whole number"},
        {"--outcomes-max", "1x", "takes a whole number"},
        {"--outcomes-max", "0", "must be between 1"},
        {"--create-queues=maybe", NULL, "takes yes or no"},
        {"--backoff", "slow", "fixed or exponential"},
        {"--data=", NULL, "text"},
        {"--config", "/no/such/file", "cannot be read"},
        {"--config", "/", "is a directory"},
        {"--config", "/dev/zero", "is larger than 1 MiB"},
        {"--payload-max", "9MiB", "must be between"},
        {"--backoff-min", "20m", "larger than backoff-max"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct config config;
        assert_int_equal(load(&config, "--data", "/d", bad[i].argument, bad[i].value, END), 1);
        if (strstr(message, bad[i].sentence) == NULL) fail_msg("%s: \"%s\"", bad[i].argument, message);
    }
    struct config config;
    assert_int_equal(load(&config, "--memory", "1GiB", END), 1);
    assert_non_null(strstr(message, "--data DIR is missing"));
}

static void help_and_version_ask_for_nothing_else(void **state) {
    (void)state;
    struct config config;
    assert_int_equal(load(&config, "--help", END), 0);
    assert_true(config.help);
    assert_int_equal(load(&config, "--version", END), 0);
    assert_true(config.version);
}

/* Writes the text to a file and loads it, with `--memory 128MiB` on the command line. */
static int load_file(struct config *config, const char *text) {
    char path[] = "/tmp/tarry-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    int result = load(config, "--memory", "128MiB", "--config", path, END);
    unlink(path);
    return result;
}

static void the_file_is_read_and_the_command_line_wins(void **state) {
    (void)state;
    struct config config;
    assert_int_equal(load_file(&config, "; a comment\n[tarryd]\ndata = /var/lib/tarry\nmemory = 1GiB\n"
                                        "retain_log_age = 2d\npayload-max = 64KiB\nunsafe-no-tls = yes\n"),
                     0);
    assert_string_equal(config.data, "/var/lib/tarry");
    assert_int_equal(config.memory, 128 << 20);
    assert_int_equal(config.retain_log_age_ms, 172800000);
    assert_int_equal(config.payload_max, 65536);
    assert_true(config.unsafe_no_tls);
}

static void addresses_to_listen_at_add_up(void **state) {
    (void)state;
    struct config config;
    assert_int_equal(load(&config, "--data", "/d", "--listen", "ws://127.0.0.1:1", "--listen=unix:///s", END), 0);
    assert_string_equal(config.listen, "ws://127.0.0.1:1 unix:///s");
    assert_int_equal(load_file(&config, "data = /d\nlisten = ws://127.0.0.1:2\nlisten = unix:///t\n"), 0);
    assert_string_equal(config.listen, "ws://127.0.0.1:2 unix:///t");
    char path[] = "/tmp/tarry-config-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(dprintf(fd, "data = /d\nlisten = ws://127.0.0.1:3\n"), 36);
    close(fd);
    /* Options on the command line override the file, wherever `--config` stands. */
    assert_int_equal(load(&config, "--listen", "ws://[::1]:4", "--config", path, "--listen", "unix:///u", END), 0);
    assert_string_equal(config.listen, "ws://[::1]:4 unix:///u");
    unlink(path);
    assert_int_equal(load(&config, "--data", "/d", "--listen", "", END), 1);
    assert_non_null(strstr(message, "option listen takes an address"));
}

static void a_wrong_file_is_refused_with_a_sentence(void **state) {
    (void)state;
    static const struct {
        const char *text, *sentence;
    } bad[] = {
        {"data = /d\nnonsense = 1\n", "unknown option \"nonsense\""},
        {"data = /d\n[other]\nmemory = 1GiB\n", "unknown section [other]"},
        {"data = /d\nmemory = lots\n", "takes a size"},
        {"data = /d\njust words\n", "line 2"},
        {"data = /d\nconfig = /e\n", "unknown option \"config\""},
        {"memory = 1GiB\n", "--data DIR is missing"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct config config;
        assert_int_equal(load_file(&config, bad[i].text), 1);
        if (strstr(message, bad[i].sentence) == NULL) fail_msg("%s: \"%s\"", bad[i].text, message);
    }
}

static void addresses_are_read_and_loopback_is_known(void **state) {
    (void)state;
    static const struct {
        const char *url, *host;
        uint16_t port;
        bool loopback;
    } good[] = {
        {"ws://127.0.0.1:7272", "127.0.0.1", 7272, true},
        {"ws://127.0.0.1:0", "127.0.0.1", 0, true},
        {"ws://127.9.9.9:1/", "127.9.9.9", 1, true},
        {"ws://localhost:65535", "localhost", 65535, true},
        {"ws://[::1]:80", "::1", 80, true},
        {"ws://127.0.0.1", "127.0.0.1", DEFAULT_PORT, true},
        {"ws://0.0.0.0:7272", "0.0.0.0", 7272, false},
        {"ws://*:7272", "*", 7272, false},
        {"ws://[::]:7272", "::", 7272, false},
        {"ws://10.0.0.1:7272", "10.0.0.1", 7272, false},
        {"wss://[::1]:80", "::1", 80, true},
        {"tcp://127.0.0.1:7273", "127.0.0.1", 7273, true},
        {"tls+tcp://[2001:db8::1]:1", "2001:db8::1", 1, false},
        {"ws://127.0.0.1.evil.org:1", "127.0.0.1.evil.org", 1, false},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct listen_address address;
        const char *problem;
        assert_true(listen_parse(good[i].url, &address, &problem));
        assert_string_equal(address.host, good[i].host);
        assert_int_equal(address.port, good[i].port);
        assert_int_equal(address.loopback, good[i].loopback);
    }
}

static void addresses_on_this_machine_are_as_long_as_the_kernel_takes(void **state) {
    (void)state;
    struct listen_address local;
    const char *why;
    char longest[LISTEN_PATH_MAX + 32] = "unix:///", longer[LISTEN_PATH_MAX + 32] = "unix:///";
    memset(longest + strlen(longest), 'x', LISTEN_PATH_MAX - 1);
    memset(longer + strlen(longer), 'x', LISTEN_PATH_MAX);
    assert_true(listen_parse(longest, &local, &why));
    assert_int_equal(local.scheme, LISTEN_UNIX);
    assert_int_equal(strlen(local.host), LISTEN_PATH_MAX);
    assert_true(local.loopback);
    assert_false(
        listen_parse_peer(longest, &local,
                          &why)); /* refused: a peer is on another machine, but a Unix socket's address is local */
    assert_false(listen_parse(longer, &local, &why));
    assert_non_null(strstr(why, "107 bytes"));
}

static void addresses_that_are_none_are_refused_with_a_sentence(void **state) {
    (void)state;
    static const char *const bad[] = {"unix://",
                                      "unix://relative/s",
                                      "unix:///run/",
                                      "unix:///a b",
                                      "unix:///a\x7f",
                                      "unix:/run/s",
                                      "UNIX:///s",
                                      "",
                                      "tcp://127.0.0.1",
                                      "tls+tcp://127.0.0.1/",
                                      "tls+tcp://h:1/rpc",
                                      "tls+ws://h:1",
                                      "ipc://relative",
                                      "ipc:///run/",
                                      "ws://",
                                      "ws://:7272",
                                      "ws://h:65536",
                                      "ws://h:",
                                      "ws://h:7x",
                                      "ws://h:1/rpc",
                                      "ws://[::1",
                                      "127.0.0.1:7272",
                                      "ws://h:-1",
                                      "wsss://127.0.0.1:1",
                                      "ws://h:1?q",
                                      "ws://h:000001"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct listen_address address;
        const char *problem = NULL;
        assert_false(listen_parse(bad[i], &address, &problem));
        assert_non_null(problem);
    }
}

static void addresses_are_written_as_they_are_read(void **state) {
    (void)state;
    char url[64];
    listen_format(&(struct listen_address){.host = "::1", .port = 7272}, url, sizeof(url));
    assert_string_equal(url, "ws://[::1]:7272");
    listen_format(&(struct listen_address){.scheme = LISTEN_UNIX, .host = "/run/s"}, url, sizeof(url));
    assert_string_equal(url, "unix:///run/s");
    struct listen_address address;
    const char *problem;
    assert_true(listen_parse("beanstalk://127.0.0.1", &address,
                             &problem)); /* without a port, the address has beanstalkd's default port */
    assert_true(address.scheme == LISTEN_BEANSTALK && address.loopback);
    listen_format(&address, url, sizeof(url));
    assert_string_equal(url, "beanstalk://127.0.0.1:11300");
    assert_false(listen_parse_peer("beanstalk://127.0.0.1:7272", &address, &problem));
    assert_false(listen_parse_peer("tls+tcp://127.0.0.1:7272", &address, &problem));
    assert_true(listen_parse("tls+tcp://[::1]:1", &address, &problem));
    listen_format(&address, url, sizeof(url));
    assert_string_equal(url, "tls+tcp://[::1]:1");
    assert_true(listen_parse("ipc:///run/n", &address, &problem) && address.loopback);
    listen_format(&address, url, sizeof(url));
    assert_string_equal(url, "ipc:///run/n");
}

/* Writes the file NAME in `directory` with that text. */
static void write_file(const char *directory, const char *name, const char *text, char path[128]) {
    snprintf(path, 128, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

/* The file may be a FIFO, as with `--config <(…)`, and its last line may have no line end. Its size is limited. */
static void a_file_is_read_whole_up_to_a_bound(void **state) {
    (void)state;
    struct config config;
    int ends[2];
    char path[64], directory[] = "/tmp/config-test-XXXXXX", file[128];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "payload_max = 2MiB\ndata = /f", 28), 28);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    if (load(&config, "--config", path, END) != 0) fail_msg("%s", message);
    assert_string_equal(config.data, "/f");
    close(ends[0]);
    assert_non_null(mkdtemp(directory));
    char *text = malloc(CONFIG_FILE_MAX + 2);
    assert_non_null(text);
    memset(text, '\n', CONFIG_FILE_MAX + 1);
    text[CONFIG_FILE_MAX] = '\0';
    write_file(directory, "conf", text, file);
    if (load(&config, "--data", "/d", "--config", file, END) != 0) fail_msg("%s", message);
    memcpy(text + CONFIG_FILE_MAX, "\n", 2);
    write_file(directory, "conf", text, file);
    assert_int_equal(load(&config, "--data", "/d", "--config", file, END), 1);
    assert_non_null(strstr(message, "is larger than 1 MiB"));
    free(text);
    unlink(file);
    rmdir(directory);
}

/* The INI parser (inih) would treat the rest of a too long line as a new line. So tarryd must handle long lines itself.
 */
static void a_long_comment_is_one_line_and_a_long_option_is_refused(void **state) {
    static const char *const beginnings[] = {"#", ";", "  # ", "\t; "};
    char directory[] = "/tmp/config-test-XXXXXX", path[128], text[12000];
    struct config config;
    assert_non_null(mkdtemp(directory));
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        int size = snprintf(text, sizeof text, "%s", beginnings[i]);
        memset(text + size, 'x', 10000);
        snprintf(text + size + 10000, 200, "\nmemory = 64MiB\n");
        write_file(directory, "conf", text, path);
        if (load(&config, "--data", "/d", "--config", path, END) != 0) fail_msg("%s: %s", beginnings[i], message);
        assert_int_equal(config.memory, 64u << 20);
        memcpy(text, "   data = ", 10); /* puts blanks before the option's name */
        write_file(directory, "conf", text, path);
        assert_int_equal(load(&config, "--config", path, END), 1);
        assert_non_null(strstr(message, ", line 1 is longer than "));
    }
    unlink(path);
    rmdir(directory);
}

/* Credentials of a systemd unit are used for options that are not given. */
static void credentials_stand_in_for_options(void **state) {
    static const char *const names[] = {"tokens", "peer-key", "coordinator-credentials", "tls-cert"};
    char directory[] = "/tmp/config-test-XXXXXX", paths[4][128];
    struct config config;
    assert_non_null(mkdtemp(directory));
    for (size_t i = 0; i < 4; i++) write_file(directory, names[i], "x", paths[i]);
    setenv("CREDENTIALS_DIRECTORY", directory, 1);
    assert_int_equal(load(&config, "--data", "/d", END), 0);
    assert_string_equal(config.tokens, paths[0]);
    assert_string_equal(config.peer_key, "");
    assert_string_equal(config.coordinator_credentials, "");
    assert_string_equal(config.tls_cert, "");
    assert_int_equal(load(&config, "--data", "/d", "--tokens", "/t", "--peer", "ws://127.0.0.1:1", END), 0);
    assert_string_equal(config.tokens, "/t");
    assert_string_equal(config.peer_key, paths[1]);
    assert_int_equal(load(&config, "--data", "/d", "--follow", "ws://127.0.0.1:1", "--coordinator", "etcd://h", END),
                     0);
    assert_string_equal(config.peer_key, paths[1]);
    assert_string_equal(config.coordinator_credentials, paths[2]);
    unsetenv("CREDENTIALS_DIRECTORY");
    for (size_t i = 0; i < 4; i++) unlink(paths[i]);
    rmdir(directory);
}

static void what_is_in_force_is_printed_as_it_was_read(void **state) {
    struct config config;
    char *text;
    size_t size;
    assert_int_equal(load(&config, "--data", "/d", "--allow-origin", "https://a", "--memory", "64MiB",
                          "--unsafe-no-tls", END),
                     0);
    FILE *out = open_memstream(&text, &size);
    config_print(&config, out);
    fclose(out);
    assert_non_null(strstr(text, "allow-origin=https://a\n"));
    assert_non_null(strstr(text, "memory=67108864\n"));
    assert_non_null(strstr(text, "unsafe-no-tls=1\n"));
    assert_non_null(strstr(text, "create-queues="));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_the_named_limits),
        cmocka_unit_test(options_take_their_value_after_a_blank_or_an_equals_sign),
        cmocka_unit_test(wrong_options_are_refused_with_a_sentence),
        cmocka_unit_test(help_and_version_ask_for_nothing_else),
        cmocka_unit_test(the_file_is_read_and_the_command_line_wins),
        cmocka_unit_test(addresses_to_listen_at_add_up),
        cmocka_unit_test(a_wrong_file_is_refused_with_a_sentence),
        cmocka_unit_test(addresses_are_read_and_loopback_is_known),
        cmocka_unit_test(addresses_on_this_machine_are_as_long_as_the_kernel_takes),
        cmocka_unit_test(addresses_that_are_none_are_refused_with_a_sentence),
        cmocka_unit_test(addresses_are_written_as_they_are_read),
        cmocka_unit_test(a_file_is_read_whole_up_to_a_bound),
        cmocka_unit_test(a_long_comment_is_one_line_and_a_long_option_is_refused),
        cmocka_unit_test(credentials_stand_in_for_options),
        cmocka_unit_test(what_is_in_force_is_printed_as_it_was_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
