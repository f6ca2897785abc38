/* authorizer.c: decides which clients may connect and what each client may do, and reads the file of tokens; see
 * authorizer.h. */
#include "authorizer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "config.h"
#include "door.h"
#include "fatal.h"
#include "lanes.h"
#include "logfmt.h"
#include "private_file.h"
#include "requests.h"
#include "token_file.h"

/* ---- counters of admitted and refused clients; see authorizer.h */

void authorizer_numbers(struct authorizer *authorizer, struct authorizer_numbers *out) {
    pthread_mutex_lock(&authorizer->mutex);
    out->tokens = authorizer->set->count;
    out->failures = authorizer->failures.total;
    memcpy(out->problem, authorizer->problem, sizeof(out->problem));
    pthread_mutex_unlock(&authorizer->mutex);
    out->denied = atomic_load(&authorizer->denied);
    out->limited = atomic_load(&authorizer->limited);
}

/* ---- refusals for the log */

/* Records refused clients in the log; see authorizer.h. The door's thread counts the refusals
 * (access/access.h). The authorizer's thread offers them to the core thread, which records them. */

/* Counts `count` more refusals (access.h). The caller holds the mutex. */
static void authorizer_note(struct authorizer *authorizer, Tarry__AccessRefused__Why why, const char *peer,
                            const char *principal, const char *what, uint64_t count) {
    bool is_news =
        refusals_add(&authorizer->refusals, why, peer, principal, what, count, boottime_ns() / NS_PER_MS + 1);
    if (is_news && authorizer->runs) (void)eventfd_write(authorizer->wake, 1);
}

static void give_back(struct refusals_told *told, bool is_recorded) {
    struct authorizer *authorizer = told->owner;
    pthread_mutex_lock(&authorizer->mutex);
    told->is_offered = false;
    if (is_recorded) told->count = 0;
    pthread_mutex_unlock(&authorizer->mutex);
}

void authorizer_tell(struct authorizer *authorizer, bool all) {
    struct refusals_told *told = &authorizer->told;
    pthread_mutex_lock(&authorizer->mutex);
    bool is_free = !told->is_offered;
    if (is_free && told->count == 0)
        told->count = refusals_take(&authorizer->refusals, boottime_ns() / NS_PER_MS + 1, all, told->rows);
    bool offers = is_free && told->count > 0;
    if (offers) {
        told->told = give_back;
        told->owner = authorizer;
        told->item = (struct item){.kind = ITEM_REFUSALS};
        told->is_offered = true;
    }
    pthread_mutex_unlock(&authorizer->mutex);
    if (offers) inbox_post(authorizer->inbox, &told->item);
}

/* ==== clients */

/* Interval of checking the file, for file systems that do not report changes. */
#define LOOK_MS 10000
#define EVENTS_SIZE 4096
#define PARENT_SIZE CONFIG_TEXT_SIZE

static uint64_t wall_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec > 0 ? (uint64_t)now.tv_sec : 0;
}

static uint64_t steady_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec + 1;
}

/* ---- the file of tokens */

static struct authorizer_mark mark_of(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) return (struct authorizer_mark){0};
    return (struct authorizer_mark){.exists = true,
                                    .device = status.st_dev,
                                    .inode = status.st_ino,
                                    .size = (uint64_t)status.st_size,
                                    .changed_ns = (uint64_t)status.st_ctim.tv_sec * 1000000000u +
                                                  (uint64_t)status.st_ctim.tv_nsec};
}

static bool is_same_mark(const struct authorizer_mark *a, const struct authorizer_mark *b) {
    return a->exists == b->exists && a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->changed_ns == b->changed_ns;
}

