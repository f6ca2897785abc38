/* http_guard.c: see http_guard.h. */
#include "http_guard.h"

#include <arpa/inet.h>
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "http_head.h"
#include "listen.h"
#include "logfmt.h"

/* Descriptors, if the system grants them without end. */
#define DESCRIPTORS_MAX (1u << 20)
#define DRAIN_MAX (64u << 10)
#define VERIFY_S 5
#define CLOSE_WAITS 1000 /* ms */
#define DESCRIPTORS_AT_START 256
#define PROBE                                                                                                          \
    "GET /guard! HTTP/1.1\r\nHost: tarryd\r\n\r\n" /* nng knows no such page, and takes the name for a good one */
#define PEER_TEXT_SIZE 64

enum guard_state {
    GUARD_OFF, /* no connection, or none that was accepted */
    GUARD_HEAD,
    GUARD_PASSING,
    GUARD_PASSED,
    GUARD_OPEN,
    GUARD_REFUSED
};

struct guarded {
    _Atomic uint8_t state; /* enum guard_state */
    uint16_t size;         /* of what is in `head` */
    uint16_t given;        /* PASSING: nng has read so much of it */
    char *head;            /* owned; HTTP_HEAD_SIZE_MAX */
};

static struct guarded *table; /* by descriptor */
static size_t table_size;
static const char *allowed_origins = "";
static _Atomic bool verifying;

/* ---- what the names below stand for. A preloaded library may have them, too: its turn comes here. */

#define REAL(result, name, ...)                                                                                        \
    static result (*_Atomic real_##name)(__VA_ARGS__);                                                                 \
    static void find_##name(void) {                                                                                    \
        if (atomic_load_explicit(&real_##name, memory_order_relaxed) != NULL) return;                                  \
        result (*found)(__VA_ARGS__);                                                                                  \
        void *symbol = dlsym(RTLD_NEXT, #name);                                                                        \
        if (symbol == NULL) abort(); /* there is no C library */                                                       \
        memcpy(&found, &symbol, sizeof(found));                                                                        \
        atomic_store_explicit(&real_##name, found, memory_order_relaxed);                                              \
    }
REAL(int, accept, int, struct sockaddr *, socklen_t *)
REAL(ssize_t, readv, int, const struct iovec *, int)
REAL(ssize_t, sendmsg, int, const struct msghdr *, int)
REAL(int, close, int)

static struct guarded *guarded_of(int fd) {
    return fd >= 0 && (size_t)fd < table_size ? &table[fd] : NULL;
}

static enum guard_state state_of(const struct guarded *guarded) {
    return guarded != NULL ? atomic_load_explicit(&guarded->state, memory_order_acquire) : GUARD_OFF;
}

static void set_state(struct guarded *guarded, enum guard_state state) {
    atomic_store_explicit(&guarded->state, (uint8_t)state, memory_order_release);
}

static void forget_head(struct guarded *guarded) {
    free(guarded->head);
    guarded->head = NULL;
    guarded->size = guarded->given = 0;
}

/* ---- refusing */

static const char *status_text(unsigned status) {
    switch (status) {
    case 403:
        return "Forbidden";
    case 405:
        return "Method Not Allowed\r\nAllow: GET, HEAD";
    case 413:
        return "Content Too Large";
    case 414:
        return "URI Too Long";
    case 431:
        return "Request Header Fields Too Large";
    case 503:
        return "Service Unavailable";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Bad Request";
    }
}

static void peer_text(int fd, char out[PEER_TEXT_SIZE]) {
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    char host[INET6_ADDRSTRLEN] = "";
    out[0] = '\0';
    if (getpeername(fd, (struct sockaddr *)&address, &size) != 0) return;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address;
    if (address.ss_family == AF_INET && inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host)) != NULL)
        snprintf(out, PEER_TEXT_SIZE, "%s:%u", host, ntohs(four->sin_port));
    else if (address.ss_family == AF_INET6 && inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host)) != NULL)
        snprintf(out, PEER_TEXT_SIZE, "[%s]:%u", host, ntohs(six->sin6_port));
}

static void say_refused(int fd, struct http_refusal refusal) {
    static struct logfmt_limit limit;
    char peer[PEER_TEXT_SIZE], quoted[LOGFMT_VALUE_SIZE];
    if (atomic_load(&verifying) || !logfmt_allowed(&limit)) return;
    peer_text(fd, peer);
    logfmt("http_refused", "from=%s status=%u reason=%s", peer, refusal.status, logfmt_quote(refusal.reason, quoted));
}

