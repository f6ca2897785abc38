/* config.c: see config.h. One table defines every option: its name, its type, its range, its help. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "origin.h"
#include "private_file.h"
#include "push_address.h"
#include "tarry.pb-c.h"
#include "units.h"

/* ---- TLS */

/* Checks the options of TLS together. An option without effect is refused, because the operator would
 * rely on it. */

static bool is_wss(const char *url) {
    return strncmp(url, "wss://", 6) == 0;
}

static bool is_over_tls(const char *url) {
    return is_wss(url) || strncmp(url, "tls+tcp://", 10) == 0 || strncmp(url, "amqps://", 8) == 0;
}

static bool listens_over_tls(const char *urls) {
    for (const char *url = urls + strspn(urls, " \t"); *url != '\0';) {
        if (is_over_tls(url)) return true;
        url += strcspn(url, " \t");
        url += strspn(url, " \t");
    }
    return false;
}

static const char *tls_option_given(const struct config *config) {
    if (config->tls_cert[0] != '\0') return "tls-cert";
    if (config->tls_key[0] != '\0') return "tls-key";
    if (config->tls_client_ca[0] != '\0') return "tls-client-ca";
    return config->tls_peer_ca[0] != '\0' ? "tls-peer-ca" : NULL;
}

bool config_uses_tls(const struct config *config) {
    return listens_over_tls(config->listen) || is_wss(config->peer) || is_wss(config->follow);
}

/* Checks the TLS options. Returns 0, or 1 with an error message. */
static int config_check_tls(const struct config *config, char message[CONFIG_MESSAGE_SIZE]) {
    bool listens = listens_over_tls(config->listen), has_certificate = config->tls_cert[0] != '\0';
    bool has_ca = config->tls_peer_ca[0] != '\0' || config->tls_client_ca[0] != '\0';
    if (has_certificate != (config->tls_key[0] != '\0'))
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "options tls-cert and tls-key need each other, but only one of them is given");
    else if (listens && !has_certificate)
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "option listen has an address at wss:// or tls+tcp://, which needs this broker's certificate: "
                 "--tls-cert FILE and --tls-key FILE");
    else if (tls_option_given(config) != NULL && !config_uses_tls(config))
        snprintf(message, CONFIG_MESSAGE_SIZE, "option %s needs TLS: give an address at wss:// with --listen",
                 tls_option_given(config));
    else if (config->tls_peer_ca[0] != '\0' && !is_wss(config->peer))
        snprintf(message, CONFIG_MESSAGE_SIZE, "option tls-peer-ca needs a peer at wss://: give it with --peer");
    else if (is_wss(config->peer) && !has_ca)
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "a peer at wss:// needs option tls-peer-ca, a file with the CA of the other node's certificate");
    else
        return 0;
    return 1;
}

/* ---- the options of a pair: checked together, and missing ones set */

/* Returns a pair option that was given without a pair. It must be refused, because the operator would rely on it. */
static const char *said_of_pair(const struct config *config) {
    bool has_mode = config->replication == REPLICATION_ASYNC || config->replication == REPLICATION_SYNC;
    if (config->coordinator[0] != '\0') return "coordinator";
    if (config->peer_key[0] != '\0') return "peer-key";
    if (config->peer_token_file[0] != '\0') return "peer-token-file";
    if (config->advertise[0] != '\0') return "advertise";
    if (has_mode) return "replication";
    if (config->solo_after_ms != SOLO_UNSAID) return "solo-after";
    return config->failover_after_ms != 0 ? "failover-after" : NULL;
}

/* Returns a coordinator option that was given without a coordinator; NULL: none. */
static const char *said_of_coordinator(const struct config *config) {
    if (config->coordinator[0] != '\0') return NULL;
    if (config->coordinator_credentials[0] != '\0') return "coordinator-credentials";
    if (config->coordinator_ca[0] != '\0') return "coordinator-ca";
    if (config->coordinator_certificate[0] != '\0') return "coordinator-certificate";
    return config->coordinator_key[0] != '\0' ? "coordinator-key" : NULL;
}