/* Returns NULL with an error message if the file cannot be read or is wrong. */
static struct access_set *read_set(const char *path, char *message, size_t size) {
    const struct private_file file = {.what = "file of tokens",
                                      .path = path,
                                      .option = "tokens",
                                      .remedy = "; 'tarry token add' creates it"};
    struct token_file tokens = {0};
    char problem[TOKEN_FILE_MESSAGE_SIZE];
    const size_t room = TOKEN_FILE_SIZE_MAX + 1;
    size_t text_size = 0;
    struct access_set *set = NULL;
    char *text = malloc(room);
    if (text == NULL) {
        snprintf(message, size, "file of tokens %s cannot be read: out of memory", path);
        return NULL;
    }
    int error = private_file_read(&file, text, room, &text_size, message, size);
    if (error == 0 && (error = token_file_parse(text, text_size, &tokens, problem)) != 0)
        snprintf(message, size, "file of tokens %s, %s", path, problem);
    free(text);
    if (error != 0) return NULL;
    set = access_set_new(tokens.entries, tokens.count);
    token_file_deinit(&tokens);
    if (set == NULL) snprintf(message, size, "file of tokens %s cannot be read: out of memory", path);
    return set;
}

int authorizer_open(struct authorizer *authorizer, const struct config *config, struct lanes *lanes,
                    struct inbox *inbox, char *message, size_t size) {
    char *path = authorizer->path;
    bool is_said = config->tokens[0] != '\0';
    snprintf(path, sizeof(authorizer->path), "%s%s", is_said ? config->tokens : config->data, is_said ? "" : "/tokens");
    authorizer->lanes = lanes;
    authorizer->inbox = inbox;
    authorizer->is_open = config->unsafe_no_tokens;
    pthread_mutex_init(&authorizer->mutex, NULL);
    authorizer->mark = mark_of(path);
    if (!authorizer->mark.exists && !is_said) {
        authorizer->set = access_set_new(NULL, 0);
        if (authorizer->set == NULL) snprintf(message, size, "out of memory");
    } else {
        authorizer->set = read_set(path, message, size);
    }
    return authorizer->set == NULL;
}

/* Reads the file again. Installs the new rows, or logs the error. */
static void read_again(struct authorizer *authorizer, const struct authorizer_mark *mark) {
    char message[AUTHORIZER_PROBLEM_SIZE - 100], quoted[LOGFMT_VALUE_SIZE];
    struct access_set *set = read_set(authorizer->path, message, sizeof(message));
    pthread_mutex_lock(&authorizer->mutex);
    struct access_set *former = NULL;
    authorizer->mark = *mark;
    if (set != NULL) {
        former = authorizer->set;
        access_set_follow(set, former);
        authorizer->set = set;
        authorizer->problem[0] = '\0';
    } else {
        snprintf(authorizer->problem, sizeof(authorizer->problem),
                 "%s; the broker still uses the earlier content of the file", message);
    }
    pthread_mutex_unlock(&authorizer->mutex);
    if (set != NULL)
        logfmt("tokens_read", "path=%s count=%zu", logfmt_quote(authorizer->path, quoted), set->count);
    else
        logfmt("tokens_wrong", "reason=%s action=\"the broker still uses the earlier tokens\"",
               logfmt_quote(message, quoted));
    access_set_free(former);
}

/* ---- the thread that watches the file */

static int watch(const char *path) {
    char parent[PARENT_SIZE + sizeof("/tokens")];
    const char *slash = strrchr(path, '/');
    size_t size = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    snprintf(parent, sizeof(parent), "%.*s", slash == NULL ? 1 : (int)size, slash == NULL ? "." : path);
    int events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (events >= 0 && inotify_add_watch(events, parent, IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE | IN_ATTRIB) < 0) {
        close(events);
        events = -1;
    }
    return events;
}

/* Returns the time until the next token expires, at most LOOK_MS. */
static int wait_ms(struct authorizer *authorizer) {
    pthread_mutex_lock(&authorizer->mutex);
    uint64_t now_s = wall_s(), next_s = access_next_expiry(authorizer->set, now_s);
    pthread_mutex_unlock(&authorizer->mutex);
    return next_s - now_s < LOOK_MS / 1000 ? (int)(next_s - now_s) * 1000 : LOOK_MS;
}

