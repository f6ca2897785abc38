/* pusher.c: the list of pushed queues, start, stop and statistics; see pusher.h. */
#include "pusher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pusher_parts.h"

#define ASK_AGAIN_MS 1000u
#define STOP_LOOK_MS 5
/* Maximum number of targets that start at once; further ones start later. Each new target opens a session, and with too
 * many at once other clients would get BUSY. */
#define BEGIN_AT_ONCE 16u
#define BEGIN_LATER_MS 20u

static void ask(struct push *push);

struct gateway_caller push_caller(struct push *push) {
    return (struct gateway_caller){.principal = gateway_own(push->gateway), .peer = "-", .client = "push"};
}

/* ---- the list of pushed queues */

static struct push_target *find(struct push *push, const char *queue) {
    struct push_target *target = NULL;
    TAILQ_FOREACH(target, &push->targets, next)
    if (strcmp(target->queue, queue) == 0) return target;
    return NULL;
}

/* Returns NULL when out of memory. */
static struct push_target *target_new(struct push *push, const char *queue) {
    struct push_target *target = calloc(1, sizeof(*target));
    if (target == NULL) return NULL;
    target->push = push;
    snprintf(target->queue, sizeof(target->queue), "%s", queue);
    pthread_mutex_lock(&push->mutex);
    TAILQ_INSERT_TAIL(&push->targets, target, next);
    pthread_mutex_unlock(&push->mutex);
    return target;
}

/* Sets the target's URL; a new URL resets failures. False: out of memory. */
static bool take_url(struct push_target *target, const char *url) {
    struct push *push = target->push;
    if (strcmp(target->url, url) == 0) return true;
    struct push_host *host = push_host_of(push, url);
    if (host == NULL) return false;
    if (target->host != NULL) push_host_release(push, target->host);
    target->host = host;
    snprintf(target->url, sizeof(target->url), "%s", url);
    target->failures = target->rests = 0;
    target->round++;
    target->is_unwell = false;
    if (target->rest != 0) gateway_timer_cancel(push->gateway, target->rest);
    target->rest = 0;
    pthread_mutex_lock(&push->mutex);
    target->numbers.error[0] = '\0';
    target->numbers.resting_until_ms = 0;
    pthread_mutex_unlock(&push->mutex);
    return true;
}

/* Applies the policy of one queue. False: out of memory. */
static bool take_view(struct push *push, const Tarry__QueueView *view) {
    struct push_target *target = find(push, view->name);
    if (view->policy == NULL || view->policy->push[0] == '\0') return true;
    if (target == NULL) target = target_new(push, view->name);
    if (target == NULL || !take_url(target, view->policy->push)) return false;
    target->is_listed = true;
    pthread_mutex_lock(&push->mutex);
    target->is_over = false;
    pthread_mutex_unlock(&push->mutex);
    return true;
}

static void run(struct push_target *target, unsigned *begun) {
    const bool begins = target->lease == 0 && target->rest == 0 && target->held == 0;
    const unsigned before = begins ? (*begun)++ / BEGIN_AT_ONCE : 0;
    if (before == 0)
        push_target_run(target);
    else
        push_target_rest(target, (uint64_t)before * BEGIN_LATER_MS);
}

static bool take_views(struct push *push, const Tarry__QueuesReply *queues) {
    struct push_target *target = NULL, *next = NULL;
    bool is_fine = true;
    unsigned begun = 0;
    TAILQ_FOREACH(target, &push->targets, next) {
        target->is_listed = false;
    }
    for (size_t i = 0; i < queues->n_queues; i++) is_fine &= take_view(push, queues->queues[i]);
    for (target = TAILQ_FIRST(&push->targets); target != NULL; target = next) {
        next = TAILQ_NEXT(target, next);
        if (target->is_listed)
            run(target, &begun);
        else
            push_target_end(target);
    }
    return is_fine;
}

static void on_retry(void *argument) {
    struct push *push = argument;
    push->retry = 0;
    ask(push);
}

static void on_queues(void *argument, const Tarry__Reply *reply) {
    struct push *push = argument;
    push->is_asking = false;
    bool is_fine = reply != NULL && reply->code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_QUEUES &&
                   take_views(push, reply->queues);
    if (!is_fine && push->retry == 0 && !atomic_load(&push->stops))
        push->retry = gateway_timer(push->gateway, ASK_AGAIN_MS, on_retry, push);
    if (is_fine && atomic_exchange(&push->changed, false)) ask(push);
}

static void ask(struct push *push) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Queues body = TARRY__QUEUES__INIT;
    if (push->is_asking || push->retry != 0) {
        atomic_store(&push->changed, true);
        return;
    }
    request.body_case = TARRY__REQUEST__BODY_QUEUES;
    request.queues = &body;
    struct gateway_caller caller = push_caller(push);
    push->is_asking = true;
    if (gateway_ask(push->gateway, &caller, &request, on_queues, push) == 0) on_queues(push, NULL);
    gateway_disown(push->gateway, caller.principal);
}