/* Sets the missing options of a pair. Returns 0, or 1 with an error message. */
static int config_resolve_pair(struct config *config, char message[CONFIG_MESSAGE_SIZE]) {
    config->joins = config->follow[0] != '\0';
    if (config->joins && config->peer[0] != '\0' && strcmp(config->follow, config->peer) != 0) {
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "options peer and follow give different addresses of the other node: %.100s, %.100s", config->peer,
                 config->follow);
        return 1;
    }
    if (config->joins) memcpy(config->peer, config->follow, sizeof(config->peer));
    bool is_pair = config->peer[0] != '\0';
    if (!is_pair && said_of_pair(config) != NULL) {
        snprintf(message, CONFIG_MESSAGE_SIZE, "option %s needs a pair: give the address of the other node with --peer",
                 said_of_pair(config));
        return 1;
    }
    if (said_of_coordinator(config) != NULL) {
        snprintf(message, CONFIG_MESSAGE_SIZE, "option %s needs a coordinator: give its address with --coordinator",
                 said_of_coordinator(config));
        return 1;
    }
    if (is_pair && config->inspect) {
        snprintf(message, CONFIG_MESSAGE_SIZE, "options inspect and peer exclude each other");
        return 1;
    }
    bool is_said = config->solo_after_ms != SOLO_UNSAID && config->solo_after_ms != SOLO_NEVER;
    if (is_pair && is_said && config->coordinator[0] == '\0') {
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "option solo-after must be never without a coordinator: the primary waits for a silent follower until "
                 "an operator runs 'tarry promote --peer-is-stopped'");
        return 1;
    }
    if (config->replication == REPLICATION_UNSAID) config->replication = REPLICATION_SYNC;
    if (!is_pair) config->replication = REPLICATION_NONE;
    if (config->replication != REPLICATION_NONE && config->peer_key[0] == '\0' && !config->print_config) {
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "a pair needs the option peer-key, a file with a secret with which its two nodes authenticate each "
                 "other: make it with 'tarry keygen --peer FILE', and copy it to both nodes");
        return 1;
    }
    if (config->failover_after_ms == 0) config->failover_after_ms = FAILOVER_AFTER_DEFAULT_MS;
    if (config->solo_after_ms == SOLO_UNSAID)
        config->solo_after_ms = config->coordinator[0] != '\0' ? SOLO_AFTER_DEFAULT_MS : SOLO_NEVER;
    return 0;
}

enum option_kind {
    OPTION_TEXT,
    OPTION_SIZE,
    OPTION_DURATION,
    OPTION_COUNT,
    OPTION_BOOL,
    OPTION_BACKOFF,
    OPTION_MODE,
    OPTION_SOLO,
    OPTION_LISTEN,  /* URLs; the option may be repeated. Values of the command line replace those of the file */
    OPTION_ORIGINS, /* list of origins; the option may be repeated */
    OPTION_NETWORKS /* list of networks; the option may be repeated */
};

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset; /* offset of the option's member in struct config */
    uint64_t least;
    uint64_t most;
    uint64_t preset;      /* default value, if the option is a number */
    const char *argument; /* name of the value in the help */
    const char *help;
    const char *words; /* default value shown in the help; NULL: the number `preset`; empty: no default */
    uint64_t flags;    /* COMMAND_LINE_ONLY, NO_BEHAVIOUR */
};

enum {
    COMMAND_LINE_ONLY = 1, /* not allowed in the file of --config */
    /* The option names a place (directory, address), or is for a single start, so config_print omits it. */
    NO_BEHAVIOUR = 2
};

#define FIELD(name) offsetof(struct config, name)
#define COUNT_MAX 1000000000ull
#define SIZE_LIMIT (1ull << 50)