static bool any_expired(struct authorizer *authorizer, uint64_t since_s, uint64_t now_s) {
    pthread_mutex_lock(&authorizer->mutex);
    bool found = access_next_expiry(authorizer->set, since_s) <= now_s;
    pthread_mutex_unlock(&authorizer->mutex);
    return found;
}

static void *run(void *argument) {
    struct authorizer *authorizer = argument;
    char events[EVENTS_SIZE];
    struct pollfd fds[] = {{.fd = authorizer->wake, .events = POLLIN},
                           {.fd = watch(authorizer->path), .events = POLLIN}};
    uint64_t since_s = wall_s();
    eventfd_t woken;
    for (;;) {
        /* Read the file's state (mark_of) only after the watch has begun, so that no change of the file is missed. */
        struct authorizer_mark mark = mark_of(authorizer->path);
        uint64_t now_s = wall_s();
        bool is_changed = !is_same_mark(&mark, &authorizer->mark);
        if (is_changed) read_again(authorizer, &mark);
        if (is_changed || any_expired(authorizer, since_s, now_s)) door_review(authorizer->door);
        since_s = now_s;
        authorizer_tell(authorizer, false);
        int count = poll(fds, 2, wait_ms(authorizer));
        if (atomic_load(&authorizer->stops)) break;
        if (count > 0 && fds[0].revents != 0) (void)eventfd_read(authorizer->wake, &woken);
        while (count > 0 && fds[1].revents != 0 && read(fds[1].fd, events, sizeof(events)) > 0) continue;
    }
    if (fds[1].fd >= 0) close(fds[1].fd);
    return NULL;
}

void authorizer_start(struct authorizer *authorizer, struct door *door) {
    int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake < 0) fatal("authorizer_failed", -errno);
    pthread_mutex_lock(&authorizer->mutex); /* lock the mutex, because the door's thread already runs */
    authorizer->door = door;
    authorizer->wake = wake;
    authorizer->runs = true;
    pthread_mutex_unlock(&authorizer->mutex);
    thread_start(&authorizer->thread, "authorizer", run, authorizer);
}

void authorizer_stop(struct authorizer *authorizer) {
    if (!authorizer->runs) return;
    atomic_store(&authorizer->stops, true);
    (void)eventfd_write(authorizer->wake, 1);
    pthread_join(authorizer->thread, NULL);
    pthread_mutex_lock(&authorizer->mutex);
    authorizer->runs = false;
    pthread_mutex_unlock(&authorizer->mutex);
}

bool authorizer_is_open(const struct authorizer *authorizer) {
    return authorizer->is_open;
}

bool authorizer_has_rows(struct authorizer *authorizer) {
    bool found = false;
    for (size_t i = 0; !found && i < authorizer->set->count; i++)
        found = authorizer->set->principals[i]->entry.kind != KIND_LOOPBACK;
    return found;
}

/* ---- which clients may connect */

static const char nothing_shown[] = "this broker requires a token from this address (TARRY_TOKEN_FILE, --token-file)";
static const char unknown[] = "this broker does not know the token";
static const char expired[] = "the token has expired; get a new one ('tarry token add' makes it)";
static const char gone[] = "the principal of this session may no longer use the broker";
static const char too_many[] = "this address sent too many wrong tokens; wait a minute";

/* The caller of this function and of the functions below holds the mutex. */
static struct caller_verdict fail(struct authorizer *authorizer, const struct net_caller *caller,
                                  Tarry__AccessRefused__Why why, const char *principal) {
    static const char *const sentences[] = {[TARRY__ACCESS_REFUSED__WHY__NOTHING_SHOWN] = nothing_shown,
                                            [TARRY__ACCESS_REFUSED__WHY__UNKNOWN_TOKEN] = unknown,
                                            [TARRY__ACCESS_REFUSED__WHY__EXPIRED_TOKEN] = expired,
                                            [TARRY__ACCESS_REFUSED__WHY__SESSION_REVOKED] = gone};
    static struct logfmt_limit limit;
    char quoted[LOGFMT_VALUE_SIZE];
    const char *sentence = sentences[why];
    authorizer_note(authorizer, why, caller->peer, principal, "", 1);
    bool is_limited = failures_add(&authorizer->failures, caller->peer, steady_s());
    if (!is_limited && logfmt_allowed(&limit))
        logfmt("access_refused", "from=%s path=%s reason=\"%s\" failures=%" PRIu64, caller->peer,
               logfmt_quote(caller->path, quoted), sentence, authorizer->failures.total);
    return (struct caller_verdict){.status = is_limited ? 429 : 401,
                                   .sentence = is_limited ? too_many : sentence,
                                   .wants_token = true};
}

