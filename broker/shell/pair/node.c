/* node.c: see node.h. A node opens or joins its pair, leaves it, and reports that it serves alone; the pair thread, the
 * effects of the rules, and the state that other threads may read. */
#include "node.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "batch.h"
#include "blocking_rpc.h"
#include "clock.h"
#include "config.h"
#include "datadir.h"
#include "disk.h"
#include "endpoints.h"
#include "fatal.h"
#include "hard_state_rules.h"
#include "inbox.h"
#include "index.h"
#include "lifecycle.h"
#include "listen.h"
#include "log.h"
#include "logfmt.h"
#include "node_parts.h"
#include "run.h"
#include "snapshot.h"
#include "wire.h"

/* ==== opening */

/* ---- the options of a pair */

/* Returns whether both URLs name the same address. (`*` and other names of the same host are not detected.) */
static bool is_same_place(const struct listen_address *a, const struct listen_address *b) {
    if (listen_is_unix(b->scheme)) return false;
    bool is_same_host = strcasecmp(a->host, b->host) == 0 || (a->loopback && b->loopback);
    return is_same_host && a->port == b->port && a->port != 0;
}

static int check_url(const char *option, const char *url, struct listen_address *out,
                     char message[DATADIR_MESSAGE_SIZE]) {
    const char *problem = "the path is too long";
    if (strlen(url) <= URL_SIZE_MAX && listen_parse_peer(url, out, &problem)) return 0;
    snprintf(message, DATADIR_MESSAGE_SIZE, "%s %s: %s", option, url, problem);
    return 1;
}

int node_check(const struct config *config, const struct endpoints *endpoints, char message[DATADIR_MESSAGE_SIZE]) {
    char problem[COORDINATOR_MESSAGE_SIZE];
    struct listen_address peer, advertised = *endpoints_main(endpoints);
    const char *option = config->joins ? "--follow" : "--peer";
    if (config->replication == REPLICATION_NONE) return 0;
    if (check_url(option, config->peer, &peer, message) != 0) return 1;
    if (config->advertise[0] != '\0' && check_url("--advertise", config->advertise, &advertised, message) != 0)
        return 1;
    if (advertised.scheme == LISTEN_UNIX) {
        snprintf(message, DATADIR_MESSAGE_SIZE,
                 "--listen: this node listens at a Unix socket only, but the other node of the pair connects by ws:// "
                 "or wss://; add --listen ws://HOST:PORT");
        return 1;
    }
    bool is_own = is_same_place(&peer, &advertised);
    for (unsigned i = 0; i < endpoints->count; i++) is_own = is_own || is_same_place(&peer, &endpoints->addresses[i]);
    if (is_own) {
        snprintf(message, DATADIR_MESSAGE_SIZE, "%s %s: that is this node itself; give the URL of the other node",
                 option, config->peer);
        return 1;
    }
    if (config->coordinator[0] == '\0' || coordinator_check_url(config->coordinator, problem) == 0) return 0;
    snprintf(message, DATADIR_MESSAGE_SIZE, "--%.1000s", problem);
    return 1;
}

/* ---- joining a cluster */

/* Returns whether the directory has no identity yet. A directory with an identity has joined already, or a broker has
 * used it. */
static bool is_new(const char *path) {
    char name[CONFIG_TEXT_SIZE + 16];
    struct stat status;
    snprintf(name, sizeof(name), "%s/" IDENTITY_NAME, path);
    return stat(name, &status) != 0 && errno == ENOENT;
}

static int join_as(const struct config *config, const struct peer_key *key, const Tarry__FollowReply *reply,
                   char message[DATADIR_MESSAGE_SIZE]) {
    struct identity identity;
    struct hard_state hard_state = {.node = (uint8_t)reply->node, .runs = 0};
    if (reply->cluster.len != CLUSTER_ID_SIZE || reply->node > 1 ||
        !peer_unseal(key, reply->secret.data, reply->secret.len, identity.secret)) {
        snprintf(
            message, DATADIR_MESSAGE_SIZE,
            "the peer %s sent an invalid reply to the request to join; run the same version of tarryd on both nodes",
            config->peer);
        return 1;
    }
    memcpy(identity.cluster, reply->cluster.data, CLUSTER_ID_SIZE);
    if (reply->member.len == MEMBER_ID_SIZE) memcpy(hard_state.peer, reply->member.data, MEMBER_ID_SIZE);
    return datadir_join(config->data, &identity, &hard_state, reply->log_start > LOG_POSITION_FIRST, message);
}

