/* http.c: how many tasks per second come in over HTTP and JSON (/v1/tasks): several connections with one request
 * in flight on each, or several pipelined ones, of one task or of many. One thread and epoll, so that it measures
 * mainly the broker. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#define CONNECTIONS_MAX 1024u
#define BATCH_MAX 8192u
#define PIPELINED_MAX 64u
#define TASK_SIZE_MAX 256u
#define HEAD_SIZE_MAX 512u

struct connection {
    int fd;
    char *request;
    size_t size, sent;
    char *answer; /* the first part of the answer; the rest is counted but not kept */
    size_t got;
    size_t whole;      /* size of the whole answer; 0: its head is incomplete */
    uint64_t awaited;  /* number of pipelined requests whose answers have not arrived */
    uint64_t began_ns; /* time at which the requests in flight were sent */
};

struct load {
    const char *host, *port;
    uint64_t batch, pipelined, requests;
    uint64_t begun, done;
    size_t answer_size;
    uint64_t *samples_ns;
};

/* ws://HOST:PORT */
static void find_place(const char *url, struct load *load) {
    static char host[256];
    const char *begin = url != NULL ? strstr(url, "://") : NULL;
    snprintf(host, sizeof host, "%s", begin != NULL ? begin + 3 : "");
    host[strcspn(host, "/,")] = '\0';
    char *colon = strrchr(host, ':');
    if (colon != NULL) {
        *colon = '\0';
        load->host = host;
        load->port = colon + 1;
    } else {
        bench_die("--broker takes ws://HOST:PORT");
    }
}

static int dial(const struct load *load) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int error = getaddrinfo(load->host, load->port, &hints, &found);
    if (error != 0) bench_die("%s: %s", load->host, gai_strerror(error));
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0)
        bench_die("%s:%s: %s", load->host, load->port, strerror(errno));
    freeaddrinfo(found);
    return fd;
}

/* Appends one more request to `connection->request`. */
static void add_request(struct connection *connection, struct load *load) {
    char head[HEAD_SIZE_MAX];
    char *begin = connection->request + connection->size, *body = begin + HEAD_SIZE_MAX;
    size_t size = 0;
    body[size++] = '[';
    for (uint64_t i = 0; i < load->batch; i++)
        size += (size_t)snprintf(
            body + size, TASK_SIZE_MAX,
            "%s{\"queue\":\"orders\",\"key\":\"order-%llu-%llu\",\"in\":\"30m\",\"json\":{\"order\":%llu,"
            "\"customer\":\"4711\",\"total\":1999}}",
            i != 0 ? "," : "", (unsigned long long)load->begun, (unsigned long long)i, (unsigned long long)load->begun);
    body[size++] = ']';
    int head_size = snprintf(head, sizeof head,
                             "POST /v1/tasks HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: application/json\r\n"
                             "Content-Length: %zu\r\n\r\n",
                             load->host, load->port, size);
    memmove(begin + head_size, body, size);
    memcpy(begin, head, (size_t)head_size);
    connection->size += (size_t)head_size + size;
    connection->awaited++;
    load->begun++;
}

static void say(struct connection *connection, struct load *load) {
    connection->size = connection->sent = connection->got = connection->whole = 0;
    while (connection->awaited < load->pipelined && load->begun < load->requests) add_request(connection, load);
    connection->began_ns = bench_now_ns();
}

static void send_rest(struct connection *connection) {
    while (connection->sent < connection->size) {
        ssize_t n = send(connection->fd, connection->request + connection->sent, connection->size - connection->sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) bench_die("send: %s", strerror(errno));
        connection->sent += (size_t)n;
    }
}

/* Returns the size of the whole answer, once its head is there. */
static size_t size_of(const struct connection *connection) {
    const char *end = memmem(connection->answer, connection->got, "\r\n\r\n", 4);
    if (end == NULL) return 0;
    const char *length = strcasestr(connection->answer, "content-length:");
    if (strncmp(connection->answer, "HTTP/1.1 20", 11) == 0 && length != NULL && length < end)
        return (size_t)(end + 4 - connection->answer) + strtoul(length + sizeof "content-length:" - 1, NULL, 10);
    bench_die("the broker says: %.300s", connection->answer);
}

