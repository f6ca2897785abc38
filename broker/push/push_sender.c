/* push_sender.c: see push_sender.h. */
#include "push_sender.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "libcurl.h"
#include "push_request.h"
#include "push_secrets.h"
#include "waited.h"

/* Maximum wait of the thread: it wakes by itself only for deadlines. */
#define POLL_MS 600000

struct flight;
TAILQ_HEAD(flight_list, flight);

struct push_sender {
    struct push_sender_options options;
    pthread_t thread;
    CURLM *multi;
    pthread_mutex_t mutex; /* guards the members from `posted` to `is_asked` */
    struct push_job_list posted;
    struct push_job_list done;
    bool is_up;    /* true: `multi` exists and can be woken */
    bool is_down;  /* libcurl is missing: no job is accepted */
    bool is_asked; /* push_sender_secret wants the file of secrets read again */
    _Atomic bool stops;
    /* The following members are guarded by the mutex. Only the sender's thread changes them, and it holds the mutex
     * while it does so. So it may read them without the mutex. */
    struct push_secrets secrets;
    uint64_t read_ms;               /* time at which `secrets` was last read from the file; 0: never */
    char problem[PUSH_REASON_SIZE]; /* why nothing can be sent, or why old secrets are used; empty: no problem */
    /* The following members are used only by the sender's thread. */
    struct push_job_list waiting; /* accepted jobs whose requests have not begun */
    struct flight_list flights;
};

/* A request in progress. */
struct flight {
    TAILQ_ENTRY(flight) next;
    struct push_sender *sender;
    struct push_job *job;
    CURL *easy;
    uint64_t until_ms; /* MONOTONIC: the deadline of the response */
    struct curl_slist *heads;
    Tarry__Content *content;
    size_t head_size; /* bytes of the response's head so far */
    size_t body_size;
    const char *refused; /* reason why an address of the target's name was refused */
    bool has_tried;      /* an allowed address of the target's host name was tried */
    bool is_enough;      /* the response's body exceeds the read limit */
    bool is_flooded;     /* the response's head exceeds the limit */
};

uint64_t push_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

uint64_t push_job_time_ms(const struct push_job *job, uint64_t now_ms) {
    uint64_t least = job->lease_ms / 4 < 1000 ? job->lease_ms / 4 : 1000;
    uint64_t left = job->until_ms > now_ms ? job->until_ms - now_ms : 0;
    if (left < least || left == 0) return 0;
    return left < job->time_ms ? left : job->time_ms;
}

/* ---- results of jobs */

static void say(struct push_job *job, enum push_verdict verdict, const char *reason) {
    job->verdict = verdict;
    snprintf(job->reason, sizeof(job->reason), "%s", reason);
}

static void give_back(struct push_sender *sender, struct push_job *job) {
    pthread_mutex_lock(&sender->mutex);
    TAILQ_INSERT_TAIL(&sender->done, job, next);
    pthread_mutex_unlock(&sender->mutex);
}

static uint64_t later_ms(struct flight *flight) {
    curl_off_t seconds = 0;
    if (curl.easy_getinfo(flight->easy, CURLINFO_RETRY_AFTER, &seconds) != CURLE_OK || seconds <= 0) return 0;
    uint64_t most_s = PUSH_LATER_MAX_MS / 1000;
    return ((uint64_t)seconds < most_s ? (uint64_t)seconds : most_s) * 1000;
}

static void judge_status(struct flight *flight, long status) {
    struct push_job *job = flight->job;
    const char *more = status >= 300 && status < 400 ? ": redirects are not followed" : "";
    snprintf(job->reason, sizeof(job->reason), "the target replied with status %ld%s", status, more);
    job->verdict = PUSH_FAILED;
    job->status = (uint32_t)status;
    if (status >= 200 && status < 300) job->verdict = PUSH_TAKEN;
    if (status == 410) job->verdict = PUSH_REFUSED;
    if (status != 429 && status != 503) return;
    job->later_ms = later_ms(flight);
    if (job->later_ms > 0) job->verdict = PUSH_LATER;
}