/* Returns 0: joined; 1: refused; -1: not yet. After 1 and -1 `message` has a sentence. */
static int try_to_join(struct blocking_rpc *blocking_rpc, const struct config *config,
                       char message[DATADIR_MESSAGE_SIZE]) {
    Tarry__Request request = blocking_rpc_request(TARRY__REQUEST__BODY_FOLLOW);
    Tarry__Follow follow = TARRY__FOLLOW__INIT;
    request.follow = &follow;
    Tarry__Reply *reply = blocking_rpc_ask(blocking_rpc, &request);
    if (reply == NULL) {
        blocking_rpc_why(blocking_rpc, message, DATADIR_MESSAGE_SIZE);
        return -1;
    }
    bool is_let_in =
        reply->body_case == TARRY__REPLY__BODY_FOLLOW && reply->follow->verdict == TARRY__FOLLOW_REPLY__VERDICT__JOIN;
    snprintf(message, DATADIR_MESSAGE_SIZE, "%s",
             reply->body_case == TARRY__REPLY__BODY_FOLLOW
                 ? "it answers, but it does not lead yet; this node joins when it does"
             : reply->message[0] != '\0'
                 ? reply->message
                 : "this version does not understand its reply; run the same version of tarryd on both nodes");
    int result = is_let_in ? join_as(config, blocking_rpc->key, reply->follow, message) : -1;
    tarry__reply__free_unpacked(reply, NULL);
    return result;
}

/* Logs each new reason once. */
static void say_waiting(const struct config *config, const char *reason, char said[LOGFMT_VALUE_SIZE]) {
    char quoted[LOGFMT_VALUE_SIZE];
    logfmt_quote(reason, quoted);
    if (strcmp(quoted, said) == 0) return;
    memcpy(said, quoted, sizeof(quoted));
    logfmt("joining_waits", "peer=%s reason=%s", config->peer, quoted);
}

int node_join(const struct config *config, const struct peer_key *key, const struct peer_credentials *credentials,
              char message[DATADIR_MESSAGE_SIZE]) {
    struct blocking_rpc blocking_rpc;
    char said[LOGFMT_VALUE_SIZE] = "";
    if (config->replication == REPLICATION_NONE || !is_new(config->data)) return 0;
    int error = blocking_rpc_open(&blocking_rpc, config->peer, key, credentials);
    if (error != 0) {
        snprintf(message, DATADIR_MESSAGE_SIZE, "cannot prepare a connection to the peer %s: %s", config->peer,
                 strerror(error));
        return 1;
    }
    logfmt("joining", "peer=%s", config->peer);
    int result;
    while ((result = try_to_join(&blocking_rpc, config, message)) < 0) {
        say_waiting(config, message, said);
        if (!blocking_rpc_pause()) continue;
        logfmt("stopped", "reason=\"no leader has answered at %s; this node has not joined the pair yet\"",
               config->peer);
        _exit(0);
    }
    blocking_rpc_close(&blocking_rpc);
    return result;
}

/* ---- the stored state */

static int read_hard_state(struct node *node, char message[DATADIR_MESSAGE_SIZE]) {
    const struct node_needs *needs = &node->needs;
    int error = hard_state_read(&disk_posix, needs->dir->path, &node->hard_state, message);
    node->is_new = error == -ENOENT;
    if (node->is_new) {
        error = 0;
        node->hard_state = (struct hard_state){.node = needs->config->joins ? 1 : 0};
    }
    if (error < 0)
        snprintf(message, DATADIR_MESSAGE_SIZE, "%s/" HARD_STATE_NAME " cannot be read: %s", needs->dir->path,
                 strerror(-error));
    return error != 0;
}

/* Refuses to start a node of a pair as a single broker: the other node may lead, and this node would lack the other's
 * commits. */
static int check_alone(const struct node_needs *needs, char message[DATADIR_MESSAGE_SIZE]) {
    struct hard_state hard_state;
    if (needs->config->inspect || hard_state_read(&disk_posix, needs->dir->path, &hard_state, message) == -ENOENT)
        return 0;
    snprintf(message, DATADIR_MESSAGE_SIZE,
             "data directory %.900s belongs to a node of a pair: a single broker on it would acknowledge changes that "
             "the other node lacks. Start it with --peer URL, or make an independent broker of it with 'tarry restore "
             "DIR --data NEW'",
             needs->dir->path);
    return 1;
}

/* Sets every list of `news` to empty. */
static void node_news_empty(struct node_news *news) {
    news->questions = news->audits = news->words = news->wishes = NULL;
    news->batches = NULL;
    news->questions_last = &news->questions;
    news->batches_last = &news->batches;
    news->audits_last = &news->audits;
    news->words_last = &news->words;
    news->wishes_last = &news->wishes;
}

int node_open(struct node *node, const struct node_needs *needs, char message[DATADIR_MESSAGE_SIZE]) {
    node->needs = *needs;
    node->on = needs->config->replication != REPLICATION_NONE;
    atomic_store(&node->kept_from, UINT64_MAX);
    if (!node->on) return check_alone(needs, message);
    pthread_mutex_init(&node->mutex, NULL);
    monotonic_cond_init(&node->changed);
    monotonic_cond_init(&node->settled_changed);
    node_news_empty(&node->news); /* initialise the lists before any other thread may post */
    if (read_hard_state(node, message) != 0) return 1;
    if (!snapshot_is_wanted(needs->dir->path)) return 0;
    return snapshot_fetch(needs->dir, needs->config->peer, needs->peer_key, needs->credentials, message);
}

_Noreturn void node_refuse(const char *sentence) {
    char quoted[LOGFMT_VALUE_SIZE];
    logfmt("refused", "reason=%s", logfmt_quote(sentence, quoted));
    _exit(EXIT_REFUSED);
}

