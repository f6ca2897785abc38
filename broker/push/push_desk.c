/* push_desk.c: leases due tasks and turns them into requests, within the limits.
 *
 *     leased ──► waits for its host ──► push_sender.c ──► done ──► settled (push_settle.c)
 *                     │ too little of the lease is left
 *                     └──────────────────────────────────────────► released: costs no attempt
 *
 * A queue leases tasks while it is below its limit, its host has free requests, and the queue is not paused. If several
 * queues of one host leased at the same moment, the surplus jobs wait in the host's list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "pusher_parts.h"

/* Pause after a refused lease. */
#define REFUSED_REST_MS 1000u
/* Pause if the sender's thread cannot start. */
#define NO_SENDER_REST_MS 10000u

/* ---- hosts */

struct push_host *push_host_of(struct push *push, const char *url) {
    size_t size = push_url_origin(url);
    struct push_host *host = NULL;
    TAILQ_FOREACH(host, &push->hosts, next)
    if (strncmp(host->origin, url, size) == 0 && host->origin[size] == '\0') break;
    if (host == NULL && (host = calloc(1, sizeof(*host))) != NULL) {
        memcpy(host->origin, url, size);
        TAILQ_INIT(&host->waiting);
        TAILQ_INSERT_TAIL(&push->hosts, host, next);
    }
    if (host != NULL) host->references++;
    return host;
}

void push_host_release(struct push *push, struct push_host *host) {
    if (host == NULL || --host->references > 0) return;
    TAILQ_REMOVE(&push->hosts, host, next);
    free(host);
}

/* Starts the sender if needed. False: no thread, or out of memory. */
static bool have_sender(struct push *push);

static void send_job(struct push *push, struct push_job *job) {
    struct push_target *target = job->target;
    job->round = target->round;
    job->host->in_flight++;
    push->in_flight++;
    pthread_mutex_lock(&push->mutex);
    target->numbers.in_flight++;
    pthread_mutex_unlock(&push->mutex);
    push_sender_post(push->sender, job);
}

/* Returns whether the limit for requests of all queues allows one more request. If the limit is reached, a queue
 * without running requests may still start one. So busy queues do not block it. Together, requests stay below twice the
 * limit. */
static bool has_room(const struct push_target *target) {
    const struct push *push = target->push;
    const unsigned most = push->options.limits.requests;
    return push->in_flight < most || (target->numbers.in_flight == 0 && push->in_flight < 2 * most);
}

static void host_run(struct push *push, struct push_host *host) {
    struct push_job *job;
    const uint64_t now_ms = push_now_ms();
    while ((job = TAILQ_FIRST(&host->waiting)) != NULL) {
        bool has_time = push_job_time_ms(job, now_ms) > 0 && !atomic_load(&push->stops);
        if (has_time && (host->in_flight >= push->options.limits.host_requests || !has_room(job->target))) return;
        TAILQ_REMOVE(&host->waiting, job, next);
        if (has_time) {
            send_job(push, job);
            continue;
        }
        job->verdict = PUSH_UNSENT;
        TAILQ_INSERT_TAIL(&push->settling, job, next);
    }
}

/* ---- jobs */

void push_job_free(struct push *push, struct push_job *job) {
    struct push_target *target = job->target;
    push->held_bytes -= job->size;
    job->host->held_bytes -= job->size;
    target->held_bytes -= job->size;
    target->held--;
    atomic_fetch_sub(&push->held, 1);
    push_host_release(push, job->host);
    free(job);
}

/* Returns NULL when out of memory. */
static struct push_job *job_new(struct push_target *target, const Tarry__DeliveredTask *task, uint64_t delivered_ms) {
    struct push *push = target->push;
    const size_t url_size = strlen(target->url) + 1, queue_size = strlen(target->queue) + 1;
    const size_t size = sizeof(struct push_job) + url_size + queue_size + task->key.len + task->content.len;
    struct push_job *job = malloc(size);
    if (job == NULL) return NULL;
    uint8_t *at = (uint8_t *)(job + 1);
    *job = (struct push_job){.target = target,
                             .host = target->host,
                             .size = size,
                             .time_ms = push->options.limits.time_ms,
                             .id = task->id,
                             .attempt = task->attempt,
                             .deliveries = task->deliveries,
                             .due_ms = task->due_ms,
                             .late_ms = delivered_ms > task->due_ms ? delivered_ms - task->due_ms : 0,
                             .key_size = task->key.len,
                             .content_size = task->content.len};
    if (task->token != NULL) {
        job->epoch = task->token->epoch;
        job->position = task->token->position;
    }
    if (task->lease_deadline_ms > delivered_ms) job->lease_ms = task->lease_deadline_ms - delivered_ms;
    job->until_ms = push_now_ms() + job->lease_ms / 5 * 4;
    job->url = memcpy(at, target->url, url_size);
    job->queue = memcpy(at + url_size, target->queue, queue_size);
    at += url_size + queue_size;
    job->key = at;
    if (task->key.len > 0) memcpy(at, task->key.data, task->key.len);
    job->content = at + task->key.len;
    if (task->content.len > 0) memcpy(at + task->key.len, task->content.data, task->content.len);
    job->host->references++;
    push->held_bytes += size;
    job->host->held_bytes += size;
    target->held_bytes += size;
    target->job_bytes -= target->job_bytes / 8;
    if (target->job_bytes < size) target->job_bytes = size;
    target->held++;
    atomic_fetch_add(&push->held, 1);
    return job;
}