static const struct option options[] = {
    {"data", OPTION_TEXT, FIELD(data), 1, 0, 0, "DIR", "data directory; created if missing (required)", "",
     NO_BEHAVIOUR},
    {"listen", OPTION_LISTEN, FIELD(listen), 1, 0, 0, "URL",
     "address to listen at: ws://HOST:PORT, wss://HOST:PORT, unix:///PATH, beanstalk://HOST:PORT, "
     "amqp://HOST:PORT, amqps://HOST:PORT, or for nng tcp://HOST:PORT, tls+tcp://HOST:PORT, ipc:///PATH; "
     "port 0 takes any free port; may be repeated",
     DEFAULT_URL, NO_BEHAVIOUR},
    {"tls-cert", OPTION_TEXT, FIELD(tls_cert), 1, 0, 0, "FILE", "certificate chain of this broker for wss://, PEM", "",
     NO_BEHAVIOUR},
    {"tls-key", OPTION_TEXT, FIELD(tls_key), 1, 0, 0, "FILE", "private key of --tls-cert, PEM", "", NO_BEHAVIOUR},
    {"tls-client-ca", OPTION_TEXT, FIELD(tls_client_ca), 1, 0, 0, "FILE",
     "clients at wss:// must show a certificate signed by one of these CAs, PEM", "clients need none", NO_BEHAVIOUR},
    {"tls-peer-ca", OPTION_TEXT, FIELD(tls_peer_ca), 1, 0, 0, "FILE",
     "the peer at wss:// must show a certificate signed by one of these CAs, PEM", "--tls-client-ca", NO_BEHAVIOUR},
    {"config", OPTION_TEXT, FIELD(file), 1, 0, 0, "FILE",
     "read options from this INI file; options on the command line take precedence", "",
     COMMAND_LINE_ONLY | NO_BEHAVIOUR},
    {"memory", OPTION_SIZE, FIELD(memory), MEMORY_MIN, SIZE_LIMIT, MEMORY_DEFAULT, "SIZE", "memory budget", NULL, 0},
    {"unsafe-no-tls", OPTION_BOOL, FIELD(unsafe_no_tls), 0, 1, false, "BOOL",
     "allow ws:// on addresses other than loopback: anybody on the network path can read tokens and tasks", NULL, 0},
    {"tokens", OPTION_TEXT, FIELD(tokens), 1, 0, 0, "FILE",
     "file of tokens: which clients may use the broker, and for what (tarry token)", "DIR/tokens of --data",
     NO_BEHAVIOUR},
    {"unsafe-no-tokens", OPTION_BOOL, FIELD(unsafe_no_tokens), 0, 1, false, "BOOL",
     "clients on the network without a token may produce, consume, read and operate", NULL, 0},
    {"allow-origin", OPTION_ORIGINS, FIELD(allow_origin), 1, 0, 0, "ORIGIN",
     "web pages of this origin (https://example.org) may use the broker; may be repeated", "no origin", 0},
    {"push-secrets", OPTION_TEXT, FIELD(push_secrets), 1, 0, 0, "FILE",
     "file of the secrets that sign webhooks, lines QUEUE whsec_NEW [whsec_OLD]; a queue without a line is not pushed",
     "none", NO_BEHAVIOUR},
    {"push-allow", OPTION_NETWORKS, FIELD(push_allow), 1, 0, 0, "CIDR",
     "webhooks may go to this private network (10.1.0.0/16, ::1); may be repeated", "none", 0},
    {"push-ca", OPTION_TEXT, FIELD(push_ca), 1, 0, 0, "FILE",
     "CAs that signed the certificates of webhook targets, PEM", "the system's CAs", NO_BEHAVIOUR},
    {"push-requests", OPTION_COUNT, FIELD(push_requests), 1, PUSH_REQUESTS_MAX, PUSH_REQUESTS_DEFAULT, "N",
     "webhook requests under way at the same time", NULL, 0},
    {"push-host-requests", OPTION_COUNT, FIELD(push_host_requests), 1, PUSH_REQUESTS_MAX, PUSH_HOST_REQUESTS_DEFAULT,
     "N", "webhook requests under way to one host (scheme, name and port)", NULL, 0},
    {"push-queue-requests", OPTION_COUNT, FIELD(push_queue_requests), 1, PUSH_REQUESTS_MAX, PUSH_QUEUE_REQUESTS_DEFAULT,
     "N", "webhook requests under way for one queue", NULL, 0},
    {"push-timeout", OPTION_DURATION, FIELD(push_timeout_ms), PUSH_TIME_MIN_MS, PUSH_TIME_MAX_MS, PUSH_TIME_DEFAULT_MS,
     "DURATION", "timeout of a webhook request; at most four fifths of the queue's lease", NULL, 0},
    {"push-connect-timeout", OPTION_DURATION, FIELD(push_connect_timeout_ms), PUSH_TIME_MIN_MS, PUSH_TIME_MAX_MS,
     PUSH_CONNECT_DEFAULT_MS, "DURATION", "timeout of a webhook request's connection attempt", NULL, 0},
    {"push-rest", OPTION_DURATION, FIELD(push_rest_ms), PUSH_TIME_MIN_MS, PUSH_TIME_MAX_MS, PUSH_REST_DEFAULT_MS,
     "DURATION", "webhooks: a target that fails again and again is left alone for so long at most", NULL, 0},
    {"accept-clock-jump", OPTION_BOOL, FIELD(accept_clock_jump), 0, 1, false, "BOOL",
     "at this start, believe a wall clock that is more than 30 days ahead of the log", NULL, NO_BEHAVIOUR},
    {"inspect", OPTION_BOOL, FIELD(inspect), 0, 1, false, "BOOL",
     "read-only: answer questions about the directory; deliver nothing, change nothing, keep the clock stopped", NULL,
     NO_BEHAVIOUR},
    {"create-queues", OPTION_BOOL, FIELD(create_queues), 0, 1, true, "BOOL", "create a queue when it is first used",
     NULL, 0},
    {"payload-max", OPTION_SIZE, FIELD(payload_max), 1, PAYLOAD_SIZE_MAX_LIMIT, PAYLOAD_SIZE_MAX_DEFAULT, "SIZE",
     "largest payload of a task", NULL, 0},
    {"outcome-retention", OPTION_DURATION, FIELD(outcome_retention_ms), 0, DUE_AHEAD_MAX_MS,
     OUTCOME_RETENTION_DEFAULT_MS, "DURATION", "how long the broker remembers how a task ended", NULL, 0},
    {"outcomes-max", OPTION_COUNT, FIELD(outcomes_max), 1, 100000000, OUTCOMES_MAX_DEFAULT, "N",
     "how many ended tasks the broker remembers", NULL, 0},
    {"retain-log-age", OPTION_DURATION, FIELD(retain_log_age_ms), 0, DUE_AHEAD_MAX_MS, RETAIN_LOG_AGE_DEFAULT_MS,
     "DURATION", "retire log segments older than this", NULL, 0},
    {"retain-log-size", OPTION_SIZE, FIELD(retain_log_size), 0, SIZE_LIMIT, RETAIN_LOG_SIZE_DEFAULT, "SIZE",
     "retire the oldest log segments while the log is larger than this", NULL, 0},
    {"sign-key", OPTION_TEXT, FIELD(sign_key), 1, 0, 0, "FILE",
     "sign heads of the log with this secret key (tarry keygen); tarry verify --key checks the signatures", "", 0},
    {"archiving", OPTION_BOOL, FIELD(archiving), 0, 1, true, "BOOL", "archive log segments before they are retired",
     NULL, 0},
    {"archive", OPTION_TEXT, FIELD(archive), 1, 0, 0, "DIR", "directory of the archive; must exist",
     "DIR/archive of --data", 0},
    {"archive-level", OPTION_COUNT, FIELD(archive_level), 1, 19, ARCHIVE_LEVEL_DEFAULT, "N",
     "zstd compression level of the archive, 1 to 19", NULL, 0},
    {"retain-archive-age", OPTION_DURATION, FIELD(retain_archive_age_ms), 0, DUE_AHEAD_MAX_MS,
     RETAIN_ARCHIVE_AGE_DEFAULT_MS, "DURATION", "delete archived segments older than this; 0: never", NULL, 0},
    {"retain-archive-size", OPTION_SIZE, FIELD(retain_archive_size), 0, SIZE_LIMIT, RETAIN_ARCHIVE_SIZE_DEFAULT, "SIZE",
     "delete the oldest archived segments while the archive is larger than this; 0: never", NULL, 0},
    {"segment-size", OPTION_SIZE, FIELD(segment_size), SEGMENT_SIZE_MIN, SEGMENT_SIZE_MAX, SEGMENT_SIZE_DEFAULT, "SIZE",
     "size of a log segment", NULL, 0},
    {"peer", OPTION_TEXT, FIELD(peer), 1, 0, 0, "URL",
     "address of the other node of the pair, such as ws://10.0.0.2:7272", "none", NO_BEHAVIOUR},
    {"follow", OPTION_TEXT, FIELD(follow), 1, 0, 0, "URL",
     "like --peer; a new data directory joins the cluster of that node", "", NO_BEHAVIOUR},
    {"advertise", OPTION_TEXT, FIELD(advertise), 1, 0, 0, "URL",
     "address at which the peer and the clients reach this node", "--listen", NO_BEHAVIOUR},
    {"peer-token-file", OPTION_TEXT, FIELD(peer_token_file), 1, 0, 0, "FILE",
     "file with a token of role peer; this node shows it to the other node", "", NO_BEHAVIOUR},
    {"peer-key", OPTION_TEXT, FIELD(peer_key), 1, 0, 0, "FILE",
     "file with a secret that only the two nodes of the pair share (tarry keygen --peer); a pair needs it", "",
     NO_BEHAVIOUR},
    {"coordinator", OPTION_TEXT, FIELD(coordinator), 1, 0, 0, "URL",
     "service that keeps the pair's record: etcd://HOST:PORT,…/PATH (etcds:// with TLS), zk://… or file:///PATH",
     "none: an operator decides", NO_BEHAVIOUR},
    {"coordinator-credentials", OPTION_TEXT, FIELD(coordinator_credentials), 1, 0, 0, "FILE",
     "file with user:password for etcd or ZooKeeper; only this pair can then change its record", "none: everybody can",
     0},
    {"coordinator-ca", OPTION_TEXT, FIELD(coordinator_ca), 1, 0, 0, "FILE",
     "etcds://: CAs that signed the certificates of the etcd servers, PEM", "the system's CAs", 0},
    {"coordinator-certificate", OPTION_TEXT, FIELD(coordinator_certificate), 1, 0, 0, "FILE",
     "etcds://: certificate of this node for servers that ask for one, PEM", "none", 0},
    {"coordinator-key", OPTION_TEXT, FIELD(coordinator_key), 1, 0, 0, "FILE",
     "private key of --coordinator-certificate, PEM", "", 0},
    {"replication", OPTION_MODE, FIELD(replication), REPLICATION_NONE, REPLICATION_SYNC, REPLICATION_UNSAID, "MODE",
     "none, async, or sync; with sync an acknowledged change is durable on the follower too", "sync with a peer", 0},
    {"solo-after", OPTION_SOLO, FIELD(solo_after_ms), 100, DUE_AHEAD_MAX_MS, SOLO_UNSAID, "DURATION",
     "how long the leader waits for a silent follower before it continues alone; never: it waits",
     "1500ms with a coordinator", 0},
    {"failover-after", OPTION_DURATION, FIELD(failover_after_ms), 100, DUE_AHEAD_MAX_MS, 0, "DURATION",
     "how long a leader must be silent before the follower takes over, if the coordinator agrees", "750ms", 0},
    {"index-lag-max", OPTION_COUNT, FIELD(index_lag_max), 0, COUNT_MAX, 0, "N",
     "records that the index may lag behind the log before new tasks are refused as busy; 0: from --memory", NULL, 0},
    {"index-lag-hard", OPTION_COUNT, FIELD(index_lag_hard), 0, COUNT_MAX, 0, "N",
     "records that the index may lag before moves, cancels and new leases are refused too; 0: 1.5 x index-lag-max",
     NULL, 0},
#define POLICY_NUMBER(field, word, option, kind, least, most, range, preset, argument, help)                           \
    {option, OPTION_##kind, FIELD(field), least, most, preset, argument, "new queues: " help, NULL, 0},
#define POLICY_LIMIT(field, ...)
#define POLICY_TEXT(field, ...)
#include "policy.def"
    {"help", OPTION_BOOL, FIELD(help), 0, 1, false, "", "print this text and exit", "",
     COMMAND_LINE_ONLY | NO_BEHAVIOUR},
    {"version", OPTION_BOOL, FIELD(version), 0, 1, false, "", "print the version and exit", "",
     COMMAND_LINE_ONLY | NO_BEHAVIOUR},
    {"print-config", OPTION_BOOL, FIELD(print_config), 0, 1, false, "",
     "print the options in force and exit; the log records the BLAKE2b-256 of that text as config_digest at each start",
     "", COMMAND_LINE_ONLY | NO_BEHAVIOUR},
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))