/* ==== leaving */

/* A node of a pair that is stopped cleanly tells the other node, so that the other node need not wait for
 * a timeout; see node.h.
 *
 * The leader hands over; its clients see a planned switch-over. The follower asks once more, and announces its stop.
 * The leader then treats it as silent at once (PAIR_SILENT, R4); with `--solo-after never` the leader still counts it.
 *
 * Safety does not depend on this: an announcement that is lost or late costs only time. */

/* Time limit of a planned switch-over, which usually takes about 40 ms. */
#define NODE_HAND_OVER_MAX_MS 1000u

/* ---- leaving: the pair thread */

void node_has_left(struct node *node) {
    pthread_mutex_lock(&node->mutex);
    node->left = true;
    pthread_cond_broadcast(&node->settled_changed);
    pthread_mutex_unlock(&node->mutex);
}

/* Begins the stop: hands over if this node leads, otherwise announces the stop. */
static void node_take_leave(struct node *node) {
    if (node_is_leading(node) && node->pair.handing == PAIR_KEEPING) node_tell(node, PAIR_HAND_OVER);
    bool hands_over = node_is_leading(node) && node->pair.handing != PAIR_KEEPING;
    bool says_goodbye = follower_leave(node);
    if (!hands_over && !says_goodbye) node_has_left(node);
}

void node_is_left(struct node *node) {
    logfmt("follower_left", "committed=%" PRIu64 " reason=\"the follower announced that it stops\"",
           node->pair.committed);
    alone_because(&node->alone, TARRY__ALONE_PUT__WHY__LEFT);
    silence_is_left(&node->silence, monotonic_ns());
}

/* ---- leaving: the main thread */

void node_leave(struct node *node) {
    struct timespec until = monotonic_after(NODE_HAND_OVER_MAX_MS * NS_PER_MS);
    int error = 0;
    pthread_mutex_lock(&node->mutex);
    node->news.leave = true;
    pthread_cond_signal(&node->changed);
    while (!node->left && error == 0) error = pthread_cond_timedwait(&node->settled_changed, &node->mutex, &until);
    pthread_mutex_unlock(&node->mutex);
}

/* ==== serving alone */

/* Reports that a leader serves alone: in the program's log, in the status, and as an AlonePut record in the broker's
 * log, for an auditor; see node.h and alone.h.
 *
 * The pair thread notes in node->alone that a period alone begins or ends. When the core decides, the core thread
 * compares node->alone with the last AlonePut record. If they differ, the core handles CORE_ALONE, which writes a new
 * record.
 *
 * A period that ends before the core decides anything leaves no record. Nothing was acknowledged in it, because nothing
 * was decided. */

static const char meaning[] =
    "changes that this node acknowledges from now on are only on its disk, and are lost with it: start the other node";

/* ---- serving alone: the pair thread */

/* Logs that this node serves alone and since when, or that it no longer does. Called after each turn. */
static void node_show_alone(struct node *node) {
    const struct pair *pair = &node->pair;
    uint64_t now_ns = monotonic_ns();
    pthread_mutex_lock(&node->mutex);
    bool is_news = alone_look(&node->alone, pair, now_ns);
    pthread_mutex_unlock(&node->mutex);
    if (!is_news) return;
    if (node->alone.is)
        logfmt_warning("serves_alone", "epoch=%u committed=%" PRIu64 " reason=\"%s\"", pair->epoch, pair->committed,
                       meaning);
    else
        logfmt("serves_alone_no_more", "epoch=%u committed=%" PRIu64 " alone_ms=%" PRIu64, pair->epoch, pair->committed,
               (now_ns - node->alone.since_ns) / NS_PER_MS);
    inbox_nudge(node->needs.inbox);
}

void node_alone_told(struct node *node, const struct call *call) {
    const struct core_request *request = &call->engine_request.event.request;
    pthread_mutex_lock(&node->mutex);
    alone_because(&node->alone, TARRY__ALONE_PUT__WHY__TOLD);
    snprintf(node->teller.client, sizeof(node->teller.client), "%s", request->message->client);
    snprintf(node->teller.peer, sizeof(node->teller.peer), "%s", request->peer != NULL ? request->peer : "");
    snprintf(node->teller.principal, sizeof(node->teller.principal), "%s",
             request->caller != NULL ? request->caller->name : "");
    pthread_mutex_unlock(&node->mutex);
}

/* ---- serving alone: the core thread */

static void name_teller(struct node_alone_fact *fact) {
    tarry__request__init(&fact->message);
    fact->message.client = fact->teller.client;
    fact->caller = (struct core_caller){.name = fact->teller.principal};
    fact->by = (struct core_request){.message = &fact->message, .peer = fact->teller.peer, .caller = &fact->caller};
}

