/* shell_door_test.c: a broker that cannot make its door refuses to start, with an error message, whichever part of the
 * door has no memory (F-11; broker/shell/shell.c). Linked with all parts of tarryd. A refusal ends the process, so each
 * one runs in a child. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fatal.h"
#include "last_words.h"
#include "shell.h"

static const char *lacking; /* name of the part for which there is no memory */

#define PART(result, name, parameters, ...)                                                                            \
    result *__real_##name parameters;                                                                                  \
    result *__wrap_##name parameters;                                                                                  \
    result *__wrap_##name parameters {                                                                                 \
        return strcmp(lacking, #name) == 0 ? NULL : __real_##name(__VA_ARGS__);                                        \
    }

PART(struct gateway, gateways_new, (const struct gateways_needs *needs), needs)
PART(struct http_server, http_server_new, (struct gateway * gateway), gateway)
PART(struct door, door_new, (const struct door_calls *calls, const struct door_limits *limits), calls, limits)
PART(struct amqp, amqp_new, (struct gateway * gateway), gateway)
PART(struct beanstalk, beanstalk_new, (struct gateway * gateway), gateway)

static void open_door(void *argument) {
    char message[ENDPOINTS_MESSAGE_SIZE];
    struct shell *shell = calloc(1, sizeof(*shell));
    lacking = argument;
    if (shell == NULL || endpoints_parse(&shell->endpoints, "ws://127.0.0.1:0", message) != 0) _exit(99);
    shell_open_door(shell, 10);
}

static void no_part_of_the_door_is_done_without(void **state) { /* F-11 */
    static char *const parts[] = {"gateways_new", "http_server_new", "door_new", "beanstalk_new", "amqp_new"};
    char said[4096];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        int status = last_words_of(open_door, parts[i], said, sizeof said);
        if (status != EXIT_REFUSED) fail_msg("%s: %d, %s", parts[i], status, said);
        assert_string_equal(said, "event=listen_failed reason=\"out of memory\"\n");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_part_of_the_door_is_done_without)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
