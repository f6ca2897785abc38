/* config_pair.c: checks the options of a pair together, and sets the missing ones. */
#include "config.h"

#include <stdio.h>
#include <string.h>

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

int config_resolve_pair(struct config *config, char message[CONFIG_MESSAGE_SIZE]) {
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
