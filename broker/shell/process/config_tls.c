/* config_tls.c: checks the options of TLS together. An option without effect is refused, because the operator would
 * rely on it. */
#include "config.h"

#include <string.h>

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

static const char *said(const struct config *config) {
    if (config->tls_cert[0] != '\0') return "tls-cert";
    if (config->tls_key[0] != '\0') return "tls-key";
    if (config->tls_client_ca[0] != '\0') return "tls-client-ca";
    return config->tls_peer_ca[0] != '\0' ? "tls-peer-ca" : NULL;
}

bool config_uses_tls(const struct config *config) {
    return listens_over_tls(config->listen) || is_wss(config->peer) || is_wss(config->follow);
}

int config_check_tls(const struct config *config, char message[CONFIG_MESSAGE_SIZE]) {
    bool listens = listens_over_tls(config->listen), has_certificate = config->tls_cert[0] != '\0';
    bool has_ca = config->tls_peer_ca[0] != '\0' || config->tls_client_ca[0] != '\0';
    if (has_certificate != (config->tls_key[0] != '\0'))
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "options tls-cert and tls-key need each other, but only one of them is given");
    else if (listens && !has_certificate)
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "option listen has an address at wss:// or tls+tcp://, which needs this broker's certificate: "
                 "--tls-cert FILE and --tls-key FILE");
    else if (said(config) != NULL && !config_uses_tls(config))
        snprintf(message, CONFIG_MESSAGE_SIZE, "option %s needs TLS: give an address at wss:// with --listen",
                 said(config));
    else if (config->tls_peer_ca[0] != '\0' && !is_wss(config->peer))
        snprintf(message, CONFIG_MESSAGE_SIZE, "option tls-peer-ca needs a peer at wss://: give it with --peer");
    else if (is_wss(config->peer) && !has_ca)
        snprintf(message, CONFIG_MESSAGE_SIZE,
                 "a peer at wss:// needs option tls-peer-ca, a file with the CA of the other node's certificate");
    else
        return 0;
    return 1;
}