/* Counts one more connection of the principal. A connection that is admitted again is not counted twice against the
 * limit. The door subtracts the earlier admission of such a connection afterwards. */
static struct caller_verdict let_in(struct authorizer *authorizer, const struct net_caller *caller,
                                    struct access_principal *principal) {
    uint64_t most = principal->entry.limits[LIMIT_connections];
    uint64_t own = caller->former != 0 && principal_of(caller->former) == principal ? 1 : 0;
    uint64_t count = atomic_fetch_add(&principal->usage.connections, 1) - own;
    if (most == 0 || count < most) return (struct caller_verdict){.principal = (uint64_t)(uintptr_t)principal};
    atomic_fetch_sub(&principal->usage.connections, 1);
    atomic_fetch_add(&authorizer->limited, 1);
    snprintf(authorizer->sentence, sizeof(authorizer->sentence),
             "%s has its maximum of %" PRIu64 " connections (tarry token)", principal->entry.name, most);
    access_release(principal);
    return (struct caller_verdict){.status = 429, .sentence = authorizer->sentence};
}

static bool is_local(const struct authorizer *authorizer, const struct net_caller *caller) {
    return caller->way != CALLER_NETWORK || authorizer_is_open(authorizer);
}

/* Admits a lane's connection. It gets the principal of the client that subscribed, if the session's secret is right. */
static struct caller_verdict admit_lane(struct authorizer *authorizer, const struct net_caller *caller) {
    const struct access_set *set = authorizer->set;
    char name[PRINCIPAL_SIZE_MAX + 1] = "";
    struct access_principal *principal = NULL;
    uint32_t lane = (uint32_t)strtoul(caller->path + strlen("/lane/"), NULL, 10);
    if (lanes_principal(authorizer->lanes, lane, caller->session, name)) {
        if (name[0] == '\0' && is_local(authorizer, caller)) principal = set->loopback;
        if (strcmp(name, set->owner->entry.name) == 0) principal = set->owner;
        if (principal == NULL && name[0] != '\0') principal = (struct access_principal *)access_find(set, name);
    }
    if (principal == NULL) return fail(authorizer, caller, TARRY__ACCESS_REFUSED__WHY__SESSION_REVOKED, name);
    if (access_has_expired(principal, wall_s()))
        return fail(authorizer, caller, TARRY__ACCESS_REFUSED__WHY__EXPIRED_TOKEN, name);
    return let_in(authorizer, caller, access_hold(principal));
}

static struct caller_verdict admit_shown(struct authorizer *authorizer, const struct net_caller *caller) {
    struct access_principal *principal = NULL;
    bool is_owner = caller->way == CALLER_UNIX && access_is_owner(caller->uid, geteuid());
    struct access_shown shown = {.is_owner = is_owner,
                                 .is_local = is_local(authorizer, caller),
                                 .certificate = caller->certificate,
                                 .token = caller->token_size > 0 ? caller->token : NULL,
                                 .token_size = caller->token_size};
    struct caller_verdict verdict;
    switch (access_judge(authorizer->set, &shown, wall_s(), &principal)) {
    case ACCESS_NOTHING_SHOWN:
        return fail(authorizer, caller, TARRY__ACCESS_REFUSED__WHY__NOTHING_SHOWN, "");
    case ACCESS_UNKNOWN:
        return fail(authorizer, caller, TARRY__ACCESS_REFUSED__WHY__UNKNOWN_TOKEN, "");
    case ACCESS_EXPIRED:
        verdict = fail(authorizer, caller, TARRY__ACCESS_REFUSED__WHY__EXPIRED_TOKEN, principal->entry.name);
        access_release(principal);
        return verdict;
    case ACCESS_IN:
        break;
    }
    const struct access_rule *rule = caller->place == CALLER_PAGE ? access_rule_of_page(caller->path) : NULL;
    if (rule != NULL && !access_may(principal, rule, NULL, authorizer->sentence)) {
        atomic_fetch_add(&authorizer->denied, 1);
        access_release(principal);
        return (struct caller_verdict){.status = 403, .sentence = authorizer->sentence};
    }
    return let_in(authorizer, caller, principal);
}