static bool is_text(const struct option *option) {
    return option->kind == OPTION_TEXT || option->kind == OPTION_LISTEN || option->kind == OPTION_ORIGINS ||
           option->kind == OPTION_NETWORKS;
}

static void number_set(struct config *config, const struct option *option, uint64_t number) {
    void *field = (char *)config + option->offset;
    if (option->kind == OPTION_BOOL)
        *(bool *)field = number != 0;
    else
        memcpy(field, &number, sizeof(number));
}

void config_defaults(struct config *config) {
    *config = (struct config){.listen = DEFAULT_URL};
    for (size_t i = 0; i < OPTIONS; i++)
        if (!is_text(&options[i])) number_set(config, &options[i], options[i].preset);
}

static const struct option *option_find(const char *name, size_t size) {
    for (size_t i = 0; i < OPTIONS; i++) {
        if (strlen(options[i].name) != size) continue;
        size_t at = 0;
        /* An underscore counts as a hyphen: retain_log_age is retain-log-age. */
        while (at < size && options[i].name[at] == (name[at] == '_' ? '-' : name[at])) at++;
        if (at == size) return &options[i];
    }
    return NULL;
}

static bool bool_parse(const char *text, bool *out) {
    static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false", "off", "0"};
    for (size_t i = 0; i < 4; i++) {
        if (strcmp(text, yes[i]) != 0 && strcmp(text, no[i]) != 0) continue;
        *out = strcmp(text, yes[i]) == 0;
        return true;
    }
    return false;
}

