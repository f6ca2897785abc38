/* etcd_gateway.c: see etcd_gateway.h. */
#include "etcd_gateway.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Keepalive interval in s: an open connection to a host that does not answer ends after about this time, too. */
#define KEEPALIVE_S 1
#define KEEPALIVE_COUNT 3
#define URL_SIZE (COORDINATOR_URL_SIZE_MAX + 64)
#define HEADER_SIZE (ETCD_TOKEN_SIZE_MAX + 32)

int gateway_open(struct gateway *gateway, char message[COORDINATOR_MESSAGE_SIZE]) {
    const char *why = libcurl_load();
    if (why != NULL) {
        snprintf(message, COORDINATOR_MESSAGE_SIZE, "coordinator: etcd needs libcurl: %s; apt-get install libcurl4",
                 why);
        return 1;
    }
    gateway->multi = curl.multi_init();
    if (gateway->multi != NULL) return 0;
    snprintf(message, COORDINATOR_MESSAGE_SIZE, "coordinator: out of memory for libcurl");
    return 1;
}

void gateway_close(struct gateway *gateway) {
    if (gateway->multi != NULL) curl.multi_cleanup(gateway->multi);
    gateway->multi = NULL;
}

void gateway_wait(struct gateway *gateway, int wake, int wait_ms) {
    struct curl_waitfd extra = {.fd = wake, .events = CURL_WAIT_POLLIN};
    (void)curl.multi_poll(gateway->multi, &extra, 1, wait_ms, NULL);
}

/* ---- one exchange */

static size_t add(struct exchange *exchange, const char *data, size_t size) {
    if (exchange->size + size > ETCD_ANSWER_SIZE_MAX) {
        exchange->is_too_large = true;
        return 0;
    }
    memcpy(exchange->answer + exchange->size, data, size);
    exchange->size += size;
    return size;
}

/* Callback of libcurl for received bytes. A result below `count` ends the exchange. */
static size_t take(char *data, size_t one, size_t count, void *argument) {
    struct exchange *exchange = argument;
    (void)one; /* 1 */
    if (exchange->line == NULL) return add(exchange, data, count);
    for (size_t at = 0; at < count;) {
        const char *end = memchr(data + at, '\n', count - at);
        size_t size = end == NULL ? count - at : (size_t)(end - data) - at;
        if (add(exchange, data + at, size) != size) return 0;
        at += size + (end != NULL);
        if (end == NULL) break;
        exchange->line(exchange);
        exchange->size = 0;
    }
    return count;
}

static int prepare_socket(void *argument, curl_socket_t socket, curlsocktype purpose) {
    const struct gateway *gateway = argument;
    int count = KEEPALIVE_COUNT;
    unsigned unheard_ms = gateway->connect_ms;
    (void)purpose;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unheard_ms, sizeof unheard_ms);
    return CURL_SOCKOPT_OK;
}

/* Sets the options so that the environment has no influence: no proxy, no password file, no redirect. */
static void set_connection(CURL *easy, const struct gateway *gateway, bool is_change) {
    curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, gateway->is_tls ? "https" : "http");
    curl.easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl.easy_setopt(easy, CURLOPT_PROXY, "");
    curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* do not wait for a resolver thread that hangs */
    curl.easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
    curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)gateway->connect_ms);
    curl.easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl.easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_S);
    curl.easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_S);
    curl.easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, prepare_socket);
    curl.easy_setopt(easy, CURLOPT_SOCKOPTDATA, (void *)gateway);
    curl.easy_setopt(easy, CURLOPT_FRESH_CONNECT, is_change ? 1L : 0L);
    curl.easy_setopt(easy, CURLOPT_FORBID_REUSE, is_change ? 1L : 0L);
    if (!gateway->is_tls) return;
    curl.easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (gateway->ca != NULL) curl.easy_setopt(easy, CURLOPT_CAINFO, gateway->ca);
    if (gateway->certificate != NULL) curl.easy_setopt(easy, CURLOPT_SSLCERT, gateway->certificate);
    if (gateway->key != NULL) curl.easy_setopt(easy, CURLOPT_SSLKEY, gateway->key);
}

static bool set_headers(struct exchange *exchange, const char *token) {
    char line[HEADER_SIZE];
    struct curl_slist *all = curl.slist_append(NULL, "Content-Type: application/json");
    if (all != NULL && token != NULL) {
        snprintf(line, sizeof line, "Authorization: %s", token);
        struct curl_slist *more = curl.slist_append(all, line);
        if (more == NULL) curl.slist_free_all(all);
        all = more;
    }
    exchange->headers = all;
    return all != NULL;
}