/* Decides about a complete response, or one whose body is longer than the read limit. */
static void judge(struct flight *flight, CURLcode code) {
    struct push_job *job = flight->job;
    long status = 0;
    (void)curl.easy_getinfo(flight->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && (code == CURLE_OK || flight->is_enough)) {
        judge_status(flight, status);
        return;
    }
    job->verdict = PUSH_FAILED;
    if (flight->refused != NULL && !flight->has_tried)
        snprintf(job->reason, sizeof(job->reason), "the target is %s: not allowed (--push-allow)", flight->refused);
    else if (flight->is_flooded)
        snprintf(job->reason, sizeof(job->reason), "the target replied with more than 32 KiB of headers");
    else if (code == CURLE_OPERATION_TIMEDOUT)
        snprintf(job->reason, sizeof(job->reason), "the target did not reply in time");
    else
        snprintf(job->reason, sizeof(job->reason), "%s", curl.easy_strerror(code));
}

/* ---- callbacks of libcurl */

static curl_socket_t on_socket(void *argument, curlsocktype purpose, struct curl_sockaddr *address) {
    struct flight *flight = argument;
    (void)purpose;
    const char *problem = push_address_problem(&address->addr, &flight->sender->options.allowed);
    if (problem == NULL) {
        flight->has_tried = true;
        return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    }
    flight->refused = problem;
    return CURL_SOCKET_BAD;
}

static size_t on_head(char *bytes, size_t one, size_t size, void *argument) {
    struct flight *flight = argument;
    (void)bytes;
    (void)one; /* libcurl always passes 1 in `one`, the size of an element */
    flight->head_size += size;
    flight->is_flooded = flight->head_size > PUSH_HEAD_MAX;
    return flight->is_flooded ? 0 : size;
}

static size_t on_body(char *bytes, size_t one, size_t size, void *argument) {
    struct flight *flight = argument;
    (void)bytes;
    (void)one;
    flight->body_size += size;
    flight->is_enough = flight->body_size > PUSH_ANSWER_MAX;
    return flight->is_enough ? 0 : size;
}

/* ---- secrets */

static const char no_secret[] = "the file of --push-secrets has no secret for this queue, so nothing is sent";

/* Reads the file of secrets, unless it was read less than PUSH_SECRETS_MS ago. An invalid file leaves the former
 * secrets in use. */
static void read_secrets(struct push_sender *sender, uint64_t now_ms) {
    const struct push_sender_options *options = &sender->options;
    struct push_secrets secrets = {0}, former = {0};
    char message[PUSH_SECRETS_MESSAGE_SIZE], problem[PUSH_REASON_SIZE] = "";
    bool is_fine = false;
    size_t size = 0;
    if (sender->read_ms != 0 && now_ms - sender->read_ms < PUSH_SECRETS_MS) return;
    char *text = malloc(PUSH_SECRETS_FILE_MAX + 1);
    if (text == NULL) return;
    if (options->read_secrets(options->argument, text, PUSH_SECRETS_FILE_MAX + 1, &size, problem, sizeof(problem)) ==
        0) {
        is_fine = size <= PUSH_SECRETS_FILE_MAX && push_secrets_parse(text, size, &secrets, message) == 0;
        if (!is_fine && size > PUSH_SECRETS_FILE_MAX) {
            snprintf(problem, sizeof(problem), "--push-secrets: the file is longer than 256 KiB");
        } else if (!is_fine) {
            push_secrets_deinit(&secrets);
            snprintf(problem, sizeof(problem), "--push-secrets: %.160s", message);
        }
    }
    pthread_mutex_lock(&sender->mutex);
    sender->read_ms = now_ms;
    memcpy(sender->problem, problem, sizeof(problem));
    if (is_fine) {
        former = sender->secrets;
        sender->secrets = secrets;
    }
    pthread_mutex_unlock(&sender->mutex);
    push_secrets_deinit(&former);
    sodium_memzero(text, PUSH_SECRETS_FILE_MAX + 1);
    free(text);
}

/* ---- requests */

static bool add_head(void *argument, const char *line) {
    struct flight *flight = argument;
    struct curl_slist *longer = curl.slist_append(flight->heads, line);
    if (longer != NULL) flight->heads = longer;
    return longer != NULL;
}

static void flight_end(struct flight *flight) {
    struct push_sender *sender = flight->sender;
    if (flight->easy != NULL) {
        (void)curl.multi_remove_handle(sender->multi, flight->easy);
        curl.easy_cleanup(flight->easy);
    }
    curl.slist_free_all(flight->heads);
    if (flight->content != NULL) tarry__content__free_unpacked(flight->content, NULL);
    TAILQ_REMOVE(&sender->flights, flight, next);
    give_back(sender, flight->job);
    free(flight);
}

