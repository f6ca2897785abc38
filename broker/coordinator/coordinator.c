/* coordinator.c: see coordinator.h. Contains the thread, the calls with their deadlines, and the last known versions.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "coordinator_backend.h"

static const struct backend *const backends[] = {&etcd_backend, &etcds_backend, &zookeeper_backend, &file_backend};
#define WORDS_MS 10000
#define COORDINATOR_FILE_MAX (1u << 20) /* maximum size of a PEM file in bytes; the error message names it */
#define BACKENDS (sizeof backends / sizeof *backends)

/* Last version of an entry that this process has read or written. */
struct seen {
    char name[COORDINATOR_NAME_SIZE_MAX + 1];
    uint64_t version;
    struct coordinator_trait trait;
    /* The last answer came from another history of the entry (it was deleted and created again, or restored), so no
     * change may be based on it. */
    bool is_other;
};

struct coordinator {
    const struct backend *backend;
    void *state;
    struct coordinator_options options;
    pthread_t thread;
    int wake; /* eventfd */
    /* The following members are used by the coordinator's thread only. */
    struct coordinator_call *under_way;
    struct seen seen[COORDINATOR_NAMES_MAX];
    uint64_t told_ms; /* time in ms before which the same session state is not logged again */

    pthread_mutex_t mutex; /* protects all members below */
    struct coordinator_call *first;
    struct coordinator_call **last;
    struct coordinator_watch *watches;
    bool is_watch_new;
    struct presence presence;
    /* Time in ms until which the coordinator thread keeps `presence` declared; 0: no presence is declared. */
    uint64_t present_ms;
    uint64_t stood_ms; /* time in ms at which the coordinator confirmed the text in `stood` */
    char stood[COORDINATOR_PRESENCE_SIZE_MAX + 1]; /* text that the coordinator has for this process; "": no text */
    struct coordinator_session session;
    bool stop;
};

uint64_t coordinator_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void coordinator_wake(struct coordinator *coordinator) {
    uint64_t one = 1;
    /* Fails only if the eventfd is readable already, so that the thread wakes anyway. */
    (void)!write(coordinator->wake, &one, sizeof one);
}

void coordinator_poll(int wake, int descriptor, int wait_ms) {
    struct pollfd ready[] = {{.fd = wake, .events = POLLIN}, {.fd = descriptor, .events = POLLIN}};
    (void)poll(ready, 2, wait_ms);
}

/* ---- last known versions (R4) */

static struct seen *seen_of(struct coordinator *coordinator, const char *name) {
    for (size_t i = 0; i < COORDINATOR_NAMES_MAX; i++) {
        struct seen *seen = &coordinator->seen[i];
        if (seen->name[0] == '\0') snprintf(seen->name, sizeof seen->name, "%s", name);
        if (strcmp(seen->name, name) == 0) return seen;
    }
    assert(!"more entries than COORDINATOR_NAMES_MAX");
    return NULL;
}

#define WRITE_AGAIN                                                                                                    \
    ". Restore the coordinator's data, or type 'tarry pair record --write' for the node that leads; then restart the " \
    "other node"

/* Returns NULL, or the reason why the answer with this version must not be believed. The reason is a printf format for
 * the entry's name, this version and the last known version. */
static const char *find_doubt(const struct seen *seen, uint64_t version, const struct coordinator_trait *trait) {
    bool is_other_birth = seen->trait.birth != 0 && trait->birth != seen->trait.birth;
    bool is_other_mark = seen->trait.mark != 0 && trait->mark != 0 && trait->mark != seen->trait.mark;
    if (seen->version > 0 && version == 0)
        return "coordinator: entry '%s' is gone (version %" PRIu64 " after %" PRIu64
               "): somebody deleted it, or the coordinator lost its data. Until the entry is back, neither node can "
               "take over" WRITE_AGAIN;
    if (is_other_birth)
        return "coordinator: entry '%s' (version %" PRIu64 " after %" PRIu64
               ") was deleted and made again since this node first read it. This node does not use it until the next "
               "start, and neither node can take over" WRITE_AGAIN;
    if (version < seen->version)
        return "coordinator: an answer has entry '%s' at version %" PRIu64 ", but this node has already read version "
               "%" PRIu64 ": the server that answered is behind the others; the node asks again";
    if (version == seen->version && is_other_mark)
        return "coordinator: entry '%s' at version %" PRIu64
               " has other content than this node read at version %" PRIu64
               ": the coordinator was put back to an older state. Neither node can take over" WRITE_AGAIN;
    return NULL;
}

