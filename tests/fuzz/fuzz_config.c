/* fuzz_config.c: tarryd's command line and INI file. An accepted configuration is within the limits and can be
 * written again as options and as a file with the same meaning. A comment in the file changes nothing. The command
 * line takes precedence. A refusal has a sentence.
 *
 * The input: the number of arguments, the arguments, each ended by a 0 byte, and the text of the file. `--config`
 * always reads that file, so that no input opens another one. */
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "fuzz.h"
#include "input.h"
#include "tarry.pb-c.h"

#define ARGUMENTS_MAX 12
#define INPUT_SIZE_MAX 4096u

#define NUMBERS(X)                                                                                                     \
    X(memory, MEMORY_MIN, 1ull << 50)                                                                                  \
    X(payload_max, 1, PAYLOAD_SIZE_MAX_LIMIT)                                                                          \
    X(outcome_retention_ms, 0, DUE_AHEAD_MAX_MS)                                                                       \
    X(outcomes_max, 0, 100000000)                                                                                      \
    X(retain_log_age_ms, 0, DUE_AHEAD_MAX_MS)                                                                          \
    X(retain_log_size, 0, 1ull << 50)                                                                                  \
    X(archive_level, 1, 19)                                                                                            \
    X(retain_archive_age_ms, 0, DUE_AHEAD_MAX_MS)                                                                      \
    X(retain_archive_size, 0, 1ull << 50)                                                                              \
    X(segment_size, SEGMENT_SIZE_MIN, SEGMENT_SIZE_MAX)                                                                \
    X(index_lag_max, 0, 1000000000)                                                                                    \
    X(index_lag_hard, 0, 1000000000)                                                                                   \
    X(lease_ms, LEASE_MIN_MS, LEASE_MAX_MS)                                                                            \
    X(max_attempts, 0, UINT32_MAX)                                                                                     \
    X(backoff_min_ms, 0, BACKOFF_MAX_MS)                                                                               \
    X(backoff_max_ms, 0, BACKOFF_MAX_MS)                                                                               \
    X(backoff_jitter, 0, 100)

static int file = -1; /* in memory */
static char file_path[64];

static void file_write(const char *text, size_t size) {
    if (file < 0) {
        file = memfd_create("tarry-fuzz-config", MFD_CLOEXEC);
        snprintf(file_path, sizeof(file_path), "/proc/self/fd/%d", file);
    }
    if (ftruncate(file, 0) != 0 || pwrite(file, text, size, 0) != (ssize_t)size) abort();
}

static void sentence_is_there(const char message[CONFIG_MESSAGE_SIZE]) {
    size_t size = strnlen(message, CONFIG_MESSAGE_SIZE);
    assert(size > 10 && size < CONFIG_MESSAGE_SIZE && message[size - 1] != '.');
}

static bool lies_within(uint64_t value, uint64_t least, uint64_t most) {
    return value >= least && value <= most;
}

static void within_limits(const struct config *config) {
#define X(field, least, most) assert(lies_within(config->field, least, most));
    NUMBERS(X)
#undef X
    assert(config->backoff <= TARRY__POLICY__BACKOFF__EXPONENTIAL);
    assert(strnlen(config->data, CONFIG_TEXT_SIZE) < CONFIG_TEXT_SIZE && config->listen[0] != 0);
    assert(strnlen(config->listen, CONFIG_TEXT_SIZE) < CONFIG_TEXT_SIZE);
    assert(strnlen(config->archive, CONFIG_TEXT_SIZE) < CONFIG_TEXT_SIZE);
}

static bool same(const struct config *a, const struct config *b) {
#define X(field, least, most)                                                                                          \
    if (a->field != b->field) return false;
    NUMBERS(X)
#undef X
    return strcmp(a->data, b->data) == 0 && strcmp(a->listen, b->listen) == 0 && a->backoff == b->backoff &&
           a->unsafe_no_tls == b->unsafe_no_tls && a->create_queues == b->create_queues &&
           a->accept_clock_jump == b->accept_clock_jump && a->archiving == b->archiving &&
           strcmp(a->archive, b->archive) == 0;
}

/* Returns the unit of an option whose field name ends with it. Users may write this unit in the value instead. */
static const char *unit_of(const char *field) {
    size_t size = strlen(field);
    return size > 3 && strcmp(field + size - 3, "_ms") == 0 ? "ms" : "";
}

