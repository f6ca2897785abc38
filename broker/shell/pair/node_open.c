/* node_open.c: checks the options of a pair, joins its cluster and opens the node; see node.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blocking_rpc.h"
#include "config.h"
#include "datadir.h"
#include "endpoints.h"
#include "fatal.h"
#include "listen.h"
#include "logfmt.h"
#include "node.h"
#include "snapshot.h"
#include "snapshot_mark.h"
#include "wire.h"

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

/* ---- joining */

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

/* ---- opening */

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