/* Returns whether the version may be believed; if so, stores it as the known one. */
static bool is_believed(struct coordinator *coordinator, const char *name, uint64_t version,
                        const struct coordinator_trait *trait, char reason[COORDINATOR_MESSAGE_SIZE]) {
    struct seen *seen = seen_of(coordinator, name);
    const char *doubt = find_doubt(seen, version, trait);
    bool is_late =
        version != 0 && version < seen->version && (trait->birth == seen->trait.birth || seen->trait.birth == 0);
    /* A version of the same history may be older, because a server can lag. */
    seen->is_other = doubt != NULL && !is_late;
    if (doubt != NULL) {
        coordinator_refuse(reason, doubt, name, version, seen->version); // NOLINT(clang-diagnostic-format-nonliteral)
        return false;
    }
    seen->version = version;
    seen->trait = *trait;
    return true;
}

bool coordinator_believes(struct coordinator *coordinator, const char *name, uint64_t version,
                          const struct coordinator_trait *trait) {
    return find_doubt(seen_of(coordinator, name), version, trait) == NULL;
}

static bool are_believed(struct coordinator *coordinator, struct coordinator_call *call) {
    if (call->name != NULL) return is_believed(coordinator, call->name, call->version, &call->traits[0], call->reason);
    bool all = true;
    for (size_t i = 0; i < call->count; i++) {
        const struct coordinator_change *change = &call->changes[i];
        if (change->value == NULL) continue;
        if (!is_believed(coordinator, change->name, change->version, &call->traits[i], call->reason)) all = false;
    }
    return all;
}

/* Returns a change whose expected version is lower than the entry's last known version; NULL: none. Every server must
 * refuse such a change. */
static const struct coordinator_change *find_stale(struct coordinator *coordinator,
                                                   const struct coordinator_call *call) {
    for (size_t i = 0; i < call->count; i++)
        if (call->changes[i].version < seen_of(coordinator, call->changes[i].name)->version) return &call->changes[i];
    return NULL;
}

/* Returns a change of an entry that was deleted and created again, or restored from a copy; NULL: none. For such an
 * entry equal version numbers prove nothing (R4). */