bool node_is_alone_news(struct node *node, struct node_alone_fact *out, struct core_event *out_event) {
    static const uint8_t nobody[MEMBER_ID_SIZE];
    struct alone *recorded = &node->alone_recorded;
    pthread_mutex_lock(&node->mutex);
    struct alone alone = node->alone;
    bool is_same = alone.is == recorded->is && (!alone.is || alone.since_ns == recorded->since_ns);
    if (!is_same) { /* The core calls this function in each turn, so copy the member id and the operator's name only if
                       the state has changed. */
        memcpy(out->member, node->hard_state.peer, MEMBER_ID_SIZE);
        out->teller = node->teller;
    }
    pthread_mutex_unlock(&node->mutex);
    if (is_same) return false;
    bool is_over = recorded->is; /* the recorded period has ended; if the node serves alone again, the next call reports
                                    the new period */
    if (is_over) {
        recorded->is = false;
    } else {
        struct instant now = clock_now(node->needs.clock, NULL);
        uint64_t ago_ns = monotonic_ns() - alone.since_ns;
        *recorded = alone;
        node->alone_since_ms = (now.steady_ns > ago_ns ? now.steady_ns - ago_ns : 0) / NS_PER_MS;
    }
    tarry__alone_put__init(&out->put);
    out->put.over = is_over;
    out->put.why = recorded->why;
    out->put.since_ms = node->alone_since_ms;
    out->put.alone_from = recorded->position;
    if (memcmp(out->member, nobody, MEMBER_ID_SIZE) != 0)
        out->put.member = (ProtobufCBinaryData){MEMBER_ID_SIZE, out->member};
    bool is_told = !is_over && recorded->why == TARRY__ALONE_PUT__WHY__TOLD;
    if (is_told) name_teller(out);
    *out_event = (struct core_event){.kind = CORE_ALONE, .alone = {.put = &out->put, .by = is_told ? &out->by : NULL}};
    return true;
}

/* ==== the pair thread */

/* Delay before a new start by an operator's command, so that the reply to that command is sent first. */
#define AGAIN_NS (200 * NS_PER_MS)
/* Size limit of an answer: its frames and its other fields. */
#define FOLLOW_ANSWER_SIZE_MAX (FRAME_SIZE_MAX + (64u << 10))

static const char *const roles[] = {
    [PAIR_LOOKING] = "looking",     [PAIR_FOLLOWING] = "following", [PAIR_FENCING] = "promoting",
    [PAIR_CANDIDATE] = "promoting", [PAIR_LEADING] = "leading",     [PAIR_ENDED] = "ended",
    [PAIR_YIELDING] = "yielding",
};

bool node_is_leading(const struct node *node) {
    return node->pair.role == PAIR_LEADING;
}

const char *node_role(const struct node *node) {
    int role = atomic_load(&node->role);
    return roles[role == PAIR_FOLLOWING && !atomic_load(&node->follows) ? PAIR_LOOKING : role];
}

/* ---- effects */

/* Ends the run for the reason given. A process that led restarts itself, because a node can leave the leader's role
 * only by a restart. In other roles the process ends, and an operator must decide. */
static _Noreturn void end_run(struct node *node, enum pair_role before, const char *reason) {
    char quoted[LOGFMT_VALUE_SIZE];
    atomic_store(&node->leads, false);
    node_drop_word(node, TARRY__CODE__NOT_DONE, reason);
    bool led = before == PAIR_LEADING || before == PAIR_YIELDING;
    if (led && stop_is_told()) {
        logfmt("stopped", "reason=%s", logfmt_quote(reason, quoted));
        _exit(0); /* the replies that were not confirmed must not be sent any more */
    }
    if (led) {
        logfmt("deposed", "epoch=%u reason=%s action=restart", node->pair.epoch, logfmt_quote(reason, quoted));
        restart();
    }
    node_refuse(reason);
}

static void write_hard_state(struct node *node) {
    hard_state_take(&node->hard_state, &node->pair, node->peer.member, node->leading.requester);
    int error = hard_state_write(&disk_posix, node->needs.dir->path, &node->hard_state);
    if (error != 0) fatal("note_failed", error);
    struct pair_event event = {.kind = PAIR_STATE_WRITTEN, .end = log_durable(node->log)};
    node_step(node, &event, NULL);
}

void node_cut(struct node *node, uint64_t end) {
    if (!follower_cut(node, end)) return;
    struct pair_event event = {.kind = PAIR_DURABLE, .end = log_durable(node->log)};
    node_step(node, &event, NULL);
}

/* Fills in `members`, which record_client_swap writes into the record: the disk and the URL of each node. An unknown
 * other node keeps its entry of the last record. */
void node_members(struct node *node, struct record_member members[RECORD_NODES]) {
    memcpy(members, node->record_client.record.members, RECORD_NODES * sizeof(*members));
    struct record_member *self = &members[node->pair.self], *other = &members[node->pair.other];
    self->is_known = true;
    memcpy(self->id, node->needs.dir->member.id, MEMBER_ID_SIZE);
    snprintf(self->url, sizeof(self->url), "%s", node->url);
    bool is_counted = node_is_leading(node) && hard_state_has_peer(&node->hard_state);
    /* Only this thread writes node->peer.url, so no lock is needed to read it. */
    if (is_counted && node->peer.url[0] != '\0') {
        other->is_known = true;
        memcpy(other->id, node->hard_state.peer, MEMBER_ID_SIZE);
        pthread_mutex_lock(&node->mutex);
        snprintf(other->url, sizeof(other->url), "%s", node->peer.url);
        pthread_mutex_unlock(&node->mutex);
    }
}