static void answered(struct connection *connection, struct load *load) {
    const char *code = load->batch > 1 ? strstr(connection->answer, "\"code\":\"") : NULL;
    if (code != NULL && code < connection->answer + connection->whole && strncmp(code, "\"code\":\"ok\"", 11) != 0)
        bench_die("a task was refused: %.200s", code);
    load->samples_ns[load->done++] = bench_now_ns() - connection->began_ns;
    connection->awaited--;
    connection->got -= connection->whole;
    memmove(connection->answer, connection->answer + connection->whole, connection->got + 1);
    connection->whole = connection->got > 0 ? size_of(connection) : 0;
}

/* Returns true once all answers are complete. */
static bool hear(struct connection *connection, struct load *load) {
    for (;;) {
        size_t room = load->answer_size - 1 - connection->got;
        ssize_t n = recv(connection->fd, connection->answer + connection->got, room, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
        if (n <= 0) bench_die("the broker has ended the connection: %s", n < 0 ? strerror(errno) : "end of file");
        connection->got += (size_t)n;
        connection->answer[connection->got] = '\0';
        if (connection->whole == 0) connection->whole = size_of(connection);
        if (connection->whole >= load->answer_size) bench_die("an answer of %zu bytes", connection->whole);
        while (connection->whole != 0 && connection->got >= connection->whole) answered(connection, load);
        if (connection->awaited == 0) return true;
    }
}

static void go_on(struct connection *connection, struct load *load) {
    if (load->begun == load->requests) return;
    say(connection, load);
    send_rest(connection);
}

static void play(struct load *load, struct connection *connections, uint64_t count) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (uint64_t i = 0; i < count; i++) {
        struct connection *connection = &connections[i];
        connection->request = malloc(load->pipelined * (HEAD_SIZE_MAX + load->batch * TASK_SIZE_MAX + 2));
        connection->answer = malloc(load->answer_size);
        if (connection->request == NULL || connection->answer == NULL) bench_die("out of memory");
        connection->fd = dial(load);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection};
        if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
            bench_die("epoll: %s", strerror(errno));
        say(connection, load);
        send_rest(connection);
    }
    while (load->done < load->requests) {
        struct epoll_event events[64];
        int n = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < n; i++) {
            struct connection *connection = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) send_rest(connection);
            while (connection->sent == connection->size && connection->awaited > 0 && hear(connection, load))
                go_on(connection, load);
        }
    }
    close(epoll);
}

int main(int argc, char **argv) {
    const char *broker = getenv("TARRY_BROKER");
    uint64_t count = 64, batch = 1, pipelined = 1, requests = 100000;
    const struct bench_option options[] = {
        {"broker", "ws://HOST:PORT [$TARRY_BROKER]", NULL, &broker},
        {"connections", "in all", &count, NULL},
        {"pipelined", "requests under way on each connection", &pipelined, NULL},
        {"batch", "tasks in a request", &batch, NULL},
        {"requests", "in all", &requests, NULL},
        {0},
    };
    bench_options(argc, argv, "Tasks a second over HTTP and JSON.", options);
    if (count == 0 || count > CONNECTIONS_MAX || batch == 0 || batch > BATCH_MAX || pipelined == 0 ||
        pipelined > PIPELINED_MAX || requests < count * pipelined)
        bench_die("out of range");
    struct load load = {.batch = batch,
                        .pipelined = pipelined,
                        .requests = requests,
                        .answer_size = HEAD_SIZE_MAX * 4 + batch * TASK_SIZE_MAX};
    find_place(broker, &load);
    load.samples_ns = calloc(requests, sizeof *load.samples_ns);
    struct connection *connections = calloc(count, sizeof *connections);
    if (load.samples_ns == NULL || connections == NULL) bench_die("out of memory");
    uint64_t began_ns = bench_now_ns();
    play(&load, connections, count);
    double seconds = (double)(bench_now_ns() - began_ns) / 1e9;
    bench_sort(load.samples_ns, requests);
    printf("bench=http connections=%llu pipelined=%llu batch=%llu requests=%llu requests_per_s=%.0f tasks_per_s=%.0f "
           "p50_us=%.0f "
           "p99_us=%.0f\n",
           (unsigned long long)count, (unsigned long long)pipelined, (unsigned long long)batch,
           (unsigned long long)requests, (double)requests / seconds, (double)(requests * batch) / seconds,
           bench_quantile(load.samples_ns, requests, 0.5) / 1e3, bench_quantile(load.samples_ns, requests, 0.99) / 1e3);
    for (uint64_t i = 0; i < count; i++) {
        close(connections[i].fd);
        free(connections[i].request);
        free(connections[i].answer);
    }
    free(connections);
    free(load.samples_ns);
    return 0;
}