#define SET(option, value) (curl.easy_setopt(flight->easy, (option), (value)) == CURLE_OK)

/* Forbids proxies, netrc, cookies, other protocols and redirects, whatever the environment or the target requests. */
static bool set_limits(struct flight *flight) {
    return SET(CURLOPT_PROTOCOLS_STR, "http,https") && SET(CURLOPT_PROXY, "") && SET(CURLOPT_NOPROXY, "*") &&
           SET(CURLOPT_FOLLOWLOCATION, 0L) && SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L) && SET(CURLOPT_NOSIGNAL, 1L) &&
           SET(CURLOPT_QUICK_EXIT, 1L) && SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
           SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) && SET(CURLOPT_SSL_VERIFYPEER, 1L) &&
           SET(CURLOPT_SSL_VERIFYHOST, 2L) && SET(CURLOPT_MAXLIFETIME_CONN, (long)PUSH_CONNECTION_MAX_S) &&
           SET(CURLOPT_OPENSOCKETFUNCTION, on_socket) && SET(CURLOPT_OPENSOCKETDATA, flight) &&
           SET(CURLOPT_HEADERFUNCTION, on_head) && SET(CURLOPT_HEADERDATA, flight) &&
           SET(CURLOPT_WRITEFUNCTION, on_body) && SET(CURLOPT_WRITEDATA, flight) && SET(CURLOPT_PRIVATE, flight);
}

static bool set_request(struct flight *flight, uint64_t time_ms) {
    const struct push_sender_options *options = &flight->sender->options;
    const ProtobufCBinaryData *payload = &flight->content->payload;
    char agent[64];
    snprintf(agent, sizeof(agent), "tarryd/%s", options->version);
    long connect_ms = (long)(time_ms < options->connect_ms ? time_ms : options->connect_ms);
    return SET(CURLOPT_URL, flight->job->url) && SET(CURLOPT_POST, 1L) && SET(CURLOPT_USERAGENT, agent) &&
           SET(CURLOPT_POSTFIELDS, payload->len > 0 ? (const char *)payload->data : "") &&
           SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)payload->len) && SET(CURLOPT_HTTPHEADER, flight->heads) &&
           SET(CURLOPT_CONNECTTIMEOUT_MS, connect_ms) && (options->ca[0] == '\0' || SET(CURLOPT_CAINFO, options->ca));
}

/* Makes the HTTP request for the job. NULL: out of memory. */
static struct flight *flight_new(struct push_sender *sender, struct push_job *job, uint64_t until_ms) {
    struct flight *flight = calloc(1, sizeof(*flight));
    if (flight == NULL) return NULL;
    *flight = (struct flight){.sender = sender, .job = job, .until_ms = until_ms};
    TAILQ_INSERT_TAIL(&sender->flights, flight, next);
    flight->content = tarry__content__unpack(NULL, job->content_size, job->content);
    return flight;
}

static void begin(struct push_sender *sender, struct push_job *job, uint64_t now_ms) {
    static const char no_memory[] = "the broker has too little memory for a request";
    const struct push_secret *secret = push_secrets_find(&sender->secrets, job->queue);
    uint64_t time_ms = push_job_time_ms(job, now_ms);
    say(job, PUSH_UNSENT, "");
    if (secret == NULL) say(job, PUSH_UNSENT, sender->problem[0] != '\0' ? sender->problem : no_secret);
    if (secret == NULL || time_ms == 0) {
        give_back(sender, job);
        return;
    }
    struct flight *flight = flight_new(sender, job, now_ms + time_ms);
    say(job, PUSH_UNSENT, no_memory);
    if (flight == NULL) {
        give_back(sender, job);
        return;
    }
    struct push_words words = {.job = job,
                               .content = flight->content,
                               .secret = secret,
                               .cluster = sender->options.cluster,
                               .timestamp_s = (uint64_t)time(NULL)};
    flight->easy = curl.easy_init();
    bool is_ready = flight->content != NULL && flight->easy != NULL && push_heads(&words, add_head, flight) &&
                    set_limits(flight) && set_request(flight, time_ms) &&
                    curl.multi_add_handle(sender->multi, flight->easy) == CURLM_OK;
    if (is_ready)
        say(job, PUSH_FAILED, "the broker aborted the request");
    else
        flight_end(flight);
}