static void swap(struct node *node, const struct pair_effect *effect) {
    struct record_member members[RECORD_NODES];
    node_members(node, members);
    record_client_swap(&node->record_client, effect->version, &effect->record, members);
}

/* Reports a sentence to the operator. If an operator's command caused the sentence, only the reply to the command
 * contains it. Any other sentence is shown in the status until this node leads or follows. */
void node_say(struct node *node, const char *sentence, uint32_t epoch) {
    char quoted[LOGFMT_VALUE_SIZE], text[COORDINATOR_MESSAGE_SIZE];
    const struct node_said said = {sentence, epoch};
    node->said = said;
    if (node->is_told || (sentence == node->said_before.sentence && epoch == node->said_before.epoch)) return;
    node_format_said(&said, text);
    logfmt("pair", "role=%s reason=%s", roles[node->pair.role], logfmt_quote(text, quoted));
    node->said_before = said;
}

static void perform(struct node *node, enum pair_role before, const struct pair_effect *effect,
                    struct pair_message *out_answer) {
    switch (effect->kind) {
    case PAIR_WRITE_STATE:
        write_hard_state(node);
        break;
    case PAIR_READ:
        if (record_reads_ask(&node->reads, effect->presence, monotonic_ns())) node_read_record(node);
        break;
    case PAIR_SWAP:
        swap(node, effect);
        break;
    case PAIR_ASK:
        follower_ask(node, &effect->message);
        break;
    case PAIR_ANSWER:
        if (out_answer != NULL) *out_answer = effect->message;
        break;
    case PAIR_LEAD:
        leader_begin(node);
        break;
    case PAIR_CUT:
        node_cut(node, effect->end);
        break;
    case PAIR_FETCH:
        follower_fetch(node, effect->end);
    case PAIR_END:
        end_run(node, before, effect->reason);
    case PAIR_STOP_WRITES:
        atomic_store(&node->paused, true);
        inbox_pause(node->needs.inbox, true);
        break;
    case PAIR_TAKE_WRITES:
        atomic_store(&node->paused, false);
        inbox_pause(node->needs.inbox, false);
        break;
    case PAIR_SAY:
        node_say(node, effect->reason, effect->epoch);
        break;
    }
}

void node_step(struct node *node, const struct pair_event *event, struct pair_message *out_answer) {
    struct pair_effects effects = {0};
    enum pair_role before = node->pair.role;
    bool was_told = node->is_told;
    /* Note the operator's command before pair_step is called, because pair_step may carry it out. */
    if (node->word != NULL) node_alone_told(node, node->word);
    node->is_told |= node->word != NULL;
    pair_step(&node->pair, event, &effects);
    for (size_t i = 0; i < effects.count; i++) perform(node, before, &effects.items[i], out_answer);
    node->is_told = was_told;
    node_answer_word(node);
}

/* ---- turns */

/* Publishes the state for other threads, after each turn. */
static void show(struct node *node) {
    int role = (int)node->pair.role;
    bool is_new = role != atomic_load(&node->role);
    if (is_new) logfmt("role", "role=%s epoch=%u", roles[role], node->pair.epoch);
    atomic_store(&node->role, role);
    bool follows = role == PAIR_FOLLOWING && node->pair.epoch != 0;
    atomic_store(&node->follows, follows);
    bool settled = atomic_load(&node->leads) || follows;
    if (settled) node->said_before = (struct node_said){0};
    node_show_alone(node);
    pthread_mutex_lock(&node->mutex);
    if (is_new) node->role_since_ms = instant_ms(clock_now(node->needs.clock, NULL));
    node->has_followed |= follows;
    if (is_new) node->took_over_ms = role == PAIR_LEADING && node->has_followed ? node->role_since_ms : 0;
    node->shown = node->pair;
    node_format_said(&node->said_before, node->problem);
    if (settled && !node->settled) pthread_cond_broadcast(&node->settled_changed);
    node->settled = settled;
    pthread_mutex_unlock(&node->mutex);
}

static bool has_news(const struct node_news *news) {
    return news->questions != NULL || news->batches != NULL || news->answered || news->kept || news->began ||
           news->leave || news->stop || news->again || news->moved || news->changed || news->paused ||
           news->words != NULL || news->wishes != NULL || news->applied || news->audits != NULL ||
           news->probed != NULL || news->refused || news->hung_up;
}

static void take_news(struct node *node, uint64_t until_ns, struct node_news *out) {
    pthread_mutex_lock(&node->mutex);
    int error = 0;
    while (!has_news(&node->news) && error == 0) {
        uint64_t now_ns = monotonic_ns();
        if (now_ns >= until_ns) break;
        struct timespec until = monotonic_after(until_ns - now_ns);
        error = pthread_cond_timedwait(&node->changed, &node->mutex, &until);
    }
    *out = node->news;
    node->news = (struct node_news){.written = out->written, .frames = out->frames, .durable = out->durable};
    node_news_empty(&node->news);
    pthread_mutex_unlock(&node->mutex);
}