/* ---- leases */

static void on_rested(void *argument) {
    struct push_target *target = argument;
    target->rest = 0;
    pthread_mutex_lock(&target->push->mutex);
    target->numbers.resting_until_ms = 0;
    pthread_mutex_unlock(&target->push->mutex);
    push_target_run(target);
}

void push_target_rest(struct push_target *target, uint64_t ms) {
    struct push *push = target->push;
    if (target->rest != 0) gateway_timer_cancel(push->gateway, target->rest);
    target->rest = gateway_timer(push->gateway, ms, on_rested, target);
    if (target->lease != 0) gateway_cancel(push->gateway, target->lease);
    target->lease = 0;
    pthread_mutex_lock(&push->mutex);
    target->numbers.resting_until_ms = push_unix_ms() + ms;
    pthread_mutex_unlock(&push->mutex);
}

static void refused(struct push_target *target, const struct gateway_leased *leased) {
    struct push *push = target->push;
    pthread_mutex_lock(&push->mutex);
    snprintf(target->numbers.error, sizeof(target->numbers.error),
             "the broker did not lease tasks for this push: %.150s",
             leased->message != NULL && leased->message[0] != '\0' ? leased->message : "the broker is busy");
    pthread_mutex_unlock(&push->mutex);
    push_target_rest(target, REFUSED_REST_MS);
}

/* Makes jobs of the leased tasks. A task for which there is no memory stays leased until its lease expires. */
static void take_tasks(struct push_target *target, const struct gateway_leased *leased) {
    struct push_host *host = target->host;
    for (size_t i = 0; i < leased->count; i++) {
        struct push_job *job = job_new(target, leased->tasks[i], leased->delivered_ms);
        if (job != NULL) TAILQ_INSERT_TAIL(&host->waiting, job, next);
    }
}

/* Returns how many more tasks the target may lease within the byte limit. */
static size_t tasks_of_bytes(const struct push_target *target) {
    const struct push *push = target->push;
    const struct push_host *host = target->host;
    size_t free_bytes = push->held_bytes < PUSH_BYTES_MAX ? PUSH_BYTES_MAX - push->held_bytes : 0;
    size_t of_host = PUSH_HOST_SHARE * free_bytes;
    if (host->held_bytes == 0 && free_bytes == 0) return push->held_bytes < 2 * PUSH_BYTES_MAX ? 1 : 0;
    if (target->held_bytes >= free_bytes || host->held_bytes >= of_host) return 0;
    if (target->job_bytes == 0) return 1; /* the size of the tasks is unknown, so lease only one */
    /* Each leased byte raises held_bytes by 1 and lowers free_bytes by 1, so the two meet after half of their
     * difference. For a host the limit falls PUSH_HOST_SHARE times as fast. */
    size_t bytes = (free_bytes - target->held_bytes) / 2,
           bytes_of_host = (of_host - host->held_bytes) / (1 + PUSH_HOST_SHARE);
    if (bytes > bytes_of_host) bytes = bytes_of_host;
    return bytes > target->job_bytes ? bytes / target->job_bytes : 1;
}

static void on_leased(void *argument, const struct gateway_leased *leased) {
    struct push_target *target = argument;
    struct push *push = target->push;
    uint64_t lease = target->lease;
    target->lease = 0;
    if (leased->code != TARRY__CODE__OK) {
        refused(target, leased);
        return;
    }
    if (leased->count > 0) {
        bool is_taken = tasks_of_bytes(target) > 0 && !atomic_load(&push->stops);
        if (is_taken) take_tasks(target, leased);
        gateway_left(push->gateway, lease, is_taken);
        host_run(push, target->host);
        push_settle(push);
    }
    push_target_run(target);
}