struct caller_verdict authorizer_admit(struct authorizer *authorizer, const struct net_caller *caller) {
    const struct access_rule *rule = caller->place == CALLER_PAGE ? access_rule_of_page(caller->path) : NULL;
    /* A client without a token may get a page for which no role is required. */
    bool is_open = rule != NULL && rule->roles == ROLES_NONE && caller->token_size == 0;
    if (is_open) return (struct caller_verdict){0};
    pthread_mutex_lock(&authorizer->mutex);
    struct caller_verdict verdict =
        caller->place == CALLER_LANE ? admit_lane(authorizer, caller) : admit_shown(authorizer, caller);
    pthread_mutex_unlock(&authorizer->mutex);
    return verdict;
}

void authorizer_dismiss(uint64_t principal) {
    if (principal == 0) return;
    atomic_fetch_sub(&principal_of(principal)->usage.connections, 1);
    access_release(principal_of(principal));
}

bool authorizer_stays(struct authorizer *authorizer, uint64_t principal) {
    if (principal == 0) return true;
    pthread_mutex_lock(&authorizer->mutex);
    bool stays = access_set_has(authorizer->set, principal_of(principal)) &&
                 !access_has_expired(principal_of(principal), wall_s());
    pthread_mutex_unlock(&authorizer->mutex);
    return stays;
}

/* ==== requests */

/* Decides whether a principal may make a request. It checks the queues
 * that a request names. If a request names a task, a session or a producer only by number, the core checks the
 * principal's rights to it. */

static const char denied_unsaid[] = "the request is denied, and the broker has too little memory to give the reason";

/* Copies the sentence into the arena. Equal refusals of one commit share one copy. */
static const char *keep(struct arena *arena, const char *sentence) {
    size_t size = strlen(sentence) + 1;
    char *kept = arena_alloc(arena, size);
    if (kept == NULL) return denied_unsaid;
    memcpy(kept, sentence, size);
    return kept;
}

static struct request_refusal deny(struct authorizer *authorizer, struct arena *arena, const char *sentence) {
    atomic_fetch_add(&authorizer->denied, 1);
    return (struct request_refusal){TARRY__CODE__DENIED, keep(arena, sentence)};
}

/* Records refusals of operations that only few principals may do: an auditor wants to know which others tried. */
static void note(struct authorizer *authorizer, const struct access_principal *principal,
                 const struct access_rule *rule, const char *peer, uint64_t count) {
    bool is_for_few = rule->roles != ROLES_NONE && (rule->roles & ~((unsigned)ROLE_admin | ROLE_peer)) == 0;
    if (!is_for_few || count == 0) return;
    pthread_mutex_lock(&authorizer->mutex);
    authorizer_note(authorizer, TARRY__ACCESS_REFUSED__WHY__ROLE_LACKS, peer != NULL ? peer : "",
                    access_record_name(principal), rule->name, count);
    pthread_mutex_unlock(&authorizer->mutex);
}

/* ---- operations */