static bool count_parse(const char *text, uint64_t *out) {
    char *end;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0') return false;
    *out = value;
    return true;
}

static const char *const backoffs[] = {
    [TARRY__POLICY__BACKOFF__FIXED] = "fixed", [TARRY__POLICY__BACKOFF__EXPONENTIAL] = "exponential"};
static const char *const modes[] = {
    [REPLICATION_NONE] = "none", [REPLICATION_ASYNC] = "async", [REPLICATION_SYNC] = "sync"};
#define WORDS(words) (words), sizeof(words) / sizeof((words)[0])

/* Sets `*out` to the index of the word. Returns false if the text is none of the words. */
static bool word_parse(const char *text, const char *const *words, size_t count, uint64_t *out) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, words[i]) != 0) continue;
        *out = i;
        return true;
    }
    return false;
}

static const char *const wants[] = {
    [OPTION_TEXT] = "a text",
    [OPTION_SIZE] = "a size such as 64MiB",
    [OPTION_DURATION] = "a duration such as 1h30m",
    [OPTION_COUNT] = "a whole number",
    [OPTION_BOOL] = "yes or no",
    [OPTION_BACKOFF] = "fixed or exponential",
    [OPTION_MODE] = "none, async or sync",
    [OPTION_SOLO] = "a duration such as 5s, or never",
    [OPTION_LISTEN] = "an address such as ws://127.0.0.1:7272",
    [OPTION_ORIGINS] = "an origin such as https://example.org, without a path",
    [OPTION_NETWORKS] = "a network such as 10.1.0.0/16, without bits behind its prefix",
};

static const char *number_format(const struct option *option, uint64_t number, char out[UNITS_TEXT_SIZE]) {
    static const char *const bools[] = {"no", "yes"};
    if (option->kind == OPTION_BOOL) return bools[number];
    if (option->kind == OPTION_BACKOFF) return backoffs[number];
    if (option->kind == OPTION_SIZE)
        size_format(number, out);
    else if (option->kind == OPTION_DURATION || option->kind == OPTION_SOLO)
        duration_format(number, out);
    else
        snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64, number);
    return out;
}

static int text_set(const struct option *option, char *field, const char *value, char message[CONFIG_MESSAGE_SIZE]) {
    if (value[0] == '\0' || strlen(value) >= CONFIG_TEXT_SIZE) {
        snprintf(message, CONFIG_MESSAGE_SIZE, "option %s takes 1 to %d bytes of text", option->name,
                 CONFIG_TEXT_SIZE - 1);
        return 1;
    }
    memcpy(field, value, strlen(value) + 1);
    return 0;
}