static const struct coordinator_change *find_other(struct coordinator *coordinator,
                                                   const struct coordinator_call *call) {
    for (size_t i = 0; i < call->count; i++)
        if (seen_of(coordinator, call->changes[i].name)->is_other) return &call->changes[i];
    return NULL;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static void take_away(struct coordinator *coordinator, struct coordinator_call *call) {
    struct coordinator_call **at = &coordinator->under_way;
    while (*at != call) at = &(*at)->next;
    *at = call->next;
    call->next = NULL;
}

void coordinator_finish(struct coordinator *coordinator, struct coordinator_call *call, enum pair_outcome outcome) {
    take_away(coordinator, call);
    if (outcome == PAIR_DONE && call->name == NULL) call->version = call->changes[0].version;
    bool is_doubted = outcome == PAIR_DONE && !call->is_presence && !are_believed(coordinator, call);
    call->outcome = is_doubted ? PAIR_UNKNOWN : outcome;
    if (call->outcome == PAIR_DONE) call->reason[0] = '\0';
    /* The callback gets the call back and may free it, so the call must not be used after this line. */
    call->done(call);
}

void coordinator_fail(struct coordinator *coordinator, struct coordinator_call *call, enum pair_outcome outcome,
                      const char *format, ...) {
    assert(outcome != PAIR_DONE);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(call->reason, sizeof call->reason, format, arguments);
    va_end(arguments);
    coordinator_finish(coordinator, call, outcome);
}

static bool is_name(const char *name) {
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return size > 0 && size <= COORDINATOR_NAME_SIZE_MAX && name[size] == '\0';
}

static void post(struct coordinator *coordinator, struct coordinator_call *call) {
    call->next = NULL;
    call->outcome = PAIR_UNKNOWN;
    call->version = 0;
    call->size = 0;
    call->value[0] = '\0';
    call->reason[0] = '\0';
    memset(call->traits, 0, sizeof call->traits);
    call->flight = NULL;
    call->deadline_ms = coordinator_now_ms() + coordinator->options.call_ms;
    pthread_mutex_lock(&coordinator->mutex);
    *coordinator->last = call;
    coordinator->last = &call->next;
    pthread_mutex_unlock(&coordinator->mutex);
    coordinator_wake(coordinator);
}

void coordinator_read(struct coordinator *coordinator, const char *name, struct coordinator_call *call) {
    assert(is_name(name));
    call->name = name;
    call->is_presence = false;
    call->count = 0;
    post(coordinator, call);
}

void coordinator_ask_presence(struct coordinator *coordinator, const char *name, struct coordinator_call *call) {
    assert(is_name(name));
    call->name = name;
    call->is_presence = true;
    call->count = 0;
    post(coordinator, call);
}

void coordinator_multi(struct coordinator *coordinator, const struct coordinator_change *changes, size_t count,
                       struct coordinator_call *call) {
    assert(count > 0 && count <= COORDINATOR_CHANGES_MAX);
    for (size_t i = 0; i < count; i++) {
        assert(is_name(changes[i].name) && changes[i].size <= COORDINATOR_VALUE_SIZE_MAX);
        assert(changes[i].value != NULL || changes[i].version > 0);
    }
    call->name = NULL;
    call->is_presence = false;
    call->count = count;
    memcpy(call->changes, changes, count * sizeof *changes);
    post(coordinator, call);
}

void coordinator_compare_and_set(struct coordinator *coordinator, const char *name, uint64_t version, const void *value,
                                 size_t size, struct coordinator_call *call) {
    assert(value != NULL);
    struct coordinator_change change = {.name = name, .value = value, .size = size, .version = version};
    coordinator_multi(coordinator, &change, 1, call);
}

/* ---- Presence: renewed by the coordinator's thread for as long as it is declared ----------------------------- */

void coordinator_declare(struct coordinator *coordinator, const char *name, const char *text) {
    assert(is_name(name) && strlen(text) <= COORDINATOR_PRESENCE_SIZE_MAX);
    uint64_t now_ms = coordinator_now_ms();
    pthread_mutex_lock(&coordinator->mutex);
    struct presence *presence = &coordinator->presence;
    bool is_news = now_ms >= coordinator->present_ms || strcmp(presence->text, text) != 0;
    snprintf(presence->name, sizeof presence->name, "%s", name);
    snprintf(presence->text, sizeof presence->text, "%s", text);
    coordinator->present_ms = now_ms + coordinator->options.presence_ms;
    pthread_mutex_unlock(&coordinator->mutex);
    if (is_news) coordinator_wake(coordinator);
}

void coordinator_stood(struct coordinator *coordinator, const char *text) {
    pthread_mutex_lock(&coordinator->mutex);
    if (text == NULL) {
        coordinator->stood[0] = '\0';
    } else if (strcmp(coordinator->stood, text) != 0) {
        snprintf(coordinator->stood, sizeof coordinator->stood, "%s", text);
        coordinator->stood_ms = coordinator_now_ms();
    }
    pthread_mutex_unlock(&coordinator->mutex);
}

bool coordinator_stands(struct coordinator *coordinator, const char *text, uint64_t *out_ms) {
    pthread_mutex_lock(&coordinator->mutex);
    bool stands = strcmp(coordinator->stood, text) == 0;
    if (stands) *out_ms = coordinator_now_ms() - coordinator->stood_ms;
    pthread_mutex_unlock(&coordinator->mutex);
    return stands;
}

static bool is_present(struct coordinator *coordinator, struct presence *out) {
    pthread_mutex_lock(&coordinator->mutex);
    bool is_declared = coordinator_now_ms() < coordinator->present_ms;
    *out = coordinator->presence;
    pthread_mutex_unlock(&coordinator->mutex);
    return is_declared;
}

static void declare(struct coordinator *coordinator) {
    struct presence presence;
    bool is_there = is_present(coordinator, &presence);
    coordinator->backend->declare(coordinator->state, is_there ? &presence : NULL);
}

/* ---- watches and the session */

void coordinator_watch(struct coordinator *coordinator, struct coordinator_watch *watch) {
    assert(is_name(watch->name));
    pthread_mutex_lock(&coordinator->mutex);
    watch->next = coordinator->watches;
    coordinator->watches = watch;
    coordinator->is_watch_new = true;
    pthread_mutex_unlock(&coordinator->mutex);
    coordinator_wake(coordinator);
}

/* Returns the first watch. Watches are removed only at the end, so the list may be read without the lock. */
static struct coordinator_watch *watches_of(struct coordinator *coordinator) {
    pthread_mutex_lock(&coordinator->mutex);
    struct coordinator_watch *watches = coordinator->watches;
    pthread_mutex_unlock(&coordinator->mutex);
    return watches;
}

void coordinator_changed(struct coordinator *coordinator, const char *name) {
    for (struct coordinator_watch *watch = watches_of(coordinator); watch != NULL; watch = watch->next)
        if (name == NULL || strcmp(watch->name, name) == 0) watch->changed(watch);
}

void coordinator_is(struct coordinator *coordinator, enum coordinator_state state, uint64_t sessions,
                    const char *format, ...) {
    uint64_t now_ms = coordinator_now_ms();
    struct coordinator_session fresh = {.state = state, .since_ms = now_ms, .sessions = sessions};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fresh.message, sizeof fresh.message, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&coordinator->mutex);
    struct coordinator_session *session = &coordinator->session;
    bool is_same = session->state == state && session->sessions == sessions &&
                   (session->message[0] == '\0') == (fresh.message[0] == '\0');
    if (is_same) fresh.since_ms = session->since_ms;
    bool is_news = !is_same || (strcmp(session->message, fresh.message) != 0 && now_ms >= coordinator->told_ms);
    *session = fresh;
    pthread_mutex_unlock(&coordinator->mutex);
    if (!is_news) return;
    coordinator->told_ms = now_ms + WORDS_MS;
    if (coordinator->options.session_changed != NULL)
        coordinator->options.session_changed(coordinator->options.argument, &fresh);
}