/* Writes `config` as a file: every option as `name = value`. */
static size_t write_options(const struct config *config, char *out, size_t room) {
    size_t used = 0;
#define X(field, least, most)                                                                                          \
    used += (size_t)snprintf(out + used, room - used, "%.*s = %" PRIu64 "%s\n",                                        \
                             (int)(strlen(#field) - (unit_of(#field)[0] != 0 ? 3 : 0)), #field, config->field,         \
                             unit_of(#field));
    NUMBERS(X)
#undef X
    const char *backoff = config->backoff == TARRY__POLICY__BACKOFF__FIXED ? "fixed" : "exponential";
    used += (size_t)snprintf(out + used, room - used,
                             "data=%s\nlisten = %s\nbackoff = %s\nunsafe-no-tls = %d\ncreate_queues = %d\n"
                             "accept-clock-jump = %s\narchiving = %s\n",
                             config->data, config->listen, backoff, config->unsafe_no_tls, config->create_queues,
                             config->accept_clock_jump ? "on" : "off", config->archiving ? "yes" : "no");
    if (config->archive[0] != 0) used += (size_t)snprintf(out + used, room - used, "archive = %s\n", config->archive);
    assert(used < room);
    return used;
}

/* Returns whether a file can contain this text as a value. inih trims values, recognizes comments after them, and reads
 * lines of up to 199 bytes. */
static bool plain(const char *text) {
    return strlen(text) < 150 && strcspn(text, " \t\r\n\f\v;") == strlen(text);
}

static void can_be_said_again(const struct config *config) {
    static char text[8192];
    char message[CONFIG_MESSAGE_SIZE] = "";
    struct config again;
    char *argv[64] = {"tarryd"};
    int argc = 1;
    size_t size = write_options(config, text, sizeof(text));
    if (plain(config->data) && plain(config->listen) && plain(config->archive)) {
        file_write(text, size);
        config_defaults(&again);
        int result = config_read(&again, file_path, message);
        assert(result == 0 && same(config, &again));
    }
    if (strpbrk(config->data, "\n") || strpbrk(config->listen, "\n") || strpbrk(config->archive, "\n")) return;
    /* The lines of the file as options: --name=value. */
    static char arguments[8192];
    char *at = arguments;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *equal = strchr(line, '=');
        size_t name_size = (size_t)(equal - line) - (equal[-1] == ' ' ? 1 : 0);
        argv[argc++] = at;
        at += sprintf(at, "--%.*s=%s", (int)name_size, line, equal + (equal[-1] == ' ' ? 2 : 1)) + 1;
    }
    int result = config_load(&again, argc, argv, message);
    assert(result == 0 && same(config, &again));
}

/* Checks that the configuration does not change if the same text is put before it as a comment. */
static void comments_say_nothing(const struct config *config, int result, const char *text, size_t size) {
    static char commented[2 * INPUT_SIZE_MAX + 4];
    char message[CONFIG_MESSAGE_SIZE] = "";
    struct config again;
    commented[0] = ';', commented[1] = ' ';
    for (size_t i = 0; i < size; i++) commented[2 + i] = text[i] == '\n' || text[i] == 0 ? ' ' : text[i];
    commented[2 + size] = '\n';
    memcpy(commented + 3 + size, text, size);
    file_write(commented, 3 + 2 * size);
    config_defaults(&again);
    assert(config_read(&again, file_path, message) == result);
    assert(result != 0 || same(config, &again));
}

static void try_file(const char *text, size_t size) {
    char message[CONFIG_MESSAGE_SIZE] = "";
    struct config config;
    config_defaults(&config);
    file_write(text, size);
    int result = config_read(&config, file_path, message);
    assert(result == 0 || result == 1);
    if (result != 0) sentence_is_there(message);
    if (result == 0) {
        within_limits(&config);
        if (config.data[0] != 0 && config.backoff_min_ms <= config.backoff_max_ms) can_be_said_again(&config);
    }
    /* Only at the very beginning, a byte order mark has a meaning. */
    if (size < 3 || memcmp(text, "\xEF\xBB\xBF", 3) != 0) comments_say_nothing(&config, result, text, size);
}

/* Checks that each field has either its default or the value that the options give it. */
static void command_line_wins(const struct config *config, int argc, char **argv) {
    char message[CONFIG_MESSAGE_SIZE];
    struct config defaults, alone;
    char *rest[ARGUMENTS_MAX + 1];
    int count = 0;
    config_defaults(&defaults);
    for (int i = 0; i < argc; i++)
        if (strncmp(argv[i], "--config", 8) != 0) rest[count++] = argv[i];
    if (count == argc || config_load(&alone, count, rest, message) != 0) return;
#define X(field, least, most) assert(alone.field == defaults.field || alone.field == config->field);
    NUMBERS(X)
#undef X
    assert(alone.backoff == defaults.backoff || alone.backoff == config->backoff);
    assert(alone.print_config ||
           strcmp(alone.data, config->data) == 0); /* with --print-config, --data may be missing */
    assert(!alone.unsafe_no_tls || config->unsafe_no_tls);
    assert(alone.create_queues || !config->create_queues);
}

/* Makes every form of `--config` name our file; removes a value in a separate argument. */
static int harmless(int argc, char **argv, char *config_argument) {
    int count = 0;
    for (int i = 0; i < argc; i++) {
        argv[count++] = argv[i];
        if (strcmp(argv[i], "--config") != 0 && strncmp(argv[i], "--config=", 9) != 0) continue;
        if (argv[i][8] == 0 && i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0) i++;
        argv[count - 1] = config_argument;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > INPUT_SIZE_MAX) return 0;
    static char arguments[INPUT_SIZE_MAX + ARGUMENTS_MAX + 1], config_argument[80];
    char *argv[ARGUMENTS_MAX + 1] = {"tarryd"}, *at = arguments;
    int argc = 1;
    struct input input = {data, size};
    for (size_t count = input_byte(&input) % ARGUMENTS_MAX; count > 0 && input.size > 0; count--) {
        size_t length = strnlen((const char *)input.data, input.size), taken;
        argv[argc++] = at;
        if (length > 0) memcpy(at, input_bytes(&input, length, &taken), length);
        at[length] = 0;
        at += length + 1;
        (void)input_byte(&input);
    }
    try_file((const char *)input.data, input.size);
    file_write((const char *)input.data, input.size);
    snprintf(config_argument, sizeof(config_argument), "--config=%s", file_path);
    argc = harmless(argc, argv, config_argument);

    char message[CONFIG_MESSAGE_SIZE] = "";
    struct config config;
    int result = config_load(&config, argc, argv, message);
    assert(result == 0 || result == 1);
    if (result != 0) {
        sentence_is_there(message);
    } else if (!config.help && !config.version) {
        within_limits(&config);
        assert(config.backoff_min_ms <= config.backoff_max_ms);
        command_line_wins(&config, argc, argv);
        assert(config.data[0] != 0 || config.print_config); /* --print-config needs no data directory */
        if (config.data[0] != 0) can_be_said_again(&config);
    }
    return 0;
}