/* The last word on this connection: an answer, and the end of the input for nng, which closes it. */
static ssize_t refuse(struct guarded *guarded, int fd, struct http_refusal refusal) {
    char answer[512], rest[4096];
    say_refused(fd, refusal);
    int size = snprintf(answer, sizeof(answer),
                        "HTTP/1.1 %u %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n"
                        "%s\n",
                        refusal.status, status_text(refusal.status), strlen(refusal.reason) + 1, refusal.reason);
    assert(size > 0 && (size_t)size < sizeof(answer));
    set_state(guarded, GUARD_REFUSED);
    forget_head(guarded);
    /* Whatever is left unread would have the answer thrown away by a reset. */
    for (size_t drained = 0; drained < DRAIN_MAX; drained += sizeof(rest))
        if (recv(fd, rest, sizeof(rest), MSG_DONTWAIT) <= 0) break;
    ssize_t sent = send(fd, answer, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* who does not take it, does not get it */
    shutdown(fd, SHUT_WR);
    return 0;
}

/* ---- heads */

/* Judges what has come last, `size` bytes at the end of the head; `is_whole`: nothing is missing. */
static struct http_refusal judge(const struct guarded *guarded, size_t size, bool is_whole) {
    if (!http_head_is_text(guarded->head + guarded->size - size, size))
        return (struct http_refusal){400, "the head has bytes that are not printable ASCII"};
    if (is_whole) return http_head_judge(guarded->head, guarded->size, allowed_origins);
    if (guarded->size < HTTP_HEAD_SIZE_MAX) return (struct http_refusal){0};
    return (struct http_refusal){431, "the head is longer than 8000 bytes"};
}

/* Takes a head from the kernel, and nothing behind it. 1: it is whole, or refused; 0 or less: for readv, as the kernel
 * said it. (nng may have heard already that the connection is gone, and would wait for ever if it were told to.) */
static ssize_t take(struct guarded *guarded, int fd, struct http_refusal *out_refusal) {
    bool is_whole = false;
    while (!is_whole && out_refusal->status == 0) {
        char *at = guarded->head + guarded->size;
        ssize_t seen = recv(fd, at, HTTP_HEAD_SIZE_MAX - guarded->size, MSG_PEEK | MSG_DONTWAIT);
        if (seen <= 0) return seen;
        size_t end = http_head_end(guarded->head, guarded->size + (size_t)seen, guarded->size);
        size_t size = end != 0 ? end - guarded->size : (size_t)seen;
        ssize_t taken = recv(fd, at, size, MSG_DONTWAIT);
        if (taken <= 0) return taken;
        is_whole = end != 0 && (size_t)taken == size;
        guarded->size = (uint16_t)(guarded->size + taken);
        *out_refusal = judge(guarded, (size_t)taken, is_whole);
    }
    return 1;
}

static ssize_t give(struct guarded *guarded, const struct iovec *parts, int count) {
    size_t sum = 0;
    for (int i = 0; i < count && guarded->given < guarded->size; i++) {
        size_t rest = (size_t)(guarded->size - guarded->given);
        size_t size = parts[i].iov_len < rest ? parts[i].iov_len : rest;
        memcpy(parts[i].iov_base, guarded->head + guarded->given, size);
        guarded->given = (uint16_t)(guarded->given + size);
        sum += size;
    }
    if (guarded->given == guarded->size) {
        forget_head(guarded);
        set_state(guarded, GUARD_PASSED);
    }
    return (ssize_t)sum;
}

static ssize_t read_head(struct guarded *guarded, int fd, const struct iovec *parts, int count) {
    struct http_refusal refusal = {0};
    enum guard_state state = state_of(guarded);
    if (state == GUARD_REFUSED) return 0;
    if (state == GUARD_PASSING) return give(guarded, parts, count);
    set_state(guarded, GUARD_HEAD); /* nng reads on: the one before is done with */
    if (guarded->head == NULL && (guarded->head = malloc(HTTP_HEAD_SIZE_MAX)) == NULL)
        return refuse(guarded, fd, (struct http_refusal){503, "the broker has no memory for this connection"});
    ssize_t result = take(guarded, fd, &refusal);
    if (result <= 0) return result;
    if (refusal.status != 0) return refuse(guarded, fd, refusal);
    set_state(guarded, GUARD_PASSING);
    return give(guarded, parts, count);
}

/* ---- what nng calls. The names are the C library's. */

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int accept(int fd, struct sockaddr *address, socklen_t *size) {
    find_accept();
    int accepted = real_accept(fd, address, size);
    if (accepted < 0 || table == NULL) return accepted;
    struct guarded *guarded = guarded_of(accepted);
    if (guarded == NULL) {
        find_close();
        real_close(accepted);
        errno = EMFILE;
        return -1;
    }
    /* Acquired from who closed this descriptor before: what he wrote of the entry lies before what is written now. */
    atomic_exchange_explicit(&guarded->state, GUARD_HEAD, memory_order_acq_rel);
    return accepted;
}

EXPORTED ssize_t readv(int fd, const struct iovec *parts, int count) {
    struct guarded *guarded = guarded_of(fd);
    enum guard_state state = state_of(guarded);
    if (state != GUARD_OFF && state != GUARD_OPEN) return read_head(guarded, fd, parts, count);
    find_readv();
    return real_readv(fd, parts, count);
}

EXPORTED ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    static const char switches[] = "HTTP/1.1 101 ";
    const size_t size = sizeof(switches) - 1;
    find_sendmsg();
    ssize_t sent = real_sendmsg(fd, message, flags);
    struct guarded *guarded = guarded_of(fd);
    if (sent <= 0 || state_of(guarded) != GUARD_PASSED) return sent;
    const struct iovec *first = message->msg_iov;
    bool is_open = (size_t)sent >= size && first->iov_len >= size && memcmp(first->iov_base, switches, size) == 0;
    set_state(guarded, is_open ? GUARD_OPEN : GUARD_HEAD);
    return sent;
}