int exchange_begin(struct gateway *gateway, struct exchange *exchange, const struct request *request) {
    char url[URL_SIZE];
    snprintf(url, sizeof url, "%s://%s/v3/%s", gateway->is_tls ? "https" : "http", request->host, request->path);
    exchange->size = 0;
    exchange->is_too_large = false;
    exchange->words[0] = exchange->error[0] = '\0';
    exchange->body = request->body;
    exchange->easy = curl.easy_init();
    if (exchange->easy == NULL || exchange->body == NULL || !set_headers(exchange, request->token)) {
        exchange_drop(gateway, exchange);
        return 1;
    }
    CURL *easy = exchange->easy;
    set_connection(easy, gateway, request->is_change);
    curl.easy_setopt(easy, CURLOPT_URL, url);
    curl.easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->headers);
    curl.easy_setopt(easy, CURLOPT_POSTFIELDS, exchange->body);
    curl.easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
    curl.easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
    curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->words);
    curl.easy_setopt(easy, CURLOPT_PRIVATE, exchange);
    if (curl.multi_add_handle(gateway->multi, easy) == CURLM_OK) return 0;
    exchange_drop(gateway, exchange);
    return 1;
}

void exchange_drop(struct gateway *gateway, struct exchange *exchange) {
    if (exchange->easy != NULL) {
        (void)curl.multi_remove_handle(gateway->multi, exchange->easy);
        curl.easy_cleanup(exchange->easy);
    }
    if (exchange->headers != NULL) curl.slist_free_all(exchange->headers); /* NULL also if libcurl is not loaded */
    if (exchange->body != NULL)
        sodium_memzero(exchange->body, strlen(exchange->body)); /* the body may contain a password */
    free(exchange->body);
    exchange->easy = NULL;
    exchange->headers = NULL;
    exchange->body = NULL;
}

bool exchange_is_unsent(const struct gateway *gateway, const struct exchange *exchange) {
    curl_off_t stood = 0;
    CURLINFO what = gateway->is_tls ? CURLINFO_APPCONNECT_TIME_T : CURLINFO_CONNECT_TIME_T;
    return curl.easy_getinfo(exchange->easy, what, &stood) == CURLE_OK && stood == 0;
}

/* ---- end of an exchange */

static void explain(struct exchange *exchange, CURLcode code) {
    long error = 0;
    curl.easy_getinfo(exchange->easy, CURLINFO_OS_ERRNO, &error);
    if (exchange->is_too_large)
        snprintf(exchange->error, sizeof exchange->error, "an answer of more than %d bytes", ETCD_ANSWER_SIZE_MAX);
    else if (code == CURLE_OPERATION_TIMEDOUT)
        snprintf(exchange->error, sizeof exchange->error, "no answer in time");
    else if (code == CURLE_COULDNT_CONNECT && error != 0)
        snprintf(exchange->error, sizeof exchange->error, "%s", strerror((int)error));
    else if (code == CURLE_GOT_NOTHING || code == CURLE_PARTIAL_FILE || code == CURLE_SEND_ERROR ||
             (code == CURLE_RECV_ERROR && strstr(exchange->words, "alert") == NULL))
        snprintf(exchange->error, sizeof exchange->error, "the connection was lost before the answer came");
    else
        snprintf(exchange->error, sizeof exchange->error, "%s",
                 exchange->words[0] != '\0' ? exchange->words : curl.easy_strerror(code));
}

static void end_exchange(struct gateway *gateway, struct exchange *exchange, CURLcode code) {
    enum exchange_end end = EXCHANGE_ANSWERED;
    if (code != CURLE_OK) {
        end = exchange_is_unsent(gateway, exchange) ? EXCHANGE_NOT_SENT : EXCHANGE_LOST;
        explain(exchange, code);
    }
    (void)curl.easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &exchange->status);
    exchange->answer[exchange->size] = '\0';
    exchange_drop(gateway, exchange);
    exchange->over(exchange, end);
}

void gateway_turn(struct gateway *gateway) {
    int running, left;
    (void)curl.multi_perform(gateway->multi, &running);
    for (CURLMsg *message; (message = curl.multi_info_read(gateway->multi, &left)) != NULL;) {
        if (message->msg != CURLMSG_DONE) continue;
        void *exchange = NULL;
        CURLcode code = message->data.result;
        (void)curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&exchange);
        end_exchange(gateway, exchange, code);
    }
}