/* Appends a value to the list. */
static int list_add(const struct option *option, char *field, const char *value, char message[CONFIG_MESSAGE_SIZE]) {
    size_t used = strlen(field), size = strlen(value);
    struct push_network network;
    bool is_valid = value[0] != '\0';
    if (option->kind == OPTION_ORIGINS) is_valid = origin_is_valid(value);
    if (option->kind == OPTION_NETWORKS) is_valid = push_network_parse(value, size, &network);
    if (!is_valid) {
        snprintf(message, CONFIG_MESSAGE_SIZE, "option %s takes %s, not \"%.100s\"", option->name, wants[option->kind],
                 value);
        return 1;
    }
    if (used + 1 + size >= CONFIG_TEXT_SIZE) {
        snprintf(message, CONFIG_MESSAGE_SIZE, "option %s: its values are together longer than %d bytes", option->name,
                 CONFIG_TEXT_SIZE - 1);
        return 1;
    }
    if (used > 0) field[used++] = ' ';
    memcpy(field + used, value, size + 1);
    return 0;
}

static int option_set(struct config *config, const struct option *option, const char *value,
                      char message[CONFIG_MESSAGE_SIZE]) {
    void *field = (char *)config + option->offset;
    if (option->kind == OPTION_TEXT) return text_set(option, field, value, message);
    if (option->kind == OPTION_LISTEN && !config->listens)
        config->listen[0] = '\0'; /* the first given value replaces the default */
    if (option->kind == OPTION_LISTEN) config->listens = true;
    if (option->kind == OPTION_LISTEN || option->kind == OPTION_ORIGINS || option->kind == OPTION_NETWORKS)
        return list_add(option, field, value, message);
    if (option->kind == OPTION_SOLO && strcmp(value, "never") == 0) {
        config->solo_after_ms = SOLO_NEVER;
        return 0;
    }
    bool fine = false;
    uint64_t number = 0;
    if (option->kind == OPTION_BOOL) fine = bool_parse(value, field);
    if (option->kind == OPTION_SIZE) fine = size_parse(value, &number);
    if (option->kind == OPTION_DURATION || option->kind == OPTION_SOLO) fine = duration_parse(value, &number);
    if (option->kind == OPTION_COUNT) fine = count_parse(value, &number);
    if (option->kind == OPTION_BACKOFF) fine = word_parse(value, WORDS(backoffs), &number);
    if (option->kind == OPTION_MODE) fine = word_parse(value, WORDS(modes), &number);
    if (!fine) {
        snprintf(message, CONFIG_MESSAGE_SIZE, "option %s takes %s, not \"%.100s\"", option->name, wants[option->kind],
                 value);
        return 1;
    }
    if (option->kind == OPTION_BOOL) return 0;
    if (number < option->least || number > option->most) {
        char range[2][UNITS_TEXT_SIZE];
        snprintf(message, CONFIG_MESSAGE_SIZE, "option %s must be between %s and %s, not \"%.100s\"", option->name,
                 number_format(option, option->least, range[0]), number_format(option, option->most, range[1]), value);
        return 1;
    }
    memcpy(field, &number, sizeof(number));
    return 0;
}

static_assert(CONFIG_FILE_MAX == 1048576, "the message below states this limit");

struct ini_load {
    struct config *config;
    const char *path;
    char *message;        /* buffer of CONFIG_MESSAGE_SIZE bytes for the error in the first wrong line */
    const char *at, *end; /* the unread text */
    int number;           /* number of the last line that was read, from 1 */
};

/* Reads one line for inih into `out`, which has `room` bytes. A longer line must not be passed in parts, because inih
 * treats each part as a line. The end of a long comment would then be read as an option. */
static char *ini_line(char *out, int room, void *stream) {
    struct ini_load *load = stream;
    if (load->message[0] != '\0' || load->at == load->end) return NULL;
    const char *line = load->at, *line_end = memchr(line, '\n', (size_t)(load->end - line));
    load->at = line_end != NULL ? line_end + 1 : load->end;
    size_t size = (size_t)(load->at - line), blanks = 0;
    while (blanks < size && (line[blanks] == ' ' || line[blanks] == '\t')) blanks++;
    bool is_comment = blanks < size && (line[blanks] == ';' || line[blanks] == '#');
    load->number++;
    if (memchr(line, '\0', size) != NULL) {
        snprintf(load->message, CONFIG_MESSAGE_SIZE, "configuration file %.200s, line %d contains a 0 byte", load->path,
                 load->number);
    } else if (size < (size_t)room) {
        memcpy(out, line, size);
        out[size] = '\0';
        return out;
    } else if (is_comment) {
        return memcpy(out, ";", 2);
    } else {
        snprintf(load->message, CONFIG_MESSAGE_SIZE, "configuration file %.200s, line %d is longer than %d bytes",
                 load->path, load->number, room - 2);
    }
    return NULL;
}