/* Checks the operations of a commit. A malformed operation already has its error, and is not checked. */
static void judge_ops(struct authorizer *authorizer, const struct access_principal *principal, struct arena *arena,
                      const struct core_request *request) {
    /* The cast from const is safe: request_prepare has allocated the contents as writable. They are const only because
     * the core must not change them. */
    struct core_content *contents = (struct core_content *)request->commit.contents;
    const Tarry__Commit *commit = request->message->commit;
    const struct access_rule *noted = NULL;
    char sentence[ACCESS_SENTENCE_SIZE];
    const char *last = NULL;
    uint64_t count = 0;
    for (size_t i = 0; i < commit->n_ops; i++) {
        const struct access_rule *rule = access_rule_of_op(commit->ops[i]->op_case);
        if (contents[i].problem != NULL || rule == NULL) continue;
        if (access_may(principal, rule, op_queue(commit->ops[i]), sentence)) continue;
        if (last == NULL || strcmp(last, sentence) != 0) last = keep(arena, sentence);
        contents[i].problem = last;
        contents[i].code = TARRY__CODE__DENIED;
        atomic_fetch_add(&authorizer->denied, 1);
        if (rule != noted && noted != NULL) note(authorizer, principal, noted, request->peer, count);
        count = rule == noted ? count + 1 : 1;
        noted = rule;
    }
    if (noted != NULL) note(authorizer, principal, noted, request->peer, count);
}

/* ---- whole requests */

static const char *queue_or_all(const char *queue) {
    return queue[0] != '\0' ? queue : NULL;
}

/* Returns the queue that the request names, the first one of several; NULL: none. */
static const char *queue_of_request(const Tarry__Request *request) {
    switch (request->body_case) {
#define REQUEST(CASE, member, Message, class, answerer, roles, reach, queue, ...)                                      \
    case TARRY__REQUEST__BODY_##CASE: {                                                                                \
        const Tarry__##Message *m = request->member;                                                                   \
        (void)m;                                                                                                       \
        return queue;                                                                                                  \
    }
#include "requests.def"
        REQUEST_UNKNOWN
    }
    return NULL;
}

static bool may_request(const struct access_principal *principal, const struct access_rule *rule,
                        const Tarry__Request *request, char sentence[ACCESS_SENTENCE_SIZE]) {
    if (!access_may(principal, rule, queue_of_request(request), sentence)) return false;
    if (request->body_case != TARRY__REQUEST__BODY_SUBSCRIBE) return true;
    for (size_t i = 1; i < request->subscribe->n_queues; i++)
        if (!access_may(principal, rule, request->subscribe->queues[i], sentence)) return false;
    return true;
}

/* Returns whether this request is allowed as a request of the other node of the pair, which proves its identity by the
 * pair's key (checked in rpc.c). A requester on this host needs the proof only. Over the network it also needs a token
 * with the role `peer`. */
static bool is_peers(const struct access_principal *principal, enum authorizer_side side,
                     const Tarry__Request *request) {
    bool is_proved = side == SIDE_PEER;
    bool is_near = principal->entry.kind == KIND_LOOPBACK || principal->entry.kind == KIND_OWNER;
    bool is_role = is_near || (principal->entry.roles & ROLE_peer) != 0;
    if (request->body_case == TARRY__REQUEST__BODY_BACKUP)
        return is_role && is_proved; /* the other node uses Backup requests to fetch its snapshot */
    return is_role && request->body_case == TARRY__REQUEST__BODY_FOLLOW;
}

/* Checks only names that clients choose for themselves. The other node and the gateway use names from this program,
 * which may equal a principal's name. */
static bool is_anothers_name(struct authorizer *authorizer, const struct access_principal *principal,
                             enum authorizer_side side, const char *client) {
    if (side != SIDE_CLIENT) return false;
    pthread_mutex_lock(&authorizer->mutex);
    bool is_claimed = access_is_claimed(authorizer->set, principal, client);
    pthread_mutex_unlock(&authorizer->mutex);
    return is_claimed;
}

static uint64_t steady_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct request_refusal limit(struct authorizer *authorizer, const struct access_principal *principal,
                                    struct arena *arena, enum access_limit which) {
    char sentence[ACCESS_SENTENCE_SIZE];
    atomic_fetch_add(&authorizer->limited, 1);
    snprintf(sentence, sizeof(sentence), "%s has reached its limit %s=%" PRIu64 " (tarry token)", principal->entry.name,
             access_limit_name(which), principal->entry.limits[which]);
    return (struct request_refusal){TARRY__CODE__BUSY, keep(arena, sentence)};
}