static size_t room_of(const struct push_target *target) {
    const struct push *push = target->push;
    const struct push_host *host = target->host;
    const struct push_limits *limits = &push->options.limits;
    if (target->held >= limits->queue_requests || (target->is_unwell && target->held > 0)) return 0;
    size_t of_bytes = tasks_of_bytes(target);
    if (!TAILQ_EMPTY(&host->waiting) || of_bytes == 0) return 0;
    if (host->in_flight >= limits->host_requests || !has_room(target)) return 0;
    if (target->is_unwell) return 1;
    size_t room = limits->queue_requests - target->held;
    if (room > limits->host_requests - host->in_flight) room = limits->host_requests - host->in_flight;
    if (room > of_bytes) room = of_bytes;
    if (push->in_flight >= limits->requests) return 1;
    size_t rest = limits->requests - push->in_flight;
    return room < rest ? room : rest;
}

void push_target_run(struct push_target *target) {
    struct push *push = target->push;
    const char *queue = target->queue;
    if (target->is_over || target->host == NULL || target->lease != 0 || target->rest != 0) return;
    if (atomic_load(&push->stops)) return;
    if (!have_sender(push)) {
        push_target_rest(target, NO_SENDER_REST_MS);
        return;
    }
    const struct gateway_lease_options options = {.queues = &queue,
                                                  .queue_count = 1,
                                                  .max = (uint32_t)room_of(target),
                                                  .wait_ms = GATEWAY_WAIT_MAX_MS};
    /* No task may be leased now; when a job of the target ends, the target leases again. */
    if (options.max == 0) return;
    struct gateway_caller caller = push_caller(push);
    target->lease = gateway_lease(push->gateway, &caller, &options, on_leased, target);
    gateway_disown(push->gateway, caller.principal);
    if (target->lease == 0) push_target_rest(target, REFUSED_REST_MS);
}

void push_target_end_if_idle(struct push_target *target) {
    struct push *push = target->push;
    if (!target->is_over || target->held > 0) return;
    pthread_mutex_lock(&push->mutex);
    TAILQ_REMOVE(&push->targets, target, next);
    pthread_mutex_unlock(&push->mutex);
    push_host_release(push, target->host);
    free(target);
}

void push_target_end(struct push_target *target) {
    struct push *push = target->push;
    if (target->lease != 0) gateway_cancel(push->gateway, target->lease);
    if (target->rest != 0) gateway_timer_cancel(push->gateway, target->rest);
    target->lease = target->rest = 0;
    pthread_mutex_lock(&push->mutex);
    target->is_over = true;
    pthread_mutex_unlock(&push->mutex);
    push_target_end_if_idle(target);
}

/* ---- the sender */

static void on_done(void *argument) {
    gateway_wake(((struct push *)argument)->wakeup);
}

static int on_read_secrets(void *argument, char *out, size_t size, size_t *out_size, char *message,
                           size_t message_size) {
    const struct push_options *options = &((struct push *)argument)->options;
    return options->read_secrets(options->argument, out, size, out_size, message, message_size);
}

static bool have_sender(struct push *push) {
    struct push_sender_options options = {.ca = push->options.ca,
                                          .version = push->options.version,
                                          .connections_max = push->options.limits.requests,
                                          .connect_ms = push->options.limits.connect_ms,
                                          .argument = push,
                                          .read_secrets = on_read_secrets,
                                          .done = on_done};
    if (push->sender != NULL) return true;
    memcpy(options.cluster, push->options.cluster, sizeof(options.cluster));
    if (push_allowed_parse(push->options.allow, &options.allowed)) push->sender = push_sender_new(&options);
    return push->sender != NULL;
}

void push_take_done(struct push *push) {
    struct push_job_list done = TAILQ_HEAD_INITIALIZER(done);
    struct push_job *job;
    struct push_host *host = NULL;
    struct push_target *target = NULL;
    if (push->sender != NULL) push_sender_take(push->sender, &done);
    if (TAILQ_EMPTY(&done) && !atomic_load(&push->stops)) return;
    while ((job = TAILQ_FIRST(&done)) != NULL) {
        TAILQ_REMOVE(&done, job, next);
        job->host->in_flight--;
        push->in_flight--;
        push_job_ended(push, job);
    }
    TAILQ_FOREACH(host, &push->hosts, next) {
        host_run(push, host);
    }
    push_settle(push);
    TAILQ_FOREACH(target, &push->targets, next) {
        push_target_run(target);
    }
}