static int ini_option(void *user, const char *section, const char *name, const char *value) {
    struct ini_load *load = user;
    if (load->message[0] != '\0') return 0;
    if (section[0] != '\0' && strcmp(section, "tarryd") != 0) {
        snprintf(load->message, CONFIG_MESSAGE_SIZE,
                 "configuration file %.200s has an unknown section [%.100s]; put the options into the section "
                 "[tarryd], or into none",
                 load->path, section);
        return 0;
    }
    const struct option *option = option_find(name, strlen(name));
    if (option == NULL || (option->flags & COMMAND_LINE_ONLY) != 0) {
        snprintf(load->message, CONFIG_MESSAGE_SIZE, "configuration file %.200s has an unknown option \"%.100s\"",
                 load->path, name);
        return 0;
    }
    return option_set(load->config, option, value == NULL ? "" : value, load->message) == 0;
}

/* Reads the whole file, at most CONFIG_FILE_MAX bytes, because the file may be a FIFO, /dev/stdin, or /dev/zero, which
 * never ends. Returns its text, or NULL with an error message. */
static char *file_read(const char *path, size_t *out_size, char message[CONFIG_MESSAGE_SIZE]) {
    FILE *file = fopen(path, "re");
    char *text = file != NULL ? malloc(CONFIG_FILE_MAX + 1) : NULL;
    int error = text == NULL ? errno : 0;
    if (text != NULL) *out_size = fread(text, 1, CONFIG_FILE_MAX + 1, file);
    if (text != NULL && ferror(file)) error = errno;
    if (file != NULL) fclose(file);
    bool is_large = error == 0 && *out_size > CONFIG_FILE_MAX;
    if (error == EISDIR)
        snprintf(message, CONFIG_MESSAGE_SIZE, "configuration file %.200s is a directory", path);
    else if (error != 0)
        snprintf(message, CONFIG_MESSAGE_SIZE, "configuration file %.200s cannot be read: %s", path, strerror(error));
    else if (is_large)
        snprintf(message, CONFIG_MESSAGE_SIZE, "configuration file %.200s is larger than 1 MiB", path);
    if (error == 0 && !is_large) return text;
    free(text);
    return NULL;
}

int config_read(struct config *config, const char *path, char message[CONFIG_MESSAGE_SIZE]) {
    size_t size = 0;
    message[0] = '\0';
    char *text = file_read(path, &size, message);
    if (text == NULL) return 1;
    struct ini_load load = {.config = config, .path = path, .message = message, .at = text, .end = text + size};
    int result = ini_parse_stream(ini_line, &load, ini_option, &load);
    free(text);
    if (result == 0 && message[0] == '\0') return 0;
    if (result < 0 && message[0] == '\0')
        snprintf(message, CONFIG_MESSAGE_SIZE, "configuration file %.200s cannot be read: %s", path, strerror(ENOMEM));
    else if (message[0] == '\0')
        snprintf(message, CONFIG_MESSAGE_SIZE, "configuration file %.200s, line %d is not `name = value`", path,
                 result);
    return 1;
}

/* Reads one option of the command line, and moves *at behind the option and its value. */
static int argument_take(struct config *config, int argc, char **argv, int *at, char message[CONFIG_MESSAGE_SIZE]) {
    const char *argument = argv[(*at)++];
    if (strncmp(argument, "--", 2) != 0 || argument[2] == '\0') {
        snprintf(message, CONFIG_MESSAGE_SIZE, "unknown argument \"%.100s\"; options start with two dashes", argument);
        return 1;
    }
    const char *name = argument + 2;
    const char *value = strchr(name, '=');
    size_t size = value != NULL ? (size_t)(value - name) : strlen(name);
    const struct option *option = option_find(name, size);
    if (option == NULL) {
        snprintf(message, CONFIG_MESSAGE_SIZE, "unknown option \"--%.*s\"; `tarryd --help` lists them all",
                 size < 100 ? (int)size : 100, name);
        return 1;
    }
    bool more = *at < argc && strncmp(argv[*at], "--", 2) != 0;
    if (value != NULL) {
        value++;
    } else if (option->kind == OPTION_BOOL) {
        bool known;
        value = more && bool_parse(argv[*at], &known) ? argv[(*at)++] : "yes";
    } else if (more) {
        value = argv[(*at)++];
    } else {
        snprintf(message, CONFIG_MESSAGE_SIZE, "option --%s needs a value: %s", option->name, wants[option->kind]);
        return 1;
    }
    return option_set(config, option, value, message);
}

static int arguments_take(struct config *config, int argc, char **argv, char message[CONFIG_MESSAGE_SIZE]) {
    for (int at = 1; at < argc;)
        if (argument_take(config, argc, argv, &at, message) != 0) return 1;
    return 0;
}

/* Uses a credential of the systemd unit for an option that names a secret file, unless the option is given. The
 * credential has the option's name. */