void coordinator_session(struct coordinator *coordinator, struct coordinator_session *out) {
    pthread_mutex_lock(&coordinator->mutex);
    *out = coordinator->session;
    pthread_mutex_unlock(&coordinator->mutex);
}

/* ---- the thread */

struct news {
    struct coordinator_call *calls; /* list of calls, in the order in which they were posted */
    bool is_watch_new;
    bool stop;
};

static struct news take_news(struct coordinator *coordinator) {
    uint64_t count;
    (void)!read(coordinator->wake, &count, sizeof count);
    pthread_mutex_lock(&coordinator->mutex);
    struct news news = {.calls = coordinator->first,
                        .is_watch_new = coordinator->is_watch_new,
                        .stop = coordinator->stop};
    coordinator->first = NULL;
    coordinator->last = &coordinator->first;
    coordinator->is_watch_new = false;
    pthread_mutex_unlock(&coordinator->mutex);
    return news;
}

/* Watches all entries; a backend ignores an entry that it watches already. */
static void watch_all(struct coordinator *coordinator) {
    for (struct coordinator_watch *watch = watches_of(coordinator); watch != NULL; watch = watch->next)
        coordinator->backend->watch(coordinator->state, watch->name);
}

static void start_all(struct coordinator *coordinator, struct coordinator_call *call) {
    while (call != NULL) {
        struct coordinator_call *next = call->next;
        call->next = coordinator->under_way;
        coordinator->under_way = call;
        const struct coordinator_change *stale = find_stale(coordinator, call), *other = find_other(coordinator, call);
        if (other != NULL)
            coordinator_fail(
                coordinator, call, PAIR_UNKNOWN,
                "coordinator: entry '%s' was deleted and made again, or put back to an older state, so this node does "
                "not change it",
                other->name);
        else if (stale == NULL)
            coordinator->backend->start(coordinator->state, call);
        else
            coordinator_fail(coordinator, call, PAIR_REFUSED,
                             "coordinator: entry '%s' has changed: it no longer has version %" PRIu64, stale->name,
                             stale->version);
        call = next;
    }
}