/* Returns the principal's limit of queues; 0: none. A principal that may use all queues has none by default, because it
 * may also delete the queues of others. */
static uint64_t queues_max(const struct access_principal *principal) {
    const uint64_t limit = principal->entry.limits[LIMIT_queues];
    if (limit != 0) return limit;
    return access_is_confined(principal) ? QUEUES_OF_CONFINED_DEFAULT : 0;
}

struct request_refusal authorizer_look_at_rate(struct authorizer *authorizer, struct access_principal *principal,
                                               struct arena *arena) {
    if (access_has_rate(principal, 1, steady_ns())) return (struct request_refusal){TARRY__CODE__OK, NULL};
    return limit(authorizer, principal, arena, LIMIT_rate);
}

void authorizer_charge(struct access_principal *principal) {
    access_spend_rate(principal, 1, steady_ns());
}

static struct core_caller *caller_of(const struct access_principal *principal, struct arena *arena) {
    struct core_caller *caller = arena_alloc(arena, sizeof(*caller));
    if (caller == NULL) return NULL;
    *caller = (struct core_caller){
        .name = access_record_name(principal),
        .prefixes = principal->entry.prefixes,
        .prefix_count = principal->entry.prefix_count,
        .sessions_max = principal->entry.limits[LIMIT_sessions],
        .queues_max = queues_max(principal),
        .producers_max = principal->entry.limits[LIMIT_producers],
        .pending_max = principal->entry.limits[LIMIT_pending],
        .is_broker = principal->entry.kind == KIND_BROKER,
        .acts_for_all = (principal->entry.roles & ROLE_admin) != 0 && !access_is_confined(principal),
    };
    return caller;
}

struct request_refusal authorizer_judge(struct authorizer *authorizer, struct access_principal *principal,
                                        enum authorizer_side side, struct arena *arena, struct core_request *request) {
    const struct request_refusal fine = {TARRY__CODE__OK, NULL};
    const Tarry__Request *message = request->message;
    const struct access_rule *rule = access_rule_of_request(message);
    char sentence[ACCESS_SENTENCE_SIZE];
    bool is_commit = message->body_case == TARRY__REQUEST__BODY_COMMIT;
    if (rule == NULL) return deny(authorizer, arena, "no access rule allows this request");
    if (is_peers(principal, side, message)) return fine;
    if (!may_request(principal, rule, message, sentence)) {
        note(authorizer, principal, rule, request->peer, 1);
        return deny(authorizer, arena, sentence);
    }
    if (is_anothers_name(authorizer, principal, side, message->client)) {
        snprintf(sentence, sizeof(sentence),
                 "the client gives itself the name \"%.128s\", which belongs to another principal", message->client);
        return deny(authorizer, arena, sentence);
    }
    if (!access_take_rate(principal, is_commit ? message->commit->n_ops : 1, steady_ns()))
        return limit(authorizer, principal, arena, LIMIT_rate);
    request->caller = caller_of(principal, arena);
    if (request->caller == NULL) return (struct request_refusal){TARRY__CODE__BUSY, NULL};
    if (is_commit && request->commit.contents != NULL) judge_ops(authorizer, principal, arena, request);
    return fine;
}

/* Charges one operation that has no request. Returns OK or BUSY. */
static Tarry__Code take_one(struct authorizer *authorizer, struct access_principal *principal,
                            char sentence[ACCESS_SENTENCE_SIZE]) {
    if (access_take_rate(principal, 1, steady_ns())) return TARRY__CODE__OK;
    atomic_fetch_add(&authorizer->limited, 1);
    snprintf(sentence, ACCESS_SENTENCE_SIZE, "%s has reached its limit of operations per second (rate=, tarry token)",
             principal->entry.name);
    return TARRY__CODE__BUSY;
}