static void credentials_take(struct config *config) {
    bool is_coordinated = config->coordinator[0] != '\0';
    bool is_over_tls = config_uses_tls(config), is_pair = config->peer[0] != '\0' || config->follow[0] != '\0';
    const struct {
        const char *name;
        char *path; /* CONFIG_TEXT_SIZE bytes */
        bool is_wanted;
    } files[] = {{"sign-key", config->sign_key, true},
                 {"tokens", config->tokens, true},
                 {"push-secrets", config->push_secrets, true},
                 {"push-ca", config->push_ca, true},
                 {"tls-cert", config->tls_cert, is_over_tls},
                 {"tls-key", config->tls_key, is_over_tls},
                 {"tls-client-ca", config->tls_client_ca, is_over_tls},
                 {"tls-peer-ca", config->tls_peer_ca, is_over_tls && is_pair},
                 {"peer-key", config->peer_key, is_pair},
                 {"peer-token-file", config->peer_token_file, is_pair},
                 {"coordinator-credentials", config->coordinator_credentials, is_coordinated},
                 {"coordinator-ca", config->coordinator_ca, is_coordinated},
                 {"coordinator-certificate", config->coordinator_certificate, is_coordinated},
                 {"coordinator-key", config->coordinator_key, is_coordinated}};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (files[i].is_wanted && files[i].path[0] == '\0')
            (void)credential_find(files[i].name, files[i].path, CONFIG_TEXT_SIZE);
}

int config_load(struct config *config, int argc, char **argv, char message[CONFIG_MESSAGE_SIZE]) {
    config_defaults(config);
    /* The first pass over the command line finds --config. The second pass follows after the file is read, because the
     * command line has priority over the file. */
    if (arguments_take(config, argc, argv, message) != 0) return 1;
    if (config->help || config->version) return 0;
    bool is_printed = config->print_config;
    if (config->file[0] != '\0') {
        char file[CONFIG_TEXT_SIZE];
        memcpy(file, config->file, sizeof(file));
        bool listens = config->listens;
        config_defaults(config);
        if (config_read(config, file, message) != 0) return 1;
        config->listens = config->listens && !listens; /* the command line's values replace the file's */
        if (arguments_take(config, argc, argv, message) != 0) return 1;
    }
    if (config->data[0] == '\0' && !is_printed) {
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "option --data DIR is missing: it names the directory where the broker stores its tasks");
        return 1;
    }
    credentials_take(config);
    if (config_resolve_pair(config, message) != 0 || config_check_tls(config, message) != 0) return 1;
    if (config->backoff_min_ms > config->backoff_max_ms) {
        snprintf(message, CONFIG_MESSAGE_SIZE, "option backoff-min is larger than backoff-max");
        return 1;
    }
    return 0;
}

void config_help(FILE *out) {
    fprintf(out, "Usage: tarryd --data DIR [OPTION]...\n\n"
                 "Tarry, a durable delay broker: holds tasks until they are due, and delivers them.\n\n");
    for (size_t i = 0; i < OPTIONS; i++) {
        char left[64];
        snprintf(left, sizeof(left), "--%s%s%s", options[i].name, options[i].argument[0] == '\0' ? "" : " ",
                 options[i].argument);
        char text[UNITS_TEXT_SIZE];
        const char *words = options[i].words;
        if (words == NULL) words = number_format(&options[i], options[i].preset, text);
        fprintf(out, "  %-30s %s", left, options[i].help);
        fprintf(out, words[0] != '\0' ? " [%s]\n" : "\n", words);
    }
    fprintf(
        out,
        "\nSizes are written 4096, 64KiB, 256MiB, 1GiB; durations 250ms, 30s, 30m, 1h30m, 2d.\n"
        "The file of --config holds the same options, one `name = value` a line.\n\n"
        "Examples:\n"
        "  tarryd --data /var/lib/tarry/main\n"
        "  tarryd --data ./data --listen ws://127.0.0.1:0 --memory 1GiB\n"
        "  tarryd --config /etc/tarry.ini\n"
        "  tarryd --data ./a --listen ws://127.0.0.1:7273 --peer ws://127.0.0.1:7274 --peer-key pair.key\n"
        "  tarryd --data ./b --listen ws://127.0.0.1:7274 --follow ws://127.0.0.1:7273 --peer-key pair.key\n\n"
        "Exit status: 0 stopped as asked; 1 startup or runtime error, or the other node of the pair refused this one;\n"
        "2 wrong usage; 4 the disk failed.\n");
}

void config_print(const struct config *config, FILE *out) {
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct option *option = &options[i];
        const void *field = (const char *)config + option->offset;
        uint64_t number = 0;
        if ((option->flags & NO_BEHAVIOUR) != 0) continue;
        if (option->kind == OPTION_BOOL)
            number = *(const bool *)field;
        else if (!is_text(option))
            memcpy(&number, field, sizeof(number));
        if (is_text(option))
            fprintf(out, "%s=%s\n", option->name, (const char *)field);
        else
            fprintf(out, "%s=%" PRIu64 "\n", option->name, number);
    }
}

bool config_digest(const struct config *config, uint8_t out[CONFIG_DIGEST_SIZE]) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) return false;
    config_print(config, stream);
    bool is_whole = ferror(stream) == 0;
    is_whole = fclose(stream) == 0 && is_whole; /* fclose completes `text` and `size` */
    if (is_whole) crypto_generichash(out, CONFIG_DIGEST_SIZE, (const uint8_t *)text, size, NULL, 0);
    free(text);
    return is_whole;
}