EXPORTED int close(int fd) {
    struct guarded *guarded = guarded_of(fd);
    if (state_of(guarded) != GUARD_OFF) {
        forget_head(guarded);
        set_state(guarded, GUARD_OFF);
    }
    find_close();
    return real_close(fd);
}

/* ---- beginning */

int http_guard_begin(const char *origins) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno;
    size_t size = limit.rlim_cur < DESCRIPTORS_MAX ? (size_t)limit.rlim_cur : DESCRIPTORS_MAX;
    table = calloc(size, sizeof(*table)); /* so many are fresh pages, which the system makes as they are touched */
    if (table == NULL) return ENOMEM;
    allowed_origins = origins;
    table_size = size;
    return 0;
}

/* What is bound to all addresses is asked at loopback. */
static void make_reachable(struct sockaddr_storage *address) {
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
    if (address->ss_family == AF_INET && four->sin_addr.s_addr == INADDR_ANY)
        four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (address->ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr)) six->sin6_addr = in6addr_loopback;
}

static bool is_refused(int fd, const struct sockaddr_storage *address) {
    static const char wanted[] = "HTTP/1.1 400 ";
    const struct timeval wait = {.tv_sec = VERIFY_S};
    const struct linger none = {.l_onoff = 1}; /* nothing of this connection outlasts it */
    char answer[sizeof(wanted)] = "";
    size_t got = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) != 0) return false;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) != 0) return false;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) != 0) return false;
    if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0) return false;
    if (send(fd, PROBE, sizeof(PROBE) - 1, MSG_NOSIGNAL) != sizeof(PROBE) - 1) return false;
    while (got < sizeof(wanted) - 1) {
        ssize_t more = recv(fd, answer + got, sizeof(wanted) - 1 - got, 0);
        if (more <= 0) return false;
        got += (size_t)more;
    }
    return strcmp(answer, wanted) == 0;
}

static bool has_refused(void) {
    size_t fd = 0;
    while (fd < table_size && fd < DESCRIPTORS_AT_START && state_of(&table[fd]) != GUARD_REFUSED) fd++;
    return fd < table_size && fd < DESCRIPTORS_AT_START;
}

/* nng closes its end a moment later: a broker that says that it is ready has nothing left of this. */
static void wait_closed(void) {
    for (int i = 0; i < CLOSE_WAITS && has_refused(); i++) usleep(1000);
}

const char *http_guard_verify(uint16_t port) {
    struct sockaddr_storage address;
    if (!listen_address_of(port, &address)) return "the port that the broker listens at is not found";
    make_reachable(&address);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return "there is no socket to try the port with";
    atomic_store(&verifying, true);
    bool is_in_effect = is_refused(fd, &address);
    atomic_store(&verifying, false);
    close(fd);
    if (is_in_effect) wait_closed();
    if (is_in_effect) return NULL;
    return "what guards nng's HTTP server is not in effect: this tarryd was linked otherwise than it is meant to be, "
           "and a stranger could end it";
}