/* Takes over what other threads have posted. Returns whether the file of secrets must be read. */
static bool take_posted(struct push_sender *sender) {
    pthread_mutex_lock(&sender->mutex);
    TAILQ_CONCAT(&sender->waiting, &sender->posted, next);
    bool is_asked = sender->is_asked;
    sender->is_asked = false;
    pthread_mutex_unlock(&sender->mutex);
    return is_asked;
}

static bool begin_all(struct push_sender *sender) {
    struct push_job *job;
    bool any = false;
    bool is_asked = take_posted(sender);
    if (TAILQ_EMPTY(&sender->waiting) && !is_asked) return false;
    uint64_t now_ms = push_now_ms();
    read_secrets(sender, now_ms);
    while ((job = TAILQ_FIRST(&sender->waiting)) != NULL) {
        TAILQ_REMOVE(&sender->waiting, job, next);
        begin(sender, job, now_ms);
        any = true;
    }
    return any;
}

/* Ends requests that are past their deadline. This thread checks deadlines itself, because libcurl would check the time
 * before it reads the socket (F-13). `now_ms` was taken before the sockets were read. So a response that was already in
 * the socket is accepted, even if the process was stopped for a long time. After a suspension of the whole machine,
 * each late request gets STOOD_STILL_SETTLE_MS more, because its response may still be in the network. */
static bool end_late(struct push_sender *sender, uint64_t now_ms) {
    bool any = false;
    for (struct flight *flight = TAILQ_FIRST(&sender->flights), *next; flight != NULL; flight = next) {
        next = TAILQ_NEXT(flight, next);
        if (flight->until_ms > now_ms) continue;
        if (now_ms - flight->until_ms > STOOD_STILL_MS) {
            flight->until_ms = now_ms + STOOD_STILL_SETTLE_MS;
            continue;
        }
        judge(flight, CURLE_OPERATION_TIMEDOUT);
        flight_end(flight);
        any = true;
    }
    return any;
}

/* Returns the time until the next deadline. */
static int wait_ms(const struct push_sender *sender) {
    const uint64_t now_ms = push_now_ms();
    uint64_t until_ms = now_ms + POLL_MS;
    const struct flight *flight = NULL;
    TAILQ_FOREACH(flight, &sender->flights, next) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): flight_end has removed those that it freed
        if (flight->until_ms < until_ms) until_ms = flight->until_ms;
    }
    return until_ms > now_ms ? (int)(until_ms - now_ms) : 0;
}

static bool end_all(struct push_sender *sender) {
    CURLMsg *message;
    int left = 0;
    bool any = false;
    while ((message = curl.multi_info_read(sender->multi, &left)) != NULL) {
        struct flight *flight = NULL;
        if (message->msg != CURLMSG_DONE) continue;
        CURLcode code = message->data.result;
        (void)curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&flight);
        judge(flight, code);
        flight_end(flight);
        any = true;
    }
    return any;
}

/* ---- the thread */