static struct coordinator_call *find_late(const struct coordinator *coordinator, uint64_t now_ms) {
    struct coordinator_call *call = coordinator->under_way;
    while (call != NULL && call->deadline_ms > now_ms) call = call->next;
    return call;
}

/* Ends the calls whose deadline has passed. Starts from the head of the list each time, because `done` may have
 * finished other calls. */
static void end_late(struct coordinator *coordinator, uint64_t now_ms, const char *why) {
    for (struct coordinator_call *call; (call = find_late(coordinator, now_ms)) != NULL;) {
        coordinator->backend->abandon(coordinator->state, call);
        coordinator_fail(coordinator, call, PAIR_UNKNOWN, "coordinator: no answer to %s entry '%s': %s",
                         call->name != NULL ? "the read of" : "the change of",
                         call->name != NULL ? call->name : call->changes[0].name, why);
    }
}

static int wait_ms(struct coordinator *coordinator) {
    struct presence presence;
    uint64_t now_ms = coordinator_now_ms(), until_ms = now_ms + COORDINATOR_TURN_MS;
    uint64_t again_ms = now_ms + coordinator->options.presence_ms / PRESENCE_PARTS;
    if (is_present(coordinator, &presence) && again_ms < until_ms) until_ms = again_ms;
    for (const struct coordinator_call *call = coordinator->under_way; call != NULL; call = call->next)
        if (call->deadline_ms < until_ms) until_ms = call->deadline_ms;
    return until_ms > now_ms ? (int)(until_ms - now_ms) : 0;
}

static void *coordinator_run(void *argument) {
    struct coordinator *coordinator = argument;
    struct news news;
    do {
        coordinator->backend->wait(coordinator->state, coordinator->wake, wait_ms(coordinator));
        news = take_news(coordinator);
        if (news.is_watch_new) watch_all(coordinator);
        start_all(coordinator, news.calls);
        declare(coordinator);
        coordinator->backend->turn(coordinator->state);
        end_late(coordinator, coordinator_now_ms(), "it did not answer in time");
    } while (!news.stop);
    end_late(coordinator, UINT64_MAX, "this broker stops");
    return NULL;
}

/* ---- opening and closing */

static const struct backend *backend_of(const char *url, const char **out_place,
                                        char message[COORDINATOR_MESSAGE_SIZE]) {
    if (strlen(url) > COORDINATOR_URL_SIZE_MAX) {
        coordinator_refuse(message, "coordinator: the URL is longer than %d bytes", COORDINATOR_URL_SIZE_MAX);
        return NULL;
    }
    for (size_t i = 0; i < BACKENDS; i++) {
        size_t size = strlen(backends[i]->scheme);
        if (strncmp(url, backends[i]->scheme, size) != 0) continue;
        *out_place = url + size;
        return backends[i]->check(*out_place, message) == 0 ? backends[i] : NULL;
    }
    coordinator_refuse(message,
                       "coordinator '%s': must be etcd://host:port,host:port/path (etcds:// with TLS), "
                       "zk://host:port,host:port/path or file:///path",
                       url);
    return NULL;
}

int coordinator_check_url(const char *url, char message[COORDINATOR_MESSAGE_SIZE]) {
    const char *place;
    return backend_of(url, &place, message) == NULL;
}

/* Checks a file. libcurl reads such a file whole for each connection, so an endless file (/dev/zero) would block it. A
 * missing file is accepted, because it may be created later. */
static int check_file(const char *what, const char *path, char message[COORDINATOR_MESSAGE_SIZE]) {
    struct stat status;
    if (path == NULL || stat(path, &status) != 0) return 0;
    if (S_ISREG(status.st_mode) && status.st_size <= (off_t)COORDINATOR_FILE_MAX) return 0;
    return coordinator_refuse(message, "coordinator: the %s %s must be a regular PEM file of at most 1 MiB", what,
                              path);
}