/* Takes the leader's address from the record, before the leader has sent anything. */
static void take_address(struct node *node) {
    const struct coordinator_record *record = &node->record_client.record;
    if (record->pair.epoch == 0) return;
    const char *url = record->members[record->pair.leader].url;
    pthread_mutex_lock(&node->mutex);
    snprintf(node->primary, sizeof(node->primary), "%s", url);
    pthread_mutex_unlock(&node->mutex);
}

static void note_doubt(struct node *node, bool is_failed) {
    pthread_mutex_lock(&node->mutex);
    if (is_failed && node->doubt[0] == '\0') node->doubt_ns = monotonic_ns();
    snprintf(node->doubt, sizeof(node->doubt), "%s", is_failed ? node->record_client.call.reason : "");
    pthread_mutex_unlock(&node->mutex);
}

static void take_kept(struct node *node) {
    struct pair_event event = {0};
    char message[COORDINATOR_MESSAGE_SIZE];
    if (record_client_take(&node->record_client, node->pair.hard_state.recorded, &event, message) != 0)
        node_refuse(message);
    if (record_reads_is_copied(&node->pair, &event))
        node_refuse("a copy of this data directory leads, and uses the same lease tokens: stop both nodes, delete the "
                    "copy, and start its node with an empty directory and --follow");
    take_address(node);
    node_take_presence(node, &event);
    bool is_failed = record_reads_took(&node->reads, &node->pair, &event);
    if (event.kind == PAIR_RECORD_READ) note_doubt(node, is_failed);
    node_step(node, &event, NULL);
}

static void take_changed(struct node *node) {
    struct pair_event event = {.kind = PAIR_CHANGED};
    node_step(node, &event, NULL);
}

/* Called when the core decides nothing more and all its decisions are committed. */
static void take_paused(struct node *node, uint64_t position) {
    struct pair_event event = {.kind = PAIR_STOPPED, .end = position};
    node_step(node, &event, NULL);
}

static void check_timers(struct node *node) {
    uint64_t now_ns = monotonic_ns();
    if (node->again_ns <= now_ns && !stop_is_told()) restart();
    if (record_reads_due(&node->reads, now_ns)) node_read_record(node);
    node_check_silence(node, now_ns);
    if (node->word != NULL && node->word_until_ns <= now_ns) node_unanswered(node, false);
    if (node->pair.role == PAIR_FOLLOWING) follower_check(node, now_ns);
}

static uint64_t next_timer(struct node *node) {
    uint64_t until_ns = node_silence_timer(node);
    uint64_t declare_ns = monotonic_ns() + node->record_client.presence_ms * NS_PER_MS / 2;
    if (node_is_declaring(node) && declare_ns < until_ns) until_ns = declare_ns;
    uint64_t wishes_ns = node_wishes_timer(node);
    if (wishes_ns < until_ns) until_ns = wishes_ns;
    if (node->word != NULL && node->word_until_ns < until_ns) until_ns = node->word_until_ns;
    if (node->reads.again_ns < until_ns) until_ns = node->reads.again_ns;
    if (node->again_ns < until_ns && !stop_is_told()) until_ns = node->again_ns;
    uint64_t other_ns = UINT64_MAX;
    if (node_is_leading(node)) other_ns = leader_half_timer(&node->leading.half);
    /* Only a follower sends questions. In other roles again_ns may lie in the past, and the thread would never sleep.
     */
    if (node->pair.role == PAIR_FOLLOWING) other_ns = node->following.half.again_ns;
    return other_ns < until_ns ? other_ns : until_ns;
}

static void turn(struct node *node, struct node_news *news) {
    if (news->kept) take_kept(node);
    if (news->changed) take_changed(node);
    if (news->again) node->again_ns = monotonic_ns() + AGAIN_NS;
    if (news->began) leader_began(node);
    if (node_is_leading(node)) leader_take(node, news);
    while (news->questions != NULL) {
        struct call *call = (struct call *)news->questions;
        news->questions = news->questions->next;
        leader_question(node, call);
    }
    leader_take_audits(node, news->audits);
    if (news->paused) take_paused(node, news->paused_at);
    while (news->words != NULL) {
        struct call *call = (struct call *)news->words;
        news->words = news->words->next;
        node_take_word(node, call);
    }
    if (news->answered) follower_answered(node, news->answer);
    if (news->probed != NULL) node_take_probed(node, news->probed);
    if (news->hung_up) tcp_check_start(node->tcp_check);
    if (news->refused) node_take_refused(node);
    if (news->leave) node->takes_no_wishes = true;
    if (news->leave) node_take_leave(node);
    node_take_wishes(node, news->wishes);
    check_timers(node);
    if (node_is_leading(node)) leader_go_on(node);
    node_declare(node);
    node_look_wishes(node);
    show(node);
}