/* Prepares libcurl. Without libcurl, each job is returned with the reason as soon as it is posted. */
static bool open_multi(struct push_sender *sender) {
    const char *why = libcurl_load();
    if (why != NULL) {
        snprintf(sender->problem, sizeof(sender->problem),
                 "webhooks need libcurl: %s; install it with apt-get install libcurl4", why);
        return false;
    }
    sender->multi = curl.multi_init();
    if (sender->multi == NULL) {
        snprintf(sender->problem, sizeof(sender->problem), "webhooks: out of memory");
        return false;
    }
    (void)curl.multi_setopt(sender->multi, CURLMOPT_MAXCONNECTS, (long)sender->options.connections_max);
    (void)curl.multi_setopt(sender->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    return true;
}

static void refuse_posted(struct push_sender *sender) {
    struct push_job *job;
    pthread_mutex_lock(&sender->mutex);
    while ((job = TAILQ_FIRST(&sender->posted)) != NULL) {
        TAILQ_REMOVE(&sender->posted, job, next);
        say(job, PUSH_UNSENT, sender->problem);
        TAILQ_INSERT_TAIL(&sender->done, job, next);
    }
    pthread_mutex_unlock(&sender->mutex);
    sender->options.done(sender->options.argument);
}

static void *run(void *argument) {
    struct push_sender *sender = argument;
    const struct push_sender_options *options = &sender->options;
    bool is_open = open_multi(sender);
    pthread_mutex_lock(&sender->mutex);
    sender->is_up = is_open;
    sender->is_down = !is_open;
    pthread_mutex_unlock(&sender->mutex);
    if (!is_open) {
        refuse_posted(sender);
        return NULL;
    }
    while (!atomic_load(&sender->stops)) {
        int running = 0;
        bool any = begin_all(sender);
        const uint64_t now_ms = push_now_ms();
        (void)curl.multi_perform(sender->multi, &running);
        any |= end_all(sender);
        any |= end_late(sender, now_ms);
        if (any) options->done(options->argument);
        (void)curl.multi_poll(sender->multi, NULL, 0, wait_ms(sender), NULL);
    }
    return NULL;
}

/* ---- the interface */

struct push_sender *push_sender_new(const struct push_sender_options *options) {
    struct push_sender *sender = calloc(1, sizeof(*sender));
    if (sender == NULL) return NULL;
    sender->options = *options;
    sender->is_asked = true;
    pthread_mutex_init(&sender->mutex, NULL);
    TAILQ_INIT(&sender->posted);
    TAILQ_INIT(&sender->done);
    TAILQ_INIT(&sender->waiting);
    TAILQ_INIT(&sender->flights);
    if (pthread_create(&sender->thread, NULL, run, sender) != 0) {
        pthread_mutex_destroy(&sender->mutex);
        free(sender);
        return NULL;
    }
    pthread_setname_np(sender->thread, "tarry-push");
    return sender;
}

void push_sender_post(struct push_sender *sender, struct push_job *job) {
    pthread_mutex_lock(&sender->mutex);
    TAILQ_INSERT_TAIL(&sender->posted, job, next);
    bool is_up = sender->is_up, is_down = sender->is_down;
    pthread_mutex_unlock(&sender->mutex);
    if (is_up) (void)curl.multi_wakeup(sender->multi);
    if (is_down) refuse_posted(sender);
}

enum push_secret_state push_sender_secret(struct push_sender *sender, const char *queue,
                                          char reason[PUSH_REASON_SIZE]) {
    enum push_secret_state state = PUSH_SECRET_UNKNOWN;
    reason[0] = '\0';
    pthread_mutex_lock(&sender->mutex);
    if (sender->is_down || sender->read_ms != 0) {
        bool is_there = !sender->is_down && push_secrets_find(&sender->secrets, queue) != NULL;
        state = is_there ? PUSH_SECRET_PRESENT : PUSH_SECRET_MISSING;
        if (!is_there)
            snprintf(reason, PUSH_REASON_SIZE, "%s", sender->problem[0] != '\0' ? sender->problem : no_secret);
    }
    bool is_old = sender->is_up && !sender->is_asked && push_now_ms() - sender->read_ms >= PUSH_SECRETS_MS;
    sender->is_asked |= is_old;
    pthread_mutex_unlock(&sender->mutex);
    if (is_old) (void)curl.multi_wakeup(sender->multi);
    return state;
}

void push_sender_take(struct push_sender *sender, struct push_job_list *out) {
    pthread_mutex_lock(&sender->mutex);
    TAILQ_CONCAT(out, &sender->done, next);
    pthread_mutex_unlock(&sender->mutex);
}

void push_sender_stop(struct push_sender *sender) {
    if (sender == NULL || atomic_exchange(&sender->stops, true)) return;
    pthread_mutex_lock(&sender->mutex);
    bool is_up = sender->is_up;
    pthread_mutex_unlock(&sender->mutex);
    if (is_up) (void)curl.multi_wakeup(sender->multi);
    pthread_join(sender->thread, NULL);
}

void push_sender_free(struct push_sender *sender, struct push_job_list *out) {
    if (sender == NULL) return;
    push_sender_stop(sender);
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): flight_end removes it
    while (!TAILQ_EMPTY(&sender->flights)) flight_end(TAILQ_FIRST(&sender->flights));
    TAILQ_CONCAT(out, &sender->waiting, next);
    TAILQ_CONCAT(out, &sender->posted, next);
    TAILQ_CONCAT(out, &sender->done, next);
    if (sender->multi != NULL) (void)curl.multi_cleanup(sender->multi);
    push_secrets_deinit(&sender->secrets);
    pthread_mutex_destroy(&sender->mutex);
    free(sender);
}