static bool may_any(const struct access_principal *principal, uint32_t operations,
                    char sentence[ACCESS_SENTENCE_SIZE]) {
    for (unsigned op = TARRY__OP__OP__NOT_SET + 1; op < 32; op++) {
        const struct access_rule *rule = (operations & 1u << op) != 0 ? access_rule_of_op((Tarry__Op__OpCase)op) : NULL;
        if (rule != NULL && access_may(principal, rule, NULL, sentence)) return true;
    }
    return false;
}

Tarry__Code authorizer_judge_deed(struct authorizer *authorizer, struct access_principal *principal, bool leases,
                                  uint32_t operations, char sentence[ACCESS_SENTENCE_SIZE]) {
    const Tarry__Request subscribe = {.body_case = TARRY__REQUEST__BODY_SUBSCRIBE};
    bool may = leases ? access_may(principal, access_rule_of_request(&subscribe), NULL, sentence)
                      : may_any(principal, operations, sentence);
    if (may) return take_one(authorizer, principal, sentence);
    atomic_fetch_add(&authorizer->denied, 1);
    return TARRY__CODE__DENIED;
}

Tarry__Code authorizer_judge_key(struct authorizer *authorizer, struct access_principal *principal,
                                 const Tarry__Commit *commit, char sentence[ACCESS_SENTENCE_SIZE]) {
    bool may = false;
    for (size_t i = 0; !may && i < commit->n_ops; i++) {
        const struct access_rule *rule = access_rule_of_op(commit->ops[i]->op_case);
        may = rule != NULL && access_may(principal, rule, op_queue(commit->ops[i]), sentence);
    }
    if (may) return take_one(authorizer, principal, sentence);
    atomic_fetch_add(&authorizer->denied, 1);
    return TARRY__CODE__DENIED;
}

Tarry__Code authorizer_judge_lease(struct authorizer *authorizer, struct access_principal *principal,
                                   const char *const *queues, size_t queue_count, char sentence[ACCESS_SENTENCE_SIZE]) {
    const Tarry__Request request = {.body_case = TARRY__REQUEST__BODY_SUBSCRIBE};
    const struct access_rule *rule = access_rule_of_request(&request);
    bool may = true;
    for (size_t i = 0; may && i < queue_count; i++) may = access_may(principal, rule, queues[i], sentence);
    if (!may) {
        atomic_fetch_add(&authorizer->denied, 1);
        return TARRY__CODE__DENIED;
    }
    return take_one(authorizer, principal, sentence);
}

bool authorizer_judge_op(struct authorizer *authorizer, const struct access_principal *principal,
                         Tarry__Op__OpCase operation, const char *queue, char sentence[ACCESS_SENTENCE_SIZE]) {
    const struct access_rule *rule = access_rule_of_op(operation);
    if (rule != NULL && access_may(principal, rule, queue, sentence)) return true;
    atomic_fetch_add(&authorizer->denied, 1);
    return false;
}

uint64_t authorizer_own(struct authorizer *authorizer) {
    pthread_mutex_lock(&authorizer->mutex);
    struct access_principal *own = access_hold(authorizer->set->broker);
    pthread_mutex_unlock(&authorizer->mutex);
    return (uint64_t)(uintptr_t)own;
}

bool authorizer_take_bytes(struct authorizer *authorizer, struct access_principal *principal, uint64_t before,
                           uint64_t after) {
    uint64_t most = principal->entry.limits[LIMIT_bytes];
    /* If `after` is smaller than `before`, the addition wraps around (modulo 2^64) and subtracts. */
    uint64_t others = atomic_fetch_add(&principal->usage.bytes, after - before) - before;
    if (most == 0 || after <= before || others == 0 || others + after <= most) return true;
    atomic_fetch_sub(&principal->usage.bytes, after - before);
    atomic_fetch_add(&authorizer->limited, 1);
    return false;
}

void authorizer_give_bytes(struct access_principal *principal, uint64_t bytes) {
    atomic_fetch_sub(&principal->usage.bytes, bytes);
}