static void on_wakeup(void *argument) {
    struct push *push = argument;
    if (atomic_exchange(&push->changed, false)) ask(push);
    push_take_done(push);
}

/* ---- start and stop */

struct push *push_new(struct gateway *gateway, const struct push_options *options) {
    struct push *push = calloc(1, sizeof(*push));
    if (push == NULL) return NULL;
    push->gateway = gateway;
    push->options = *options;
    pthread_mutex_init(&push->mutex, NULL);
    TAILQ_INIT(&push->targets);
    TAILQ_INIT(&push->hosts);
    TAILQ_INIT(&push->settling);
    TAILQ_INIT(&push->committing);
    push->wakeup = gateway_wakeup(gateway, on_wakeup, push);
    if (push->wakeup != NULL) return push;
    pthread_mutex_destroy(&push->mutex);
    free(push);
    return NULL;
}

void push_changed(struct push *push) {
    atomic_store(&push->changed, true);
    gateway_wake(push->wakeup);
}

void push_stop(struct push *push) {
    const struct timespec look = {.tv_nsec = STOP_LOOK_MS * 1000000L};
    atomic_store(&push->stops, true);
    gateway_wake(push->wakeup);
    for (unsigned ms = 0; ms < PUSH_STOP_MS && atomic_load(&push->held) > 0; ms += STOP_LOOK_MS) nanosleep(&look, NULL);
    push_sender_stop(atomic_load(&push->sender)); /* The jobs are lost with the process: their leases expire. */
}

static void free_jobs(struct push *push, struct push_job_list *jobs) {
    struct push_job *job;
    while ((job = TAILQ_FIRST(jobs)) != NULL) {
        TAILQ_REMOVE(jobs, job, next);
        push_job_free(push, job);
    }
}

void push_free(struct push *push) {
    struct push_job_list jobs = TAILQ_HEAD_INITIALIZER(jobs);
    struct push_target *target = NULL;
    struct push_host *host = NULL;
    if (push == NULL) return;
    push_sender_free(push->sender, &jobs);
    TAILQ_FOREACH(host, &push->hosts, next) {
        TAILQ_CONCAT(&jobs, &host->waiting, next);
    }
    TAILQ_CONCAT(&jobs, &push->settling, next);
    TAILQ_CONCAT(&jobs, &push->committing, next);
    free_jobs(push, &jobs);
    while ((target = TAILQ_FIRST(&push->targets)) != NULL) {
        TAILQ_REMOVE(&push->targets, target, next);
        push_host_release(push, target->host);
        free(target);
    }
    pthread_mutex_destroy(&push->mutex);
    free(push);
}

/* ---- statistics */

static Tarry__PushTarget *view_of(const struct push_target *target, struct arena *arena) {
    const struct push_numbers *numbers = &target->numbers;
    struct push_sender *sender = atomic_load(&target->push->sender);
    char reason[PUSH_REASON_SIZE] = "";
    enum push_secret_state secret =
        sender != NULL ? push_sender_secret(sender, target->queue, reason) : PUSH_SECRET_UNKNOWN;
    /* An error of the sender comes first, so that a missing secret is shown before a task fails because of it. */
    const char *error = reason[0] != '\0' ? reason : numbers->error;
    size_t queue_size = strlen(target->queue) + 1, error_size = strlen(error) + 1;
    size_t url_size = strlen(target->url) + 1;
    Tarry__PushTarget *view = arena_alloc(arena, sizeof(*view));
    char *texts = arena_alloc(arena, queue_size + error_size + url_size);
    if (view == NULL || texts == NULL) return NULL;
    tarry__push_target__init(view);
    view->queue = memcpy(texts, target->queue, queue_size);
    view->error = memcpy(texts + queue_size, error, error_size);
    view->url = memcpy(texts + queue_size + error_size, target->url, url_size);
    view->signs = secret == PUSH_SECRET_PRESENT;
    view->in_flight = numbers->in_flight;
    view->sent = numbers->sent;
    view->acked = numbers->acked;
    view->failed = numbers->failed;
    view->refused = numbers->refused;
    view->status = numbers->status;
    view->succeeded_ms = numbers->succeeded_ms;
    view->failed_ms = numbers->failed_ms;
    view->resting_until_ms = numbers->resting_until_ms;
    return view;
}

bool push_stats(struct push *push, struct arena *arena, Tarry__BrokerStats *out) {
    struct push_target *target = NULL;
    size_t count = 0;
    bool is_fine = true;
    pthread_mutex_lock(&push->mutex);
    TAILQ_FOREACH(target, &push->targets, next) {
        count++;
    }
    out->push = count > 0 ? arena_alloc(arena, count * sizeof(*out->push)) : NULL;
    TAILQ_FOREACH(target, &push->targets, next) {
        if (target->is_over || out->push == NULL) continue;
        Tarry__PushTarget *view = view_of(target, arena);
        is_fine &= view != NULL;
        if (view != NULL) out->push[out->n_push++] = view;
    }
    pthread_mutex_unlock(&push->mutex);
    return is_fine && (count == 0 || out->push != NULL);
}
