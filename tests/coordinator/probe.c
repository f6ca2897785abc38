/* probe.c: a program that makes a coordinator's calls. It reads a command per line, and prints JSON lines. Tests may
 * kill it, stop it, or run several.
 *
 * Usage, with "" for an argument without a value; then the commands and their output:
 *
 * probe URL [call_ms [session_ms [credentials [CA [certificate key]]]]]
 *     read NAME                              {"id": 1, "outcome": "done", "version": 3, "value": "…"}
 *     set NAME VERSION VALUE                 {"id": 2, "outcome": "refused", "reason": "…"}
 *     multi NAME VERSION VALUE [NAME …]      {"id": 3, "outcome": "unknown", "reason": "…"}; VALUE "=": compare only
 *     watch NAME                             {"changed": "NAME"}, again and again
 *     declare NAME TEXT                      {"id": 5}; lasts as long as a session
 *     present NAME                           {"id": 6, "outcome": "done", "version": 1, "value": "TEXT"}
 *     session                                {"id": 7, "session": "connected", "sessions": 1, "message": ""}
 *     delete PATH                            deletes the znode, as an operator would (zk:// only)
 *
 * Calls are numbered from 1 in the order of the lines, and answered when they end. Events of the session have no id.
 * The end of the input ends the probe: {"closed": milliseconds that the close took}. */
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADED /* enables ZooKeeper's blocking calls */
#include <zookeeper/zookeeper.h>

#include "../must.h"
#include "coordinator.h"
#include "coordinator_backend.h"

#define WORDS_MAX (1 + 3 * COORDINATOR_CHANGES_MAX)
#define WATCHES_MAX 4

struct asked {
    struct coordinator_call call;
    unsigned id;
    char *line; /* memory of the call's strings */
};

static pthread_mutex_t out_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct coordinator_watch watches[WATCHES_MAX];
static char watch_names[WATCHES_MAX][COORDINATOR_NAME_SIZE_MAX + 1];

static void say(json_t *object) {
    char *text = json_dumps(object, JSON_COMPACT);
    MUST(text != NULL);
    pthread_mutex_lock(&out_mutex);
    puts(text);
    (void)fflush(stdout);
    pthread_mutex_unlock(&out_mutex);
    free(text);
    json_decref(object);
}

static void say_done(struct coordinator_call *call) {
    static const char *const outcomes[] = {"", "done", "refused", "unknown"};
    struct asked *asked = (struct asked *)call;
    json_t *object = json_pack("{s:i, s:s}", "id", (int)asked->id, "outcome", outcomes[call->outcome]);
    if (call->outcome == PAIR_DONE) json_object_set_new(object, "version", json_integer((json_int_t)call->version));
    if (call->outcome == PAIR_DONE && call->name != NULL)
        json_object_set_new(object, "value", json_stringn(call->value, call->size));
    if (call->outcome != PAIR_DONE) json_object_set_new(object, "reason", json_string(call->reason));
    if (call->outcome == PAIR_DONE && call->name == NULL && call->count > 1) {
        json_t *versions = json_array();
        for (size_t i = 0; i < call->count; i++)
            json_array_append_new(versions, json_integer((json_int_t)call->changes[i].version));
        json_object_set_new(object, "versions", versions);
    }
    say(object);
    free(asked->line);
    free(asked);
}

static json_t *session_object(const struct coordinator_session *session) {
    static const char *const states[] = {"", "connecting", "connected", "forbidden"};
    return json_pack("{s:s, s:I, s:s}", "session", states[session->state], "sessions", (json_int_t)session->sessions,
                     "message", session->message);
}

static void say_session(void *argument, const struct coordinator_session *session) {
    (void)argument;
    say(session_object(session));
}

static void say_changed(struct coordinator_watch *watch) {
    say(json_pack("{s:s}", "changed", watch->name));
}

static void add_watch(struct coordinator *coordinator, const char *name) {
    static size_t count;
    MUST(count < WATCHES_MAX);
    snprintf(watch_names[count], sizeof watch_names[count], "%s", name);
    watches[count] = (struct coordinator_watch){.name = watch_names[count], .changed = say_changed};
    coordinator_watch(coordinator, &watches[count++]);
}

static void delete_znode(const char *url, const char *path) {
    char hosts[COORDINATOR_URL_SIZE_MAX + 1];
    snprintf(hosts, sizeof hosts, "%.*s", (int)strcspn(url + 5, "/"), url + 5);
    zhandle_t *handle = zookeeper_init(hosts, NULL, 10000, NULL, NULL, 0);
    MUST(handle != NULL);
    MUST(zoo_delete(handle, path, -1) == ZOK);
    zookeeper_close(handle);
}

