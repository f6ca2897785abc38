/* named.c: a client whose commits have names; run by named_test.py. The test may kill the program between any two of
 * its steps and start it again.
 *
 * Usage:
 *     named URL name            prints a new name for a commit
 *     named URL run NAME KEY    runs the commit NAME: schedules task KEY of queue q in an hour
 *     named URL ask NAME        requests the result of the commit NAME
 *
 * `run` and `ask` print the name of the result's code, and the task's id if there is one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tarry.h>

static int say(int code, const struct tarry_result *results, size_t count) {
    printf("%s", tarry_code_name(code));
    for (size_t i = 0; i < count; i++) printf(" %s %" PRIu64, tarry_outcome_name(results[i].outcome), results[i].id);
    printf("\n");
    return 0;
}

static int act(tarry_commit *commit, int argc, char **argv) {
    struct tarry_commit_id id;
    char text[TARRY_COMMIT_ID_SIZE];
    const struct tarry_result *results = NULL;
    size_t count = 0;
    if (strcmp(argv[2], "name") == 0) {
        int code = tarry_commit_prepare(commit, NULL, &id, NULL);
        return code == TARRY_OK ? printf("%s\n", tarry_commit_id_format(&id, text)) < 0 : say(code, NULL, 0);
    }
    if (argc < 4 || tarry_commit_id_parse(argv[3], &id) != TARRY_OK) return 2;
    if (strcmp(argv[2], "ask") == 0) {
        int code = tarry_commit_ask(commit, &id, NULL, &results, &count);
        return say(code, results, count);
    }
    if (argc < 5) return 2;
    struct tarry_schedule_options task = {.queue = "q", .key = argv[4], .when_ms = 3600000};
    tarry_commit_schedule(commit, &task);
    if (tarry_commit_resume(commit, &id) != TARRY_OK) return 2;
    int code = tarry_commit_run(commit, NULL, &results, &count);
    return say(code, results, code == TARRY_OK ? count : 0);
}

int main(int argc, char **argv) {
    struct tarry_options options = {.urls = argc > 1 ? argv[1] : NULL};
    tarry_client *client;
    tarry_commit *commit;
    if (argc < 3 || tarry_open(&options, &client) != TARRY_OK) return 2;
    if (tarry_commit_new(client, true, &commit) != TARRY_OK) return 2;
    int status = act(commit, argc, argv);
    tarry_commit_free(commit);
    tarry_close(client);
    return status;
}