static void *node_run(void *argument) {
    struct node *node = argument;
    struct pair_effects effects = {0};
    node_heard(node);
    struct pair_hard_state hard_state = hard_state_for_rules(&node->hard_state);
    pair_start(&node->pair, &hard_state, log_durable(node->log), &effects);
    for (size_t i = 0; i < effects.count; i++) perform(node, PAIR_LOOKING, &effects.items[i], NULL);
    for (;;) {
        struct node_news news;
        node_check_sleep(node); /* if the process was stopped during the last turn, restart the silence timeout */
        take_news(node, silence_plan(&node->silence, monotonic_ns(), next_timer(node)), &news);
        node_check_sleep(node);
        turn(node, &news);
        if (news.stop) break;
    }
    rpc_client_close(node->rpc_client);
    rpc_client_close(node->prober);
    tcp_check_close(node->tcp_check);
    leader_stop(node);
    node_refuse_wishes(node);
    node_drop_word(node, TARRY__CODE__STOPPING, NULL);
    /* A follower writes no frame of its own that could note the durable position, so log_mark writes the position to a
     * file. */
    int error = atomic_load(&node->writes) ? 0 : log_mark(node->log);
    if (error != 0) fatal("log_failed", error);
    return NULL;
}

/* ---- called by other threads */

/* Appends a call to one of the lists of new calls. */
static void post(struct node *node, struct item ***last, struct call *call) {
    call->engine_request.item.next = NULL;
    pthread_mutex_lock(&node->mutex);
    **last = &call->engine_request.item;
    *last = &call->engine_request.item.next;
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
}

void node_question(struct node *node, struct call *call) {
    post(node, &node->news.questions_last, call);
}

void node_hung_up(struct node *node) {
    pthread_mutex_lock(&node->mutex);
    node->news.hung_up = true;
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
}

void node_written(struct node *node, uint64_t position, size_t frames) {
    pthread_mutex_lock(&node->mutex);
    node->news.written = position;
    node->news.frames += frames;
    node->news.moved = true;
    if (node->peer.lacks_since_ns == 0) node->peer.lacks_since_ns = monotonic_ns();
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
}

void node_durable(struct node *node, uint64_t position, struct batch *batches) {
    struct batch *last = batches;
    while (last->next != NULL) last = last->next;
    pthread_mutex_lock(&node->mutex);
    node->news.durable = position;
    *node->news.batches_last = batches;
    node->news.batches_last = &last->next;
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
}

void node_began(struct node *node) {
    pthread_mutex_lock(&node->mutex);
    node->news.began = true;
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
}

void node_paused(struct node *node, uint64_t position) {
    pthread_mutex_lock(&node->mutex);
    node->news.paused = true;
    node->news.paused_at = position;
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
}

void node_confirm(struct node *node, struct call *call) {
    post(node, &node->news.audits_last, call);
}

void node_wish(struct node *node, struct call *call) {
    post(node, &node->news.wishes_last, call);
}

void node_word(struct node *node, struct call *call) {
    post(node, &node->news.words_last, call);
}

void node_start_again(struct node *node) {
    pthread_mutex_lock(&node->mutex);
    node->news.again = true;
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
}

static void on_changed(void *argument) {
    struct node *node = argument;
    pthread_mutex_lock(&node->mutex);
    node->news.changed = true;
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
}

static void on_answer(void *argument, struct message *answer) {
    struct node *node = argument;
    pthread_mutex_lock(&node->mutex);
    message_free(node->news.answer); /* the newer answer replaces the older one */
    node->news.answer = answer;
    node->news.answered = true;
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
}

static void on_probed(void *argument, struct message *answer) {
    struct node *node = argument;
    pthread_mutex_lock(&node->mutex);
    message_free(node->news.probed);
    node->news.probed = answer;
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
}

static void on_lost(void *argument) {
    const struct node *node = argument;
    tcp_check_start(node->tcp_check);
}

static void on_refused(void *argument) {
    struct node *node = argument;
    pthread_mutex_lock(&node->mutex);
    node->news.refused = true;
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
}

static void on_kept(void *argument) {
    struct node *node = argument;
    pthread_mutex_lock(&node->mutex);
    node->news.kept = true;
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
}

static void on_session(void *argument, const struct coordinator_session *session) {
    static const char *const states[] = {
        [COORDINATOR_CONNECTING] = "connecting",
        [COORDINATOR_CONNECTED] = "connected",
        [COORDINATOR_FORBIDDEN] = "forbidden",
    };
    static struct logfmt_repeat session_repeat; /* only the coordinator's thread calls this function */
    struct node *node = argument;
    pthread_mutex_lock(&node->mutex);
    node->session = *session;
    pthread_mutex_unlock(&node->mutex);
    if (session->message[0] == '\0')
        logfmt("coordinator", "state=%s", states[session->state]);
    else
        logfmt_repeated(&session_repeat, session->message, "coordinator", "state=%s", states[session->state]);
}

/* ---- starting and stopping */

/* Gives this run a number of its own, and stores it durably before the run takes part in the pair (R6). */
static void begin_hard_state(struct node *node) {
    const struct node_needs *needs = &node->needs;
    struct log_point last;
    int error = log_point(node->log, log_durable(node->log), &last);
    if (error != 0) fatal("log_unreadable", error);
    const struct hard_state_start start = {.is_new = node->is_new,
                                           .joins = needs->config->joins,
                                           .coordinated = needs->config->coordinator[0] != '\0',
                                           .last_epoch = last.epoch,
                                           .epoch_min = needs->dir->member.epoch_min};
    hard_state_begin(&node->hard_state, &start);
    error = hard_state_write(&disk_posix, needs->dir->path, &node->hard_state);
    if (error != 0) fatal("note_failed", error);
}