static void change(struct coordinator *coordinator, struct asked *asked, char **words, size_t count) {
    struct coordinator_change changes[COORDINATOR_CHANGES_MAX];
    MUST(count % 3 == 0 && count > 0);
    for (size_t i = 0; i < count / 3; i++) {
        bool is_check = strcmp(words[3 * i + 2], "=") == 0;
        changes[i] = (struct coordinator_change){.name = words[3 * i],
                                                 .version = strtoull(words[3 * i + 1], NULL, 10),
                                                 .value = is_check ? NULL : words[3 * i + 2],
                                                 .size = is_check ? 0 : strlen(words[3 * i + 2])};
    }
    coordinator_multi(coordinator, changes, count / 3, &asked->call);
}

static void obey(struct coordinator *coordinator, const char *url, unsigned id, const char *line) {
    struct asked *asked = calloc(1, sizeof *asked);
    MUST(asked != NULL);
    asked->id = id;
    asked->line = strdup(line);
    asked->call.done = say_done;
    MUST(asked->line != NULL);
    char *words[WORDS_MAX], *rest = asked->line;
    size_t count = 0;
    for (char *word; count < WORDS_MAX && (word = strtok_r(rest, " \n", &rest)) != NULL;) words[count++] = word;
    MUST(count > 0);
    if (strcmp(words[0], "read") == 0) {
        coordinator_read(coordinator, words[1], &asked->call);
        return;
    }
    if (strcmp(words[0], "present") == 0) {
        coordinator_ask_presence(coordinator, words[1], &asked->call);
        return;
    }
    if (strcmp(words[0], "set") == 0) {
        coordinator_compare_and_set(coordinator, words[1], strtoull(words[2], NULL, 10), words[3], strlen(words[3]),
                                    &asked->call);
        return;
    }
    if (strcmp(words[0], "multi") == 0) {
        change(coordinator, asked, words + 1, count - 1);
        return;
    }
    if (strcmp(words[0], "watch") == 0) {
        add_watch(coordinator, words[1]);
    } else if (strcmp(words[0], "declare") == 0) {
        coordinator_declare(coordinator, words[1], words[2]);
        say(json_pack("{s:i}", "id", (int)id));
    } else if (strcmp(words[0], "stands") == 0) {
        uint64_t since_ms = 0;
        bool stands = coordinator_stands(coordinator, words[1], &since_ms);
        say(json_pack("{s:i,s:b,s:I}", "id", (int)id, "stands", stands, "ms", (json_int_t)since_ms));
    } else if (strcmp(words[0], "delete") == 0) {
        delete_znode(url, words[1]);
        say(json_pack("{s:i}", "id", (int)id));
    } else {
        MUST(strcmp(words[0], "session") == 0);
        struct coordinator_session session;
        coordinator_session(coordinator, &session);
        json_t *object = session_object(&session);
        json_object_set_new(object, "id", json_integer((json_int_t)id));
        say(object);
    }
    free(asked->line);
    free(asked);
}

int main(int argc, char **argv) {
    MUST(argc >= 2 && argc <= 8);
    const char *words[8] = {0};
    for (int i = 0; i < argc; i++) words[i] = argv[i][0] == '\0' ? NULL : argv[i];
    const struct coordinator_options options = {
        .call_ms = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : COORDINATOR_CALL_MS,
        .session_ms = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : COORDINATOR_SESSION_MS,
        .presence_ms = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : COORDINATOR_PRESENCE_MS,
        .credentials = words[4],
        .ca = words[5],
        .certificate = words[6],
        .key = words[7],
        .session_changed = say_session,
    };
    struct coordinator *coordinator;
    char message[COORDINATOR_MESSAGE_SIZE];
    if (coordinator_open(argv[1], &options, &coordinator, message) != 0) {
        say(json_pack("{s:s}", "refused", message));
        return 1;
    }
    char line[COORDINATOR_VALUE_SIZE_MAX + 256];
    for (unsigned id = 1; fgets(line, sizeof line, stdin) != NULL; id++) obey(coordinator, argv[1], id, line);
    uint64_t before_ms = coordinator_now_ms();
    coordinator_close(coordinator);
    say(json_pack("{s:I}", "closed", (json_int_t)(coordinator_now_ms() - before_ms)));
    return 0;
}