static int check_options(const struct backend *backend, const struct coordinator_options *options,
                         char message[COORDINATOR_MESSAGE_SIZE]) {
    if (options->call_ms < 100 || options->call_ms > 600000)
        return coordinator_refuse(message, "coordinator: the timeout of a call must be 100 ms to 10 minutes, not %u ms",
                                  options->call_ms);
    if (options->session_ms < 1000 || options->session_ms > 600000)
        return coordinator_refuse(message, "coordinator: the timeout of a session must be 1 s to 10 minutes, not %u ms",
                                  options->session_ms);
    if (options->presence_ms != 0 && (options->presence_ms < 100 || options->presence_ms > 600000))
        return coordinator_refuse(message,
                                  "coordinator: the duration of a presence must be 100 ms to 10 minutes, not %u ms",
                                  options->presence_ms);
    if (options->credentials != NULL && strchr(options->credentials, ':') == NULL)
        return coordinator_refuse(message, "coordinator: credentials must be user:password");
    bool is_certified = options->ca != NULL || options->certificate != NULL || options->key != NULL;
    if (is_certified && !backend->has_certificates)
        return coordinator_refuse(
            message, "coordinator: a CA, a certificate and a key are allowed with etcds:// only, not with %s",
            backend->scheme);
    if ((options->certificate == NULL) != (options->key == NULL))
        return coordinator_refuse(message, "coordinator: name both the certificate and its key, or neither");
    bool is_wrong = check_file("CA", options->ca, message) != 0 ||
                    check_file("certificate", options->certificate, message) != 0 ||
                    check_file("key", options->key, message) != 0;
    return is_wrong ? 1 : 0;
}

static int start_thread(struct coordinator *coordinator, char message[COORDINATOR_MESSAGE_SIZE]) {
    int error = pthread_create(&coordinator->thread, NULL, coordinator_run, coordinator);
    if (error != 0) return coordinator_refuse(message, "coordinator: cannot start a thread: %s", strerror(error));
    pthread_setname_np(coordinator->thread, "tarry-coord");
    return 0;
}

int coordinator_open(const char *url, const struct coordinator_options *options, struct coordinator **out,
                     char message[COORDINATOR_MESSAGE_SIZE]) {
    const char *place;
    const struct backend *backend = backend_of(url, &place, message);
    if (backend == NULL || check_options(backend, options, message) != 0) return 1;
    struct coordinator *coordinator = calloc(1, sizeof *coordinator);
    if (coordinator == NULL) return coordinator_refuse(message, "coordinator: out of memory");
    coordinator->backend = backend;
    struct coordinator_options whole = *options;
    if (options->presence_ms == 0) whole.presence_ms = COORDINATOR_PRESENCE_MS;
    coordinator->options = whole;
    /* The caller's strings may be freed after coordinator_open; the backend has copied those that it needs. */
    coordinator->options.credentials = NULL;
    coordinator->options.ca = coordinator->options.certificate = coordinator->options.key = NULL;
    coordinator->last = &coordinator->first;
    coordinator->session = (struct coordinator_session){.state = COORDINATOR_CONNECTING,
                                                        .since_ms = coordinator_now_ms(),
                                                        .message = "not asked yet"};
    pthread_mutex_init(&coordinator->mutex, NULL);
    coordinator->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = coordinator->wake < 0
                     ? coordinator_refuse(message, "coordinator: cannot open an eventfd: %s", strerror(errno))
                     : backend->open(coordinator, place, &whole, &coordinator->state, message);
    if (failed == 0 && start_thread(coordinator, message) != 0) {
        backend->close(coordinator->state);
        failed = 1;
    }
    if (failed == 0) {
        *out = coordinator;
        return 0;
    }
    if (coordinator->wake >= 0) close(coordinator->wake);
    pthread_mutex_destroy(&coordinator->mutex);
    free(coordinator);
    return 1;
}

void coordinator_close(struct coordinator *coordinator) {
    if (coordinator == NULL) return;
    pthread_mutex_lock(&coordinator->mutex);
    coordinator->stop = true;
    pthread_mutex_unlock(&coordinator->mutex);
    coordinator_wake(coordinator);
    pthread_join(coordinator->thread, NULL);
    coordinator->backend->close(coordinator->state);
    close(coordinator->wake);
    pthread_mutex_destroy(&coordinator->mutex);
    free(coordinator);
}

const char *coordinator_warning(const struct coordinator *coordinator) {
    return coordinator->backend->warning;
}