static void make_rules(struct node *node) {
    const struct config *config = node->needs.config;
    struct timespec now;
    struct log_point last;
    clock_gettime(CLOCK_REALTIME, &now);
    int error = log_point(node->log, log_durable(node->log), &last);
    if (error != 0) fatal("log_unreadable", error);
    node->pair = (struct pair){
        .self = node->hard_state.node,
        .other = (uint8_t)(1 - node->hard_state.node),
        .founds = node->hard_state.node == 0 && !config->joins,
        .may_lead_alone = config->solo_after_ms != SOLO_NEVER,
        .by_operator = config->coordinator[0] == '\0',
        .is_async = config->replication == REPLICATION_ASYNC,
        .run = node->hard_state.runs,
        /* The serial may repeat numbers of an earlier run. That is harmless: answers to the earlier questions came on
           connections that are closed. */
        .serial = (uint64_t)now.tv_sec,
        .committed = index_position(node->index), /* LOG-3: the index contains only committed records */
        .heard = last.epoch, /* epoch of the log's last frame; after a snapshot it may be higher than all epochs that
                                this node has promised */
    };
}

static void open_record_client(struct node *node) {
    const struct node_needs *needs = &node->needs;
    struct record_client *record_client = &node->record_client;
    char message[COORDINATOR_MESSAGE_SIZE], quoted[LOGFMT_VALUE_SIZE];
    record_client->done = on_kept;
    record_client->changed = on_changed;
    record_client->session_changed = on_session;
    record_client->argument = node;
    record_client->self = node->pair.self;
    record_client->presence_ms = node_presence_ms(needs->config);
    memcpy(record_client->cluster, needs->dir->cluster, CLUSTER_ID_SIZE);
    memcpy(record_client->member, needs->dir->member.id, MEMBER_ID_SIZE);
    const struct record_client_access where = node_access(needs->config);
    if (record_client_open(record_client, &where, message) != 0) node_refuse(message);
    const char *warning = coordinator_warning(record_client->coordinator);
    if (warning[0] != '\0') logfmt("coordinator", "warning=%s", logfmt_quote(warning, quoted));
}

void node_recovered(struct node *node, struct log *log, struct index *index) {
    node->log = log;
    node->index = index;
    if (!node->on) return;
    uint64_t position = index_position(index); /* LOG-3: the index contains only committed records */
    atomic_store(&node->committed, position);
    atomic_store(&node->may_index, position);
    atomic_store(&node->applied, position);
}

static void open_lines(struct node *node) {
    struct listen_address peer;
    const char *problem;
    bool is_right = listen_parse_peer(node->needs.config->peer, &peer, &problem);
    assert(is_right); /* node_check has already checked the address of --peer */
    int error = tcp_check_open(&node->tcp_check, &peer, on_refused, node);
    if (error == 0)
        error =
            rpc_client_open(&node->rpc_client, &peer, node->needs.credentials, FOLLOW_ANSWER_SIZE_MAX, on_answer, node);
    if (error == 0)
        error = rpc_client_open(&node->prober, &peer, node->needs.credentials, PEER_REFUSAL_SIZE_MAX, on_probed, node);
    if (error != 0) node_refuse(strerror(error));
    rpc_client_tell_lost(node->rpc_client, on_lost);
}

void node_start(struct node *node) {
    const struct node_needs *needs = &node->needs;
    begin_hard_state(node);
    make_rules(node);
    node->shown = node->pair; /* clients may ask for the status before the pair thread's first turn */
    snprintf(node->url, sizeof(node->url), "%s",
             needs->config->advertise[0] != '\0' ? needs->config->advertise : needs->run->url);
    node->again_ns = UINT64_MAX;
    atomic_store(&node->awaited, UINT64_MAX);
    record_reads_init(&node->reads);
    atomic_store(&node->role, PAIR_LOOKING);
    node->news.written = node->news.durable = log_durable(node->log);
    leader_init(node);
    follower_init(node);
    summons_init(&node->summons, node->pair.run);
    if (!node->pair.by_operator) open_record_client(node);
    open_lines(node);
    thread_start(&node->thread, "tarry-pair", node_run, node);
}

void node_settle(struct node *node, uint64_t wait_ms) {
    struct timespec until = monotonic_after(wait_ms * NS_PER_MS);
    int error = 0;
    pthread_mutex_lock(&node->mutex);
    while (!node->settled && error == 0) error = pthread_cond_timedwait(&node->settled_changed, &node->mutex, &until);
    pthread_mutex_unlock(&node->mutex);
}

void node_stop(struct node *node) {
    if (!node->on) return;
    pthread_mutex_lock(&node->mutex);
    node->news.stop = true;
    pthread_cond_signal(&node->changed);
    pthread_mutex_unlock(&node->mutex);
    pthread_join(node->thread, NULL);
    record_word_join(node);
    if (!node->pair.by_operator) record_client_close(&node->record_client);
}
